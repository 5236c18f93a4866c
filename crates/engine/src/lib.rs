//! A loaded model: KV cache, batches, sampling, chat templates

pub mod chat;
mod error;
pub mod sampling;
mod stop;

pub use error::EngineError;
pub use stop::StopMatcher;
