//! What can go wrong with a measurement. What is wrong with a model is no error here, but a finding.

use std::io;
use std::path::{Path, PathBuf};

/// Errors of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MeasureError {
    /// The operating system refused an operation on a file that was given beside the model.
    #[error("{}: cannot {action}: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// The system's answer.
        source: io::Error,
    },
    /// A list of hashes that is neither of the forms known.
    #[error("{}: is no list of hashes: {reason}", .path.display())]
    ChecksumList {
        /// The list.
        path: PathBuf,
        /// What is wrong with it, with the line where there is one.
        reason: String,
    },
}

impl MeasureError {
    /// What to do about it, where a remedy is known: one sentence for a `hint:` line.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            MeasureError::Io { .. } => None,
            MeasureError::ChecksumList { .. } => Some(
                "give what `sha256sum` prints (a hash of 64 digits, two spaces, a name), or a manifest.json of `gristmill pipeline`",
            ),
        }
    }

    pub(crate) fn io(path: &Path, action: &'static str, source: io::Error) -> MeasureError {
        MeasureError::Io {
            path: path.to_owned(),
            action,
            source,
        }
    }
}
