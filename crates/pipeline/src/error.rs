//! What can go wrong in the chain.

use std::io;
use std::path::{Path, PathBuf};

/// An error of the chain.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PipelineError {
    /// A file of the chain could not be read or written.
    #[error("{}: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The reports of an earlier run stand where this run's would go.
    #[error("{}: already exists", .path.display())]
    ReportExists {
        /// The folder of reports.
        path: PathBuf,
    },
    /// A model file is there already, under the name this run would give it.
    #[error("{}: already exists", .path.display())]
    FileExists {
        /// The model file.
        path: PathBuf,
    },
    /// What stands where the reports would go is more than reports, so that it is not replaced.
    #[error("{}: is no folder of reports only: {found}", .path.display())]
    NotReports {
        /// The folder of reports.
        path: PathBuf,
        /// What tells.
        found: String,
    },
    /// A folder that would be written to is or holds another one of the run.
    #[error("{}: is or holds the folder {}", .folder.display(), .other.display())]
    Overlap {
        /// The folder that would be written to.
        folder: PathBuf,
        /// The checkpoint, or a folder of models.
        other: PathBuf,
    },
    /// The unquantized file that is there was made from something else, or nothing says from what.
    #[error("{}: exists, and no record says that it was made from {} as it is now", .path.display(), .checkpoint.display())]
    OtherSource {
        /// The unquantized file.
        path: PathBuf,
        /// The checkpoint.
        checkpoint: PathBuf,
    },
    /// A name that no file can be called after.
    #[error("{name:?} cannot be the name of a model")]
    BadName {
        /// The name given.
        name: String,
    },
    /// The smoke test got no token.
    #[error("{}: the smoke test failed: the model said nothing", .path.display())]
    Silent {
        /// The model file.
        path: PathBuf,
    },
    /// Conversion or quantization failed.
    #[error(transparent)]
    Convert(#[from] gristmill_convert::ConvertError),
    /// A model file cannot be read.
    #[error(transparent)]
    Gguf(#[from] gristmill_gguf::Error),
    /// A model cannot be run.
    #[error(transparent)]
    Engine(#[from] gristmill_engine::EngineError),
}

impl PipelineError {
    /// An [`PipelineError::Io`] for this file.
    pub(crate) fn io(path: &Path, source: io::Error) -> Self {
        PipelineError::Io {
            path: path.into(),
            source,
        }
    }

    /// The remedy, where one is known.
    pub fn hint(&self) -> Option<String> {
        match self {
            PipelineError::ReportExists { .. } | PipelineError::FileExists { .. } => Some(
                "give --force (or set FORCE=1) to replace the earlier run, or choose another name"
                    .into(),
            ),
            PipelineError::NotReports { .. } => Some(
                "move what is there away, or name another folder with --reports".into(),
            ),
            PipelineError::Overlap { .. } => Some(
                "choose other folders with --models and --reports: neither may be the checkpoint, and no report may stand where a model does"
                    .into(),
            ),
            PipelineError::OtherSource { .. } => Some(
                "give --force (or set FORCE=1) to convert the checkpoint anew, or choose another name".into(),
            ),
            PipelineError::BadName { .. } => Some(
                "files are named after it: leave out slashes, control characters and a leading dot".into(),
            ),
            PipelineError::Io { .. } => Some(
                "check that the path is right, and that --models and --reports name folders that can be written to"
                    .into(),
            ),
            PipelineError::Silent { .. } => Some(
                "the model ends every text at once; check the checkpoint, or its end-of-generation tokens".into(),
            ),
            PipelineError::Convert(error) => error.hint(),
            PipelineError::Gguf(error) => error.hint().map(String::from),
            PipelineError::Engine(error) => error.hint(),
        }
    }
}
