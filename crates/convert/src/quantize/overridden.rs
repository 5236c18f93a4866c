//! What overrides make of a description: entries with which the output would not load are refused before it is opened. What
//! is wrong with the source already is none of their doing.

use std::collections::HashMap;

use gristmill_gguf::{KnownType, Metadata, Model, Value, ValueType, known_key, limits};
use gristmill_model::{Hyperparameters, ModelError, REFERENCE_KEY_TYPES, TensorSpec, tensor_specs};
use gristmill_tokenizer::{Tokenizer, TokenizerError};

use super::metadata::append;
use super::{QuantizeOptions, description};
use crate::error::{ConvertError, Result};

/// An entry to set.
type Entry = (String, Value);

/// Refuses entries with which the output would not load, and names those to blame. What only may keep it from loading is
/// given back as warnings.
///
/// # Errors
/// [`ConvertError::SplitKey`], [`ConvertError::BadOverride`].
pub(super) fn check(model: &Model, options: &QuantizeOptions) -> Result<Vec<String>> {
    let set = &*options.metadata;
    if let Some((key, _)) = set.iter().find(|(key, _)| key.starts_with("split.")) {
        return Err(ConvertError::SplitKey { key: key.clone() });
    }
    if set.is_empty() {
        return Ok(Vec::new());
    }
    let source = Source::of(model, options);
    let Some(together) = source.fault(set) else {
        return Ok(source.doubts(set));
    };
    let alone = |one| Some((one, source.fault(one)?));
    let (entries, reason) = set.chunks(1).find_map(alone).unwrap_or((set, together));
    let entries: Vec<String> = entries.iter().map(as_given).collect();
    Err(ConvertError::BadOverride {
        entries: entries.join(", "),
        reason,
    })
}

/// An entry as the command line has it.
fn as_given((key, value): &Entry) -> String {
    match value {
        Value::F32(number) => format!("{key}=float:{number}"),
        Value::Bool(value) => format!("{key}=bool:{value}"),
        Value::String(text) => format!("{key}=str:{}", text.to_str_lossy()),
        value => match value.as_integer() {
            Some(number) => format!("{key}=int:{number}"),
            None => format!("{key}={value:?}"),
        },
    }
}

/// The source, and what it is good for without the entries.
struct Source<'a> {
    model: &'a Model,
    /// Where blocks are left out, the output has other tensors than the source.
    tensors: Option<Vec<TensorSpec>>,
    /// Why it cannot be loaded as it is.
    fault: Option<String>,
    is_run: bool,
    tokenizer: std::result::Result<Tokenizer, TokenizerError>,
}

impl<'a> Source<'a> {
    fn of(model: &'a Model, options: &QuantizeOptions) -> Self {
        let metadata = model.metadata();
        let hparams = Hyperparameters::from_metadata(metadata).ok();
        let has_all = options.prune_blocks.is_empty();
        Source {
            model,
            is_run: hparams.is_some(),
            tensors: hparams.as_ref().filter(|_| has_all).map(tensor_specs),
            fault: described(model, metadata),
            tokenizer: Tokenizer::from_metadata(metadata),
        }
    }

    /// The metadata with these entries set.
    fn with(&self, set: &[Entry]) -> Metadata {
        let mut metadata = self.model.metadata().clone();
        for (key, value) in set {
            append(&mut metadata, key, value.clone());
        }
        metadata
    }

    /// Why the output would not load with these entries, though it would without them.
    fn fault(&self, set: &[Entry]) -> Option<String> {
        let metadata = self.with(set);
        let entries = || set.iter();
        entries()
            .find_map(Self::wrong_type)
            .or_else(|| entries().find_map(bad_alignment))
            .or_else(|| self.bad_experts(set, &metadata))
            .or_else(|| {
                described(self.model, &metadata).filter(|fault| Some(fault) != self.fault.as_ref())
            })
            .or_else(|| self.bad_sizes(&metadata))
            .or_else(|| self.bad_vocabulary(set, &metadata))
    }

    /// A value of another kind than the reference reads.
    fn wrong_type((key, value): &Entry) -> Option<String> {
        let read = |(_, suffix): (&str, &str)| {
            let mut keys = REFERENCE_KEY_TYPES.iter();
            keys.find(|(known, _)| *known == suffix)
                .map(|(_, ty)| KnownType::One(*ty))
        };
        let expected = match known_key(key) {
            Some(known) => known.is_demanded.then_some(known.ty),
            None => read(key.split_once('.')?),
        };
        let Some(KnownType::One(expected)) = expected else {
            return None;
        };
        let (wanted, found) = (kind_of(expected), kind_of(value.value_type()));
        (wanted != found).then(|| format!("{key} is {expected}; write it as {key}={wanted}:VALUE"))
    }

    /// Numbers of experts that the tensors do not have.
    fn bad_experts(&self, set: &[Entry], metadata: &Metadata) -> Option<String> {
        let name = metadata.str("general.architecture").ok().flatten()?;
        let number = |suffix: &str| {
            let key = format!("{name}.{suffix}");
            metadata.u32(&key).ok().flatten().unwrap_or(0)
        };
        let is_set = |suffix: &str| {
            set.iter()
                .any(|(key, _)| *key == format!("{name}.{suffix}"))
        };
        let (count, used) = (number("expert_count"), number("expert_used_count"));
        let is_stacked = |name: &str| name.contains("_exps.");
        let mut tensors = self.model.tensors().iter();
        let stacked = tensors.find(|tensor| is_stacked(&tensor.name) && tensor.dims.len() == 3);
        if is_set("expert_count") {
            match stacked {
                None if count > 0 => return Some("the model has no tensors of experts".to_owned()),
                Some(tensor) if tensor.dims[2] != u64::from(count) => {
                    let (name, found) = (&tensor.name, tensor.dims[2]);
                    return Some(format!("tensor {name:?} has {found} experts, not {count}"));
                }
                _ => {}
            }
        }
        let is_possible = used <= count && (used > 0 || count == 0);
        (is_set("expert_used_count") && !is_possible)
            .then(|| format!("{used} of {count} experts cannot be used"))
    }

    /// Sizes that the tensors do not have, and what no loader makes a model of.
    fn bad_sizes(&self, metadata: &Metadata) -> Option<String> {
        match Hyperparameters::from_metadata(metadata) {
            Ok(hparams) => {
                let before = self.tensors.as_ref()?;
                let tensors = Tensors {
                    before: before.iter().map(|spec| (&*spec.name, spec)).collect(),
                    found: self
                        .model
                        .tensors()
                        .iter()
                        .map(|tensor| (&*tensor.name, trimmed(&tensor.dims)))
                        .collect(),
                };
                tensors.contradicted(&tensor_specs(&hparams))
            }
            // Another program may load what this one has no table of.
            Err(ModelError::UnknownArchitecture { .. }) => None,
            Err(error) => self.is_run.then(|| error.to_string()),
        }
    }

    /// A vocabulary that was good, and ids of tokens that it does not have.
    fn bad_vocabulary(&self, set: &[Entry], metadata: &Metadata) -> Option<String> {
        let is_of_tokenizer = |(key, _): &Entry| key.starts_with("tokenizer.");
        if !set.iter().any(is_of_tokenizer) {
            return None;
        }
        match (Tokenizer::from_metadata(metadata), &self.tokenizer) {
            (Ok(_), _) | (Err(TokenizerError::UnknownPreTokenizer { .. }), Ok(_)) => None,
            (Err(fault), Ok(_)) => Some(fault.to_string()),
            (Err(_), Err(_)) => {
                // Of a kind that this program does not read, ids can be compared all the same.
                let n_tokens = metadata
                    .array("tokenizer.ggml.tokens")
                    .ok()
                    .flatten()?
                    .len();
                let beyond = |(key, value): &Entry| {
                    let id = value.as_integer()?;
                    (key.starts_with("tokenizer.ggml.") && key.ends_with("_token_id"))
                        .then_some(id)
                        .filter(|id| usize::try_from(*id).map_or(true, |id| id >= n_tokens))
                };
                let id = set.iter().find_map(beyond)?;
                Some(format!("there is no token {id}, but {n_tokens} tokens"))
            }
        }
    }

    /// What keeps some programs from loading the output, or means nothing to all.
    fn doubts(&self, set: &[Entry]) -> Vec<String> {
        let metadata = self.with(set);
        let Ok(before) = &self.tokenizer else {
            return Vec::new();
        };
        let doubts = match Tokenizer::from_metadata(&metadata) {
            Ok(after) => {
                let is_new = |warning: &&String| !before.warnings().contains(warning);
                after.warnings().iter().filter(is_new).cloned().collect()
            }
            Err(fault) => vec![format!("{fault}; gristmill will not load the output")],
        };
        let doubt = |doubt: String| format!("--override-kv: {doubt}");
        doubts.into_iter().map(doubt).collect()
    }
}

/// Why a description cannot be loaded.
fn described(model: &Model, metadata: &Metadata) -> Option<String> {
    match description::check(model.path(), metadata).err()? {
        ConvertError::Description { source, .. } => Some(source.to_string()),
        ConvertError::UnknownArchitecture { name, .. } => Some(format!(
            "no known model has the architecture {name:?} (gristmill runs {})",
            gristmill_model::arch::names().join(", ")
        )),
        other => Some(other.to_string()),
    }
}

/// The types of command lines.
fn kind_of(ty: ValueType) -> &'static str {
    match ty {
        ValueType::String => "str",
        ValueType::Bool => "bool",
        ValueType::F32 | ValueType::F64 => "float",
        _ => "int",
    }
}

/// An alignment that no writer can use, or that llama.cpp does not read.
fn bad_alignment((key, value): &Entry) -> Option<String> {
    if key != "general.alignment" {
        return None;
    }
    let most = limits::WRITTEN_ALIGNMENT;
    let is_good = |alignment: &u32| {
        alignment.is_power_of_two() && *alignment >= 8 && u64::from(*alignment) <= most
    };
    match value {
        Value::U32(alignment) if is_good(alignment) => None,
        _ => Some(format!("an alignment is a power of two from 8 to {most}")),
    }
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
