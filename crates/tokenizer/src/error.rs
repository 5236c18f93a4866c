//! What can be wrong with the tokenizer in a file's metadata.

/// Why a vocabulary cannot be used. Every variant that concerns one entry names its key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenizerError {
    /// A metadata entry is missing or has the wrong type.
    #[error(transparent)]
    Metadata(#[from] gristmill_gguf::Error),
    /// `tokenizer.ggml.model` names a kind that is not implemented.
    #[error(
        "tokenizer.ggml.model is \"{kind}\"; tokenizers of the kinds \"gpt2\" (byte-level BPE), \"llama\" (SentencePiece BPE) and \"bert\" (WordPiece) are implemented"
    )]
    UnsupportedKind {
        /// The value in the file.
        kind: String,
    },
    /// The file has no vocabulary at all.
    #[error(
        "tokenizer.ggml.model is \"{kind}\": the file has no vocabulary, so text cannot be tokenized"
    )]
    NoVocabulary {
        /// The value in the file.
        kind: String,
    },
    /// `tokenizer.ggml.pre` names a pre-tokenizer that is not known.
    #[error(
        "tokenizer.ggml.pre is \"{name}\", an unknown pre-tokenizer; the nearest known name is \"{nearest}\""
    )]
    UnknownPreTokenizer {
        /// The value in the file.
        name: String,
        /// A known name that resembles it.
        nearest: &'static str,
    },
    /// An entry has a type that the tokenizer cannot use.
    #[error("{key} must be {expected}, but is {found}")]
    WrongType {
        /// The metadata key.
        key: &'static str,
        /// What it must be.
        expected: &'static str,
        /// What it is.
        found: String,
    },
    /// An array is shorter or longer than the list of tokens.
    #[error("{key} has {found} entries, but there are {expected} tokens in tokenizer.ggml.tokens")]
    WrongLength {
        /// The metadata key.
        key: &'static str,
        /// The number of tokens.
        expected: usize,
        /// The number of entries.
        found: usize,
    },
    /// `tokenizer.ggml.tokens` is empty, or longer than token ids can count.
    #[error("tokenizer.ggml.tokens has {n_tokens} entries; 1 to 2147483647 are possible")]
    TokenCount {
        /// The number of tokens.
        n_tokens: usize,
    },
    /// Two tokens have the same text.
    #[error("tokenizer.ggml.tokens: tokens {first} and {second} are both {text:?}")]
    DuplicateToken {
        /// The lower id.
        first: u32,
        /// The higher id.
        second: u32,
        /// Their text.
        text: String,
    },
    /// A special token's id is not in the vocabulary.
    #[error("{key} is {id}, but there are only {n_tokens} tokens in tokenizer.ggml.tokens")]
    IdOutOfRange {
        /// The metadata key.
        key: &'static str,
        /// The value in the file.
        id: u64,
        /// The number of tokens.
        n_tokens: usize,
    },
    /// The file asks to add a special token that it does not define.
    #[error("{key} is true, but the file defines no such token ({id_key} is missing)")]
    NoTokenToAdd {
        /// The metadata key that asks for it.
        key: &'static str,
        /// The metadata key that would define it.
        id_key: &'static str,
    },
    /// A merge is not two parts with a space between them.
    #[error(
        "tokenizer.ggml.merges: entry {index} is {text:?}, but must be two parts with a space between them"
    )]
    BadMerge {
        /// Index in the array.
        index: usize,
        /// The entry.
        text: String,
    },
}

impl TokenizerError {
    /// What to do about it, where a remedy is known.
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            TokenizerError::Metadata(error) => return error.hint(),
            TokenizerError::UnsupportedKind { .. } => {
                "use a model with one of these tokenizers, or update gristmill"
            }
            TokenizerError::NoVocabulary { .. } => "use a file with a vocabulary",
            TokenizerError::UnknownPreTokenizer { .. } => {
                "convert the model again, with `--tokenizer-pre NAME` if its pre-tokenizer is a known one; or update gristmill"
            }
            TokenizerError::WrongType { .. }
            | TokenizerError::WrongLength { .. }
            | TokenizerError::TokenCount { .. }
            | TokenizerError::DuplicateToken { .. }
            | TokenizerError::IdOutOfRange { .. }
            | TokenizerError::NoTokenToAdd { .. }
            | TokenizerError::BadMerge { .. } => {
                "the vocabulary is damaged, or was made by a faulty tool; convert the model again from its original checkpoint"
            }
        })
    }
}
