//! What can go wrong between a checkpoint and a finished file.

use std::io;
use std::path::{Path, PathBuf};

/// Errors of this crate. Each names the file, key or tensor it is about; [`ConvertError::hint`] gives the remedy where
/// one is known.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConvertError {
    /// The operating system refused an operation on a file.
    #[error("{}: cannot {action}: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What was tried, as in "cannot {action}".
        action: &'static str,
        /// The system's answer.
        source: io::Error,
    },
    /// The input is no folder.
    #[error("{}: not a folder with a Hugging Face checkpoint", .path.display())]
    NotAFolder {
        /// The path given.
        path: PathBuf,
    },
    /// A file that every checkpoint has is not there.
    #[error("{}: no {missing} in this folder", .path.display())]
    MissingFile {
        /// The folder.
        path: PathBuf,
        /// What was looked for.
        missing: &'static str,
    },
    /// A JSON file that cannot be read as what it should be.
    #[error("{}: {reason}", .path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// What is wrong, with the place where there is one.
        reason: String,
    },
    /// A safetensors file with a header that is wrong or does not fit the file.
    #[error("{}: not a sound safetensors file: {reason}", .path.display())]
    Safetensors {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// Files that the index names are not there.
    #[error("{}: the index names files that are missing: {}", .index.display(), .files.join(", "))]
    MissingShards {
        /// The index.
        index: PathBuf,
        /// The missing files.
        files: Vec<String>,
    },
    /// The index and the files disagree about a tensor.
    #[error("{}: the index places tensor `{tensor}` in {expected}, but {found}", .index.display())]
    IndexMismatch {
        /// The index.
        index: PathBuf,
        /// The tensor.
        tensor: String,
        /// The file that the index names.
        expected: String,
        /// Where it is instead.
        found: String,
    },
    /// A tensor is in two files.
    #[error("tensor `{tensor}` is in {} and in {}", .first.display(), .second.display())]
    DuplicateTensor {
        /// The tensor.
        tensor: String,
        /// One file.
        first: PathBuf,
        /// The other file.
        second: PathBuf,
    },
    /// The checkpoint is quantized in a way that is not understood.
    #[error("{}: the checkpoint is quantized already ({scheme})", .path.display())]
    QuantizedSource {
        /// The configuration.
        path: PathBuf,
        /// The scheme, as the configuration names it.
        scheme: String,
    },
    /// A tensor of the checkpoint has elements that cannot be converted.
    #[error("tensor `{tensor}` has elements of type {dtype}, which cannot be converted")]
    ElementType {
        /// The tensor's name in the checkpoint.
        tensor: String,
        /// Its element type, in safetensors' terms.
        dtype: String,
    },
    /// The checkpoint lacks a tensor that the architecture needs.
    #[error("the checkpoint has no tensor `{source_name}` (for `{name}` of shape {expected:?})")]
    MissingTensor {
        /// Name in the checkpoint.
        source_name: String,
        /// Name in GGUF.
        name: String,
        /// Expected shape, contiguous dimension first.
        expected: Vec<u64>,
    },
    /// A tensor has another shape than the configuration says.
    #[error("tensor `{tensor}` has shape {found:?}, expected {expected:?}")]
    TensorShape {
        /// Name in the checkpoint.
        tensor: String,
        /// Expected shape, in the checkpoint's order: contiguous dimension last.
        expected: Vec<u64>,
        /// The shape found, in the same order.
        found: Vec<u64>,
    },
    /// The vocabulary has more tokens than the embeddings have rows.
    #[error("the tokenizer has {n_tokens} tokens, but `{tensor}` has {n_rows} rows")]
    VocabularySize {
        /// The tensor of embeddings.
        tensor: String,
        /// Tokens of the vocabulary.
        n_tokens: u64,
        /// Rows of the embeddings.
        n_rows: u64,
    },
    /// Values beyond the range of the output type.
    #[error(
        "tensor `{tensor}`: {count} values exceed the range of f16 (largest magnitude {largest:e})"
    )]
    Overflow {
        /// Name in GGUF.
        tensor: String,
        /// How many values.
        count: u64,
        /// The largest of them.
        largest: f32,
    },
    /// No output type of this name.
    #[error("output type `{name}` is unknown (known: {known})")]
    UnknownOutputType {
        /// The name given.
        name: String,
        /// All names.
        known: String,
    },
    /// An error of the architecture or of `config.json`.
    #[error(transparent)]
    Model(#[from] gristmill_model::ModelError),
    /// An error of a GGUF file.
    #[error(transparent)]
    Gguf(#[from] gristmill_gguf::Error),
    /// An error of a tensor type.
    #[error("tensor `{tensor}`: {source}")]
    Quant {
        /// The tensor.
        tensor: String,
        /// What is wrong.
        source: gristmill_quant::QuantError,
    },
}

impl ConvertError {
    /// What to do about it, where that is known.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            ConvertError::Gguf(error) => return error.hint().map(str::to_owned),
            ConvertError::Overflow { .. } => "use --outtype bf16 (or f32), which has the range",
            ConvertError::MissingShards { .. } => {
                "download the missing files; the checkpoint is incomplete"
            }
            ConvertError::IndexMismatch { .. } | ConvertError::DuplicateTensor { .. } => {
                "the files are of different downloads or edited; download the checkpoint again"
            }
            ConvertError::QuantizedSource { .. } => {
                "convert the original checkpoint in 16 or 32 bits instead"
            }
            ConvertError::NotAFolder { .. } => {
                "give the folder that holds config.json and model*.safetensors"
            }
            ConvertError::VocabularySize { .. } => {
                "the tokenizer files belong to another model, or added tokens never got embeddings"
            }
            _ => return None,
        };
        Some(hint.to_owned())
    }

    pub(crate) fn io(path: &Path, action: &'static str, source: io::Error) -> Self {
        ConvertError::Io {
            path: path.to_owned(),
            action,
            source,
        }
    }
}
