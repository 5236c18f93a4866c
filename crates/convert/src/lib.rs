//! Checkpoint in, GGUF out: import of weights, configuration and tokenizers; recipes; quantization.
//!
//! ```text
//! folder --Checkpoint--> Plan --Stream: transform, cast--> gguf::Writer
//!    config.json, safetensors     every output tensor, before a byte of weights is read
//! ```

mod adapter;
mod authorship;
mod checkpoint;
mod convert;
mod error;
mod expert_plan;
mod export;
mod naming;
mod output;
mod plan;
mod progress;
pub mod quantize;
pub mod recipe;
mod safetensors_file;
mod scaled;
mod small_file;
mod source;
mod stream;
mod summary;
mod template;
mod tokenizer;

pub use adapter::{
    AdapterError, Change, ConvertLoraOptions, ConvertLoraReport, MergeSource, convert_lora,
};
pub use convert::{ConvertOptions, ConvertReport, convert};
pub use error::{ConvertError, NoFolder};
pub use export::{ExportOptions, ExportReport, export};
pub use output::{OutputType, Uniform, float_type};
pub use progress::{Event, Progress};
pub use summary::done;
pub use template::{TemplateFault, TemplateText, template_text};
pub use tokenizer::{TokenizerImport, TokenizerLog, TokenizerOptions, tokenizer_metadata};
