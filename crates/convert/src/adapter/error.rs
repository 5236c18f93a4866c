//! What can be wrong with an adapter.

use gristmill_model::Slot;
use std::path::PathBuf;

/// Errors of adapters; [`AdapterError::hint`] gives the remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdapterError {
    /// The folder holds no adapter.
    #[error("{}: no adapter_config.json in this folder", .path.display())]
    NoConfig {
        /// The folder.
        path: PathBuf,
    },
    /// The weights are not there, or in PyTorch's own form only.
    #[error("{}: no adapter_model.safetensors in this folder{}", .path.display(), if *.pickled { ": PyTorch's .bin files are not read" } else { "" })]
    NoWeights {
        /// The folder.
        path: PathBuf,
        /// Whether there is an `adapter_model.bin`.
        pickled: bool,
    },
    /// Something that a GGUF adapter has no place for.
    #[error("{}: `{key}` is {found}, which a GGUF adapter has no place for", .path.display())]
    Unsupported {
        /// `adapter_config.json`.
        path: PathBuf,
        /// Its key.
        key: &'static str,
        /// The value.
        found: String,
    },
    /// Weights that are no low-rank pairs.
    #[error("{}: full weights beside the low-rank pairs: {}", .path.display(), .names.join(", "))]
    FullWeights {
        /// The file of weights.
        path: PathBuf,
        /// Their names.
        names: Vec<String>,
    },
    /// Half of a pair.
    #[error("{}: `{name}` has no partner", .path.display())]
    Unpaired {
        /// The file of weights.
        path: PathBuf,
        /// The half that is there.
        name: String,
    },
    /// A pair for a matrix that the base model does not have.
    #[error("{}: `{name}` changes a matrix that the base model ({architecture}) does not have", .path.display())]
    Foreign {
        /// The file of weights.
        path: PathBuf,
        /// The first half of the pair.
        name: String,
        /// `general.architecture` of the base.
        architecture: &'static str,
    },
    /// A scale of 0.
    #[error("{}: `{key}` is 0, with which the adapter changes nothing", .path.display())]
    NoEffect {
        /// `adapter_config.json`.
        path: PathBuf,
        /// Its key.
        key: &'static str,
    },
    /// A pair that does not fit the base's matrix, or whose halves do not fit each other.
    #[error("{}: `{name}` has shape {found:?}, but the base model's matrix needs {expected:?}", .path.display())]
    Shape {
        /// The file of weights.
        path: PathBuf,
        /// The half that does not fit.
        name: String,
        /// The shape it needs, contiguous dimension last.
        expected: Vec<u64>,
        /// Its shape.
        found: Vec<u64>,
    },
    /// Nothing in the file.
    #[error("{}: no low-rank pairs for the text model", .path.display())]
    Empty {
        /// The file of weights.
        path: PathBuf,
    },
    /// The base model's description cannot be found.
    #[error("{}: the base model {} is not on this machine", .path.display(), .name.as_deref().map_or("is not named, and".to_owned(), |name| format!("\"{name}\"")))]
    NoBase {
        /// The adapter's folder.
        path: PathBuf,
        /// What the adapter says it is.
        name: Option<String>,
    },
    /// A GGUF file of another kind.
    #[error("{}: is {found}, not an adapter (LoRA)", .path.display())]
    NoAdapter {
        /// The file.
        path: PathBuf,
        /// What it is, with its article.
        found: &'static str,
    },
    /// An adapter that counts only behind certain tokens.
    #[error("{}: an activated adapter (aLoRA), which no weights can hold", .path.display())]
    Activated {
        /// The file or folder.
        path: PathBuf,
    },
    /// A change of a tensor that the model's file does not have.
    #[error("{}: changes `{name}`, which the model does not have as a tensor of its own", .path.display())]
    NoTarget {
        /// The file or folder.
        path: PathBuf,
        /// The tensor.
        name: String,
    },
    /// A change that is no number, or larger than f32 holds.
    #[error("{}: what it adds to `{name}` is not finite", .path.display())]
    NotFinite {
        /// The file or folder.
        path: PathBuf,
        /// The tensor.
        name: String,
    },
    /// A matrix of an adapter that holds what is no number.
    #[error("{}: `{name}` holds NaN or infinity", .path.display())]
    Values {
        /// The file.
        path: PathBuf,
        /// The matrix.
        name: String,
    },
    /// A recipe in place of a type.
    #[error("output type `{name}` is none of an adapter (known: auto, bf16, f16, f32, q8_0)")]
    OutputType {
        /// The type asked for.
        name: String,
    },
}

impl AdapterError {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            AdapterError::NoConfig { .. } => {
                "give the folder that PEFT's save_pretrained wrote: adapter_config.json and adapter_model.safetensors"
            }
            AdapterError::NoWeights { .. } => {
                "save the adapter as safetensors, as save_pretrained of PEFT does, or download a revision that has it"
            }
            AdapterError::Unsupported { key, .. } if *key == "invocation_string" => {
                "put the ids of its tokens into the file, as `alora_invocation_tokens`"
            }
            AdapterError::NoEffect { .. } => {
                "leave the adapter out, or write the alpha that it was trained with; programs take an alpha of 0 in GGUF for none"
            }
            AdapterError::Unsupported { .. } | AdapterError::FullWeights { .. } => {
                "merge the adapter into its base model (merge_and_unload of PEFT) and convert that"
            }
            AdapterError::Unpaired { .. } | AdapterError::Empty { .. } => {
                "the adapter is damaged or incomplete; download it again"
            }
            AdapterError::NotFinite { .. } => {
                "its scale or its values are huge: give a smaller scale with --lora-scaled, or train it again"
            }
            AdapterError::Values { .. } => {
                "compare the file's hash with its source and download it again; where that is the same, training went wrong"
            }
            AdapterError::Foreign { .. } | AdapterError::Shape { .. } => {
                "the adapter was made for another model; name its own base model with --base"
            }
            AdapterError::NoBase { .. } => {
                "name the base model's folder (config.json is enough) or its GGUF file with --base"
            }
            AdapterError::NoAdapter { .. } => {
                "name what `gristmill convert-lora` wrote, or the folder that PEFT wrote"
            }
            AdapterError::Activated { .. } => "merge only adapters that count in all of a text",
            AdapterError::NoTarget { name, .. } if name != Slot::Output.name() => {
                "the adapter was made for another model; give its own base model"
            }
            AdapterError::NoTarget { .. } => {
                "use the adapter at run time (`gristmill run --lora`), where tied tensors change apart"
            }
            AdapterError::OutputType { .. } => {
                "adapters are small and lose by quantization; f32 and f16 are usual"
            }
        }
    }
}
