//! The whole chain from checkpoint to release folder, with its manifest.

mod error;
mod layout;
mod manifest;
mod report;
mod run;
mod smoke;
mod speed;

pub use error::PipelineError;
pub use manifest::{FileHash, Manifest, hash_file, hash_folder};
pub use report::ReportFolder;
pub use run::{PipelineEvent, PipelineOptions, PipelineReport, run};
pub use smoke::{SmokeTest, smoke_test};
pub use speed::{SpeedOptions, SpeedRow, measure_speed, speed_table};
