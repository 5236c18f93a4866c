//! A loaded model: KV cache, batches, sampling, chat templates.
//!
//! ```text
//! gguf::Model --Model::load--> Model --Session::new--> Session --generate--> text, piece by piece
//!                                |                        |
//!                     chat_prompt, raw_prompt        Context::decode: any batch over any sequences
//! ```
//!
//! The engine opens no path and prints nothing: it takes an opened file and hands back text, logits and figures.

mod adapter;
mod cache;
pub mod chat;
mod check_values;
pub mod constraint;
mod context;
mod embed;
mod error;
mod generate;
mod model;
mod network;
pub mod npy;
mod prompt;
pub mod reply;
mod report;
pub mod sampling;
mod saved;
mod sequences;
mod session;
mod speculative;
mod stop;

pub use adapter::{Adapter, Adapters, ControlVector};
pub use gristmill_model::{RopeOverrides, RopeScalingKind};

pub use cache::{
    CacheLayout, CacheRoom, CacheTypes, LayerShape, PAGE_LEN, PagedCache, Past, Rotation,
    SequenceId, TableLayout,
};
pub use check_values::check_values;
pub use context::{BatchToken, Context};
pub use embed::{EmbedOptions, Embedder, Vectors, cosine, normalize};
pub use error::EngineError;
pub use generate::{
    Answer, GenerateOptions, Keep, Limit, Listener, Prediction, Predictor, Step, StopReason,
    Thinking, Timings, Watch, generate,
};
pub use gristmill_model::Pooling;
pub use model::{Arithmetic, CONTEXT_MAX, DEFAULT_CACHE_BYTES_MAX, LoadOptions, Model};
pub use network::{ContextBytes, Network};
pub use prompt::{ChatPrompt, chat_prompt, raw_prompt};
pub use report::LoadReport;
pub use saved::SavedSessionError;
pub use session::{Session, all_logits, all_logits_with, batch_logits};
pub use speculative::{
    DraftCounts, DraftModel, DraftModelOptions, Drafter, Lookup, LookupOptions, LookupRule,
    Speculation,
};
pub use stop::StopMatcher;

#[cfg(test)]
mod tests;
