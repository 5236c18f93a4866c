//! Checkpoint in, GGUF out: import of weights, configuration and tokenizers; recipes; quantization.
//!
//! ```text
//! folder --Checkpoint--> plan --stream: transform, cast--> gguf::Writer
//!    config.json, safetensors     every output tensor, before a byte of weights is read
//! ```

mod error;
mod progress;
pub mod source;

pub use error::ConvertError;
pub use progress::{Event, Progress};
