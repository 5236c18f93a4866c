//! Sizes that were set, against the tensors: a model whose metadata asks for other shapes than it has does not load.

use std::collections::HashMap;

use gristmill_gguf::{Metadata, Model, Value};
use gristmill_model::{Hyperparameters, TensorSpec, tensor_specs};

use super::QuantizeOptions;
use super::metadata::append;

/// What the entries that were set contradict, a line for each of them that is to blame. What the source contradicted before
/// is none of their doing.
pub(super) fn warnings(model: &Model, options: &QuantizeOptions) -> Vec<String> {
    let set = &*options.metadata;
    // Where blocks are left out, the output has other tensors than the source.
    let has_use = !set.is_empty() && options.prune_blocks.is_empty();
    let Some(before) = specs(model.metadata(), &[]).filter(|_| has_use) else {
        return Vec::new();
    };
    let tensors = Tensors {
        before: before.iter().map(|spec| (&*spec.name, spec)).collect(),
        found: model
            .tensors()
            .iter()
            .map(|tensor| (&*tensor.name, trimmed(&tensor.dims)))
            .collect(),
    };
    let contradicted = |set: &[(String, Value)]| {
        let after = specs(model.metadata(), set)?;
        tensors.contradicted(&after)
    };
    let Some(together) = contradicted(set) else {
        return Vec::new();
    };
    let line = |set: &[(String, Value)], what: String| {
        let set = set.iter().map(|(key, value)| match value {
            Value::U32(number) => format!("{key}=int:{number}"),
            value => format!("{key}={value:?}"),
        });
        let set = set.collect::<Vec<_>>().join(", ");
        format!("`--override-kv {set}` contradicts the tensors: {what}; the output will not load")
    };
    let alone = set.chunks(1);
    let alone = alone.filter_map(|one| Some(line(one, contradicted(one)?)));
    let alone: Vec<String> = alone.collect();
    match alone.is_empty() {
        true => vec![line(set, together)],
        false => alone,
    }
}

/// The tensors that metadata asks for with these entries set; nothing where it cannot be told.
fn specs(metadata: &Metadata, set: &[(String, Value)]) -> Option<Vec<TensorSpec>> {
    let mut metadata = metadata.clone();
    for (key, value) in set {
        append(&mut metadata, key, value.clone());
    }
    let hparams = Hyperparameters::from_metadata(&metadata).ok()?;
    Some(tensor_specs(&hparams))
}

/// The tensors of a model by name, and what its own metadata asks for.
struct Tensors<'a> {
    before: HashMap<&'a str, &'a TensorSpec>,
    found: HashMap<&'a str, &'a [u64]>,
}

impl Tensors<'_> {
    /// The first tensor that is not as `after` asks for, though it is as was asked for before.
    fn contradicted(&self, after: &[TensorSpec]) -> Option<String> {
        let fits = |spec: &TensorSpec| {
            let found = self.found.get(&*spec.name);
            found.is_some_and(|found| *found == trimmed(&spec.dims))
        };
        for spec in after {
            let (name, before) = (&spec.name, self.before.get(&*spec.name));
            match self.found.get(&**name) {
                None if spec.required && before.is_none() => {
                    return Some(format!("there is no tensor {name:?}"));
                }
                Some(found) if !fits(spec) && before.is_some_and(|before| fits(before)) => {
                    let dims = trimmed(&spec.dims);
                    return Some(format!("tensor {name:?} has shape {found:?}, not {dims:?}"));
                }
                _ => {}
            }
        }
        let has_no_place = |name: &&str| {
            let is_asked_for = after.iter().any(|spec| spec.name == **name);
            self.before.contains_key(*name) && !is_asked_for
        };
        let left = self.found.keys().copied().filter(has_no_place).min()?;
        let dims = self.found.get(left)?;
        Some(format!(
            "there is no place for tensor {left:?} of shape {dims:?}"
        ))
    }
}

/// Dimensions without trailing ones.
fn trimmed(dims: &[u64]) -> &[u64] {
    let n = dims.iter().rposition(|&dim| dim != 1);
    &dims[..n.map_or(1, |last| last + 1).min(dims.len())]
}
