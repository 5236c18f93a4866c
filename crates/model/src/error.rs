//! What can be wrong with a model's description.

use gristmill_compute::ComputeError;

/// Errors of this crate. Each names the key or tensor it is about.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// No architecture of this name, neither as `general.architecture` nor as a Hugging Face class.
    #[error("architecture `{name}` is not supported (supported: {supported})")]
    UnknownArchitecture {
        /// The name that was looked up.
        name: String,
        /// All names that would have been understood, separated by commas.
        supported: String,
    },
    /// A GGUF file of another kind, such as an adapter or an importance matrix.
    #[error("this file is {kind}, not a model: {remedy}")]
    NotAModel {
        /// What the file is, with its article.
        kind: &'static str,
        /// What to do with it instead.
        remedy: &'static str,
    },
    /// A metadata key is missing or has another type.
    #[error(transparent)]
    Metadata(#[from] gristmill_gguf::Error),
    /// A metadata value that no model can have.
    #[error("metadata key `{key}` is {value}: {reason}")]
    Hyperparameter {
        /// Full metadata key.
        key: String,
        /// The value found.
        value: String,
        /// Why it is refused, with the expected range where there is one.
        reason: String,
    },
    /// The feed-forward part is divided among experts.
    #[error("metadata key `{key}` is {n_experts}: mixtures of experts are not supported")]
    Experts {
        /// Full metadata key.
        key: String,
        /// Number of experts.
        n_experts: u32,
    },
    /// A model whose tokens see later ones, or that has no output: it continues no text.
    #[error("architecture `{architecture}` gives embeddings here, and no logits: {reason}")]
    NoLogits {
        /// The architecture.
        architecture: &'static str,
        /// Why there are none.
        reason: &'static str,
    },
    /// A key of `config.json` is missing or has an unusable value.
    #[error("config.json: `{key}` is {found}, expected {expected}")]
    Config {
        /// The key, with dots for nesting.
        key: String,
        /// What would have been right.
        expected: &'static str,
        /// What stands there, or `missing`.
        found: String,
    },
    /// A value of `config.json` that no model can have.
    #[error("config.json: `{key}` is {value}: {reason}")]
    ConfigValue {
        /// The key, with dots for nesting.
        key: String,
        /// The value found.
        value: String,
        /// Why it is refused, with the expected range where there is one.
        reason: String,
    },
    /// A key of `config.json` asks for something that the architecture cannot say or do.
    #[error(
        "config.json: `{key}` is {found}, which architecture `{architecture}` has no place for (supported: {supported})"
    )]
    UnsupportedConfig {
        /// The key, with dots for nesting.
        key: String,
        /// What stands there.
        found: String,
        /// Name of the architecture.
        architecture: &'static str,
        /// What it may be.
        supported: &'static str,
    },
    /// The file has metadata and a vocabulary but no tensors.
    #[error(
        "the file holds a vocabulary only and no weights: it can be tokenized with, but not run"
    )]
    VocabularyOnly,
    /// A tensor the architecture needs is not there.
    #[error("tensor `{name}` is missing (expected shape {expected:?})")]
    MissingTensor {
        /// GGUF name, or the checkpoint's name during conversion.
        name: String,
        /// Expected shape, contiguous dimension first.
        expected: Vec<u64>,
    },
    /// A tensor has another shape than the hyperparameters ask for.
    #[error("tensor `{name}` has shape {found:?}, expected {expected:?}")]
    TensorShape {
        /// GGUF name.
        name: String,
        /// Expected shape, contiguous dimension first.
        expected: Vec<u64>,
        /// The shape in the file.
        found: Vec<u64>,
    },
    /// A tensor that the architecture has no use for.
    #[error(
        "tensor `{name}` of shape {found:?} is unknown to architecture `{architecture}` with {n_layers} layers"
    )]
    UnknownTensor {
        /// GGUF name.
        name: String,
        /// Name of the architecture.
        architecture: &'static str,
        /// The shape in the file.
        found: Vec<u64>,
        /// Number of layers.
        n_layers: usize,
    },
    /// The number of caches is not the number of layers.
    #[error("{found} KV cache layers given for a model of {expected} layers")]
    CacheLayers {
        /// Layers of the model.
        expected: usize,
        /// Caches given.
        found: usize,
    },
    /// An adapter of a kind that is not known.
    #[error("adapter.type is {found}, and only lora is known")]
    AdapterKind {
        /// The entry's value, or `missing`.
        found: String,
    },
    /// An adapter for models of another architecture.
    #[error("the adapter is for architecture {adapter}, the model's is {base}")]
    AdapterArchitecture {
        /// The adapter's.
        adapter: String,
        /// The model's.
        base: &'static str,
    },
    /// A tensor of an adapter that cannot be applied.
    #[error("adapter tensor `{name}`: {reason}")]
    AdapterTensor {
        /// Name in the adapter.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A tensor of an adapter for a matrix that the model does not have.
    #[error("adapter tensor `{name}`: the model ({base}) has no matrix of this name")]
    AdapterForeign {
        /// Name in the adapter.
        name: String,
        /// The model's architecture.
        base: &'static str,
    },
    /// Half of a pair of an adapter.
    #[error("adapter tensor `{name}`: its partner is missing")]
    AdapterUnpaired {
        /// The half that is there.
        name: String,
    },
    /// An adapter without a pair.
    #[error("the adapter holds no low-rank pairs")]
    AdapterEmpty,
    /// A tensor of an adapter that does not fit the model's.
    #[error("adapter tensor `{name}` has shape {found:?}, the model needs {expected:?}")]
    AdapterShape {
        /// Name in the adapter.
        name: String,
        /// Expected shape, contiguous dimension first.
        expected: Vec<u64>,
        /// The shape in the file.
        found: Vec<u64>,
    },
    /// The graph could not be built.
    #[error(transparent)]
    Compute(#[from] ComputeError),
}

impl ModelError {
    /// What to do about it, where a remedy is known.
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            ModelError::Metadata(error) => return error.hint(),
            ModelError::Experts { .. } => "use a dense model of the family, or update gristmill",
            ModelError::UnknownArchitecture { .. } => {
                "use a model of a supported architecture, or update gristmill"
            }
            ModelError::UnsupportedConfig { .. } => {
                "the model would compute something else than its authors' code; update gristmill, or use another model"
            }
            ModelError::VocabularyOnly => {
                "use a file with weights; this one is good for `gristmill tokenize` and `gristmill inspect`"
            }
            ModelError::MissingTensor { .. }
            | ModelError::TensorShape { .. }
            | ModelError::UnknownTensor { .. } => {
                "the file does not fit its own description; compare its hash with its source, or convert the model again"
            }
            ModelError::NoLogits { .. } => {
                "`gristmill embed` makes vectors of texts with it; use another model to continue a text"
            }
            ModelError::AdapterArchitecture { .. }
            | ModelError::AdapterForeign { .. }
            | ModelError::AdapterShape { .. } => {
                "the adapter was made for another model; give its own base model"
            }
            ModelError::AdapterUnpaired { .. } | ModelError::AdapterEmpty => {
                "the adapter is damaged or incomplete; convert or download it again"
            }
            ModelError::AdapterTensor { .. } | ModelError::AdapterKind { .. } => {
                "merge the adapter into its base model where it was trained and convert that, or get an adapter of low-rank pairs only"
            }
            ModelError::Hyperparameter { .. } => {
                "the metadata is damaged or edited; convert the model again"
            }
            ModelError::Config { .. } | ModelError::ConfigValue { .. } => {
                "config.json is damaged or edited; download it again with the checkpoint"
            }
            // Its message has the remedy in it; the others are faults of the program.
            ModelError::NotAModel { .. }
            | ModelError::CacheLayers { .. }
            | ModelError::Compute(_) => return None,
        })
    }
}
