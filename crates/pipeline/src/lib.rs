//! The whole chain from checkpoint to release folder, with its manifest.

mod error;
mod manifest;
mod report;

pub use error::PipelineError;
pub use manifest::{FileHash, Manifest, hash_file, hash_folder};
pub use report::ReportFolder;
