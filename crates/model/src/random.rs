//! Tiny models with random weights, so that a test can loop over the registry.

use crate::arch::Class;
use crate::tensors::{Slot, TensorSpec, tensor_specs};
use crate::{Architecture, Config, Hyperparameters, ModelError};
use gristmill_gguf::Metadata;

/// Small enough for a test, uneven enough to tell dimensions apart: heads wider than the stream, fewer key heads,
/// and as many layers as a window pattern of 6 needs to come round.
const CONFIG: &str = r#"{
    "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 7, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 256, "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0, "rope_local_base_freq": 5000.0, "sliding_window": 8, "vocab_size": 96
}"#;

/// A model without a vocabulary and with random weights.
#[derive(Clone, Debug)]
pub struct RandomModel {
    /// Enough metadata to load it.
    pub metadata: Metadata,
    /// All tensors of its table, optional ones included.
    pub tensors: Vec<RandomTensor>,
}

/// A tensor of a [`RandomModel`].
#[derive(Clone, Debug)]
pub struct RandomTensor {
    /// GGUF name.
    pub name: String,
    /// Shape, contiguous dimension first.
    pub dims: Vec<u64>,
    /// Its values, in order of memory.
    pub values: Vec<f32>,
}

/// What the configurations of classes with experts have besides.
const EXPERTS: &[(&str, &str)] = &[
    ("num_local_experts", "6"),
    ("num_experts", "6"),
    ("num_experts_per_tok", "2"),
    ("moe_intermediate_size", "24"),
    ("norm_topk_prob", "true"),
];

/// A tiny model of an architecture: of its first class. Equal seeds give equal models.
///
/// # Errors
/// None for a sound architecture: what its configuration or hyperparameters refuse.
pub fn random_model(
    architecture: &'static Architecture,
    seed: u64,
) -> Result<RandomModel, ModelError> {
    match architecture.classes {
        [class, ..] => random_model_of(class, seed),
        [] => Err(crate::arch::unknown("", crate::arch::class_names())),
    }
}

/// A tiny model of a Hugging Face class. Equal seeds give equal models.
///
/// # Errors
/// As [`random_model`].
pub fn random_model_of(class: &Class, seed: u64) -> Result<RandomModel, ModelError> {
    let mut start = format!("{{\"architectures\": [\"{}\"],", class.name);
    for (key, value) in EXPERTS.iter().filter(|(key, _)| class.knows(key)) {
        start += &format!("\"{key}\": {value},");
    }
    let text = CONFIG.replacen('{', &start, 1);
    let config = Config::parse(&text)?;
    let mut metadata = Metadata::new();
    metadata.set("general.architecture", config.architecture.name);
    config.write_metadata(0, &mut metadata)?;
    // Without a list of tokens the size of the vocabulary must be said.
    metadata.set(
        format!("{}.vocab_size", config.architecture.name),
        config.integer("vocab_size")?.unwrap_or(1),
    );
    let hparams = Hyperparameters::from_metadata(&metadata)?;
    let mut random = Random(seed);
    let tensors = tensor_specs(&hparams)
        .into_iter()
        .map(|spec| random.tensor(spec))
        .collect();
    Ok(RandomModel { metadata, tensors })
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Uniform, of mean 0 and variance 1.
    fn value(&mut self) -> f32 {
        let unit = (self.next() >> 40) as f32 / (1u64 << 24) as f32;
        (unit - 0.5) * 12f32.sqrt()
    }

    fn tensor(&mut self, spec: TensorSpec) -> RandomTensor {
        let n_values: u64 = spec.dims.iter().product();
        let row_len = spec.dims.first().copied().unwrap_or(1);
        let (mean, deviation) = match spec.slot {
            Slot::TokenEmbd => (0.0, 0.3),
            Slot::RopeFreqs | Slot::RopeFactorsLong | Slot::RopeFactorsShort => (2.0, 0.5),
            _ if spec.name.ends_with("norm.weight") => (1.0, 0.1),
            _ if spec.name.ends_with(".bias") => (0.0, 0.1),
            _ => (0.0, 1.0 / (row_len as f32).sqrt()),
        };
        let values = (0..n_values)
            .map(|_| mean + deviation * self.value())
            .collect();
        RandomTensor {
            name: spec.name,
            dims: spec.dims,
            values,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ARCHITECTURES, check_tensors};

    #[test]
    fn every_architecture_has_a_random_model_that_passes_its_own_check() {
        let classes = ARCHITECTURES.iter().flat_map(|known| known.classes);
        for class in classes {
            let model = random_model_of(class, 1).unwrap();
            let hparams = Hyperparameters::from_metadata(&model.metadata).unwrap();
            let tensors = model
                .tensors
                .iter()
                .map(|tensor| (tensor.name.as_str(), tensor.dims.as_slice()));
            let present = check_tensors(&hparams, tensors).unwrap();
            assert_eq!(present.len(), model.tensors.len(), "{}", class.name);
            let again = random_model_of(class, 1).unwrap();
            assert_eq!(again.tensors[0].values, model.tensors[0].values);
            let other = random_model_of(class, 2).unwrap();
            assert_ne!(other.tensors[0].values, model.tensors[0].values);
        }
    }
}
