//! Whether a file describes a model that can be loaded. Quantization itself needs little of it, but what cannot be
//! loaded is not worth hours of work; the reference loads the description too.

use std::path::Path;

use gristmill_gguf::Metadata;
use gristmill_model::{Hyperparameters, MAX_LAYERS, ModelError, REFERENCE_ARCHITECTURES};

use crate::error::{ConvertError, Result};
use crate::recipe::ModelFacts;

/// The architecture of multimodal projectors, which no program loads as a model.
const PROJECTOR: &str = "clip";

/// Refuses a description that cannot be loaded, and gives what the mixes ask about it.
///
/// # Errors
/// An architecture that is missing or unknown, and what else stands in the way of its hyperparameters.
pub(super) fn check(path: &Path, metadata: &Metadata) -> Result<ModelFacts> {
    let wrong = |source: ModelError| ConvertError::Description {
        path: path.to_owned(),
        source: Box::new(source),
    };
    let in_file = |error: gristmill_gguf::Error| wrong(error.into());
    let name = metadata
        .required_str("general.architecture")
        .map_err(in_file)?;
    if name == PROJECTOR {
        // The reference quantizes it by its tensors alone.
    } else if gristmill_model::architecture(name).is_some() {
        match Hyperparameters::from_metadata(metadata) {
            // Experts that the architecture is not known to have cannot be run; to quantize them, a recipe asks for no more than the names of their tensors.
            Err(ModelError::Experts { .. }) => check_unloaded(name, metadata).map_err(wrong)?,
            described => drop(described.map_err(wrong)?),
        }
    } else if REFERENCE_ARCHITECTURES.contains(&name) {
        check_unloaded(name, metadata).map_err(wrong)?;
    } else {
        return Err(ConvertError::UnknownArchitecture {
            path: path.to_owned(),
            name: name.to_owned(),
        });
    }
    ModelFacts::from_metadata(metadata).map_err(|error| match error {
        ConvertError::Gguf(error) => in_file(error),
        error => error,
    })
}

/// What the reference asks of every model.
fn check_unloaded(name: &str, metadata: &Metadata) -> Result<(), ModelError> {
    for suffix in ["context_length", "embedding_length"] {
        metadata.required_u32(&format!("{name}.{suffix}"))?;
    }
    let key = format!("{name}.block_count");
    let n_layers = metadata.required_u32(&key)?;
    match usize::try_from(n_layers) {
        Ok(1..=MAX_LAYERS) => Ok(()),
        _ => Err(ModelError::Hyperparameter {
            key,
            value: n_layers.to_string(),
            reason: format!("must be from 1 to {MAX_LAYERS}"),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_architecture_that_is_not_run_needs_its_sizes() {
        let mut metadata = Metadata::new();
        metadata.set("general.architecture", "phi2");
        let refused = |metadata: &Metadata| {
            check(Path::new("a.gguf"), metadata)
                .expect_err("it is incomplete")
                .to_string()
        };
        assert_eq!(
            refused(&metadata),
            "a.gguf: metadata key \"phi2.context_length\" is missing"
        );
        for (key, value) in [
            ("context_length", 64u32),
            ("embedding_length", 32),
            ("block_count", 0),
        ] {
            metadata.set(format!("phi2.{key}"), value);
        }
        assert_eq!(
            refused(&metadata),
            "a.gguf: metadata key `phi2.block_count` is 0: must be from 1 to 512"
        );
        metadata.set("phi2.block_count", 2u32);
        let facts = check(Path::new("a.gguf"), &metadata).expect("it is complete");
        assert_eq!((facts.architecture.as_str(), facts.n_layers), ("phi2", 2));
        let mut projector = Metadata::new();
        projector.set("general.architecture", "clip");
        assert!(check(Path::new("a.gguf"), &projector).is_ok());
    }
}
