//! What a GGUF file is for.

use crate::metadata::Metadata;
use crate::value::Value;

/// What a file is for, by `general.type`, `general.architecture` and whether it has tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// A model with weights.
    Model,
    /// A vocabulary without weights.
    Vocabulary,
    /// An importance matrix, made from activations.
    Imatrix,
    /// A low-rank adapter for a model.
    Adapter,
    /// The part of a multimodal model that turns images or sound into embeddings.
    Projector,
    /// A direction to steer a model's activations.
    ControlVector,
}

impl Kind {
    pub(crate) fn of(metadata: &Metadata, n_tensors: usize) -> Kind {
        let text = |key| {
            metadata
                .get(key)
                .and_then(Value::as_text)
                .map_or(&b""[..], |text| text.as_bytes())
        };
        match (text("general.type"), text("general.architecture")) {
            (b"imatrix", _) => Kind::Imatrix,
            (b"adapter", _) => Kind::Adapter,
            (b"mmproj", _) | (_, b"clip") => Kind::Projector,
            (_, b"controlvector") => Kind::ControlVector,
            _ if n_tensors == 0 => Kind::Vocabulary,
            _ => Kind::Model,
        }
    }

    /// The kind as one word, for machines.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Model => "model",
            Kind::Vocabulary => "vocabulary",
            Kind::Imatrix => "imatrix",
            Kind::Adapter => "adapter",
            Kind::Projector => "mmproj",
            Kind::ControlVector => "controlvector",
        }
    }

    /// The kind in words, as in "is an adapter (LoRA)".
    pub fn description(self) -> &'static str {
        match self {
            Kind::Model => "a model",
            Kind::Vocabulary => "a vocabulary without weights",
            Kind::Imatrix => "an importance matrix (imatrix)",
            Kind::Adapter => "an adapter (LoRA)",
            Kind::Projector => "a multimodal projector (mmproj)",
            Kind::ControlVector => "a control vector",
        }
    }
}
