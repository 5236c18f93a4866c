//! What can go wrong with a measurement. What is wrong with a model is no error here, but a finding.

use std::path::PathBuf;

/// Errors of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MeasureError {
    /// A list of hashes that cannot be read.
    #[error(transparent)]
    List(#[from] gristmill_gguf::Error),
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
            MeasureError::List(error) => error.hint(),
            MeasureError::ChecksumList { .. } => Some(
                "give what `sha256sum` or `gristmill hash` prints (a hash of 64 digits and a name), or a manifest.json of `gristmill pipeline`",
            ),
        }
    }
}
