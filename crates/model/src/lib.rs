//! Architectures: names, hyperparameters, tensor tables and graphs.
//!
//! An architecture is data first: its names in GGUF and Hugging Face, how `config.json` becomes metadata, its tensor
//! table, and its choices where blocks differ. The converter, the loader and every check read the same table.
//!
//! ```text
//! config.json --Config--> metadata --Hyperparameters--> tensor_specs --Weights::bind--> build --> graph
//! ```

mod adapter;
pub mod arch;
mod block;
pub mod config;
mod decoder;
mod error;
mod hyperparameters;
mod random;
mod reference;
mod tensors;
mod weights;

pub use adapter::{AdapterDescription, AdapterPair, check_adapter};
pub use arch::{
    ARCHITECTURES, Architecture, HabitValue, TextPart, TokenizerHabit, architecture,
    architecture_of_config,
};
pub use config::{Config, ReverseSource, Reversed};
pub use decoder::{build, build_hidden, build_scores, ropes};
pub use error::ModelError;
pub use hyperparameters::{
    ExpertHyperparameters, Hyperparameters, LayerHyperparameters, MAX_LAYERS, Pooling,
    RopeOverrides, RopeParameters, RopeScaling, RopeScalingKind,
};
pub use random::{RandomModel, RandomTensor, random_model, random_model_of};
pub use reference::{REFERENCE_ARCHITECTURES, REFERENCE_KEY_TYPES};
pub use tensors::{
    BlockWeights, Compute, Dim, ExpertNames, ExpertPart, ExpertSource, Heads, Presence,
    RowTransform, Slot, Source, SpecSource, TensorRow, TensorSpec, Transform, Weights,
    tensor_specs,
};
pub use weights::check_tensors;
