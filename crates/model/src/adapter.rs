//! Low-rank adapters in GGUF: their tensors, held against the tensor table of the base model.

use crate::tensors::{TensorSpec, tensor_specs};
use crate::weights::trimmed;
use crate::{Hyperparameters, ModelError};
use gristmill_gguf::{Array, Metadata, Value};
use std::collections::{BTreeMap, HashMap};

/// What a file says of an adapter, fit for a base model.
#[derive(Clone, Debug)]
pub struct AdapterDescription {
    /// The changed tensors, by name.
    pub pairs: Vec<AdapterPair>,
    /// The token ids from which on the adapter is to be applied; none where it always is.
    pub invocation_tokens: Vec<u32>,
}

/// A low-rank change of a tensor: `scale * b a` is added to it.
#[derive(Clone, Debug)]
pub struct AdapterPair {
    /// The tensor of the base.
    pub spec: TensorSpec,
    /// Names of the two matrices in the file.
    pub names: [String; 2],
    /// What they share.
    pub rank: u64,
    /// The factor of their product at a user's scale of 1.
    pub scale: f32,
}

impl AdapterPair {
    /// Whether it changes rows that are looked up, and not products.
    pub fn is_lookup(&self) -> bool {
        self.spec.slot.is_table()
    }
}

/// Holds an adapter's metadata and tensors (names and shapes) against a base model.
///
/// # Errors
/// `AdapterKind`, `AdapterArchitecture`, `AdapterTensor`, `AdapterForeign`, `AdapterUnpaired`, `AdapterEmpty` and `AdapterShape`;
/// entries of a wrong type.
pub fn check_adapter<'a>(
    hparams: &Hyperparameters,
    metadata: &Metadata,
    tensors: impl IntoIterator<Item = (&'a str, &'a [u64])>,
) -> Result<AdapterDescription, ModelError> {
    let kind = metadata.str("adapter.type")?.unwrap_or("missing");
    if kind != "lora" {
        return Err(ModelError::AdapterKind {
            found: kind.to_owned(),
        });
    }
    let adapter = metadata.required_str("general.architecture")?;
    let base = hparams.architecture.name;
    if adapter != base {
        return Err(ModelError::AdapterArchitecture {
            adapter: adapter.to_owned(),
            base,
        });
    }
    let alpha = match metadata.get("adapter.lora.alpha") {
        Some(Value::F32(alpha)) if alpha.is_finite() => *alpha,
        None => 0.0,
        Some(other) => return Err(wrong("adapter.lora.alpha", other, "a finite FLOAT32")),
    };
    let invocation_tokens = match metadata.get("adapter.alora.invocation_tokens") {
        Some(Value::Array(Array::U32(tokens))) => tokens.clone(),
        None => Vec::new(),
        Some(other) => {
            let key = "adapter.alora.invocation_tokens";
            return Err(wrong(key, other, "an ARRAY of UINT32"));
        }
    };
    let specs = tensor_specs(hparams).into_iter();
    let mut specs: HashMap<String, TensorSpec> =
        specs.map(|spec| (spec.name.clone(), spec)).collect();
    let mut pairs = Vec::new();
    for (name, halves) in halves(tensors)? {
        let both = match halves {
            [Some(a), Some(b)] => [a, b],
            [Some(_), None] => return Err(alone(&name, "a")),
            _ => return Err(alone(&name, "b")),
        };
        let spec = specs
            .remove(&name)
            .ok_or_else(|| ModelError::AdapterForeign {
                name: format!("{name}.lora_a"),
                base,
            })?;
        pairs.push(pair(spec, both, alpha)?);
    }
    match pairs.is_empty() {
        true => Err(ModelError::AdapterEmpty),
        false => Ok(AdapterDescription {
            pairs,
            invocation_tokens,
        }),
    }
}

fn wrong(key: &str, found: &Value, expected: &str) -> ModelError {
    ModelError::Hyperparameter {
        key: key.to_owned(),
        value: format!("a {}", found.value_type()),
        reason: format!("it must be {expected}"),
    }
}

fn alone(name: &str, half: &str) -> ModelError {
    ModelError::AdapterUnpaired {
        name: format!("{name}.lora_{half}"),
    }
}

/// The two shapes of each changed tensor.
type Halves<'a> = BTreeMap<String, [Option<&'a [u64]>; 2]>;

fn halves<'a>(
    tensors: impl IntoIterator<Item = (&'a str, &'a [u64])>,
) -> Result<Halves<'a>, ModelError> {
    let mut halves = Halves::new();
    for (name, dims) in tensors {
        let half = [".lora_a", ".lora_b"].iter().enumerate();
        let mut half = half.filter_map(|(half, end)| Some((name.strip_suffix(end)?, half)));
        let Some((base, half)) = half.next() else {
            return Err(ModelError::AdapterTensor {
                name: name.to_owned(),
                reason: "it is full weights, no half of a low-rank pair".to_owned(),
            });
        };
        halves.entry(base.to_owned()).or_default()[half] = Some(dims);
    }
    Ok(halves)
}

/// Checks the shapes of a pair: `[n_in, rank]` and `[rank, n_out]`, and as many of both as the tensor has experts.
fn pair(spec: TensorSpec, shapes: [&[u64]; 2], alpha: f32) -> Result<AdapterPair, ModelError> {
    let [a, b] = shapes;
    let names = ["a", "b"].map(|half| format!("{}.lora_{half}", spec.name));
    let rank = b.first().copied().unwrap_or(0);
    let wrong = |reason: &str| {
        let ([_, name], reason) = (names.clone(), reason.to_owned());
        ModelError::AdapterTensor { name, reason }
    };
    let &[n_in, n_out, ref experts @ ..] = &*spec.dims else {
        return Err(wrong("it changes a vector, and only matrices can be"));
    };
    if rank == 0 {
        return Err(wrong("it has no rank"));
    }
    let (first, second) = match spec.slot.is_table() {
        true => ([rank, n_out], [rank, n_in]),
        false => ([n_in, rank], [rank, n_out]),
    };
    let [name_a, name_b] = names.clone();
    for (name, found, expected) in [(name_a, a, first), (name_b, b, second)] {
        let expected = [&expected, experts].concat();
        if trimmed(found) != trimmed(&expected) {
            return Err(ModelError::AdapterShape {
                name,
                expected,
                found: found.to_vec(),
            });
        }
    }
    Ok(AdapterPair {
        names,
        rank,
        // As the reference has it: without an alpha, the product counts as it is.
        scale: if alpha == 0.0 {
            1.0
        } else {
            alpha / rank as f32
        },
        spec,
    })
}
