//! What can go wrong with a measurement. What is wrong with a model is no error here, but a finding.

use std::io;
use std::path::{Path, PathBuf};

use gristmill_engine::EngineError;

/// Errors of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MeasureError {
    /// What reading or writing a file reports.
    #[error(transparent)]
    File(#[from] gristmill_gguf::Error),
    /// What the engine reports.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A text of fewer tokens than two windows.
    #[error("the text has {n_tokens} tokens, and windows of {n_ctx} need at least {n_needed}")]
    TextTooShort {
        /// Tokens of the text.
        n_tokens: usize,
        /// Tokens of two windows.
        n_needed: usize,
        /// Tokens of a window.
        n_ctx: usize,
    },
    /// A window that is too small for a prediction.
    #[error("windows of {n_ctx} tokens have nothing to foretell")]
    WindowTooSmall {
        /// Tokens of a window.
        n_ctx: usize,
    },
    /// Predictions that are no numbers, of weights that are.
    #[error("window {chunk}, position {position}: the model's predictions are not numbers")]
    NotNumbers {
        /// The window, from 1.
        chunk: usize,
        /// The position within it, from 0.
        position: usize,
    },
    /// A file of predictions that cannot be used.
    #[error("{}: {reason}", .path.display())]
    LogitsFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// More predictions than such a file can hold.
    #[error("{}: these are more predictions than such a file can hold", .path.display())]
    TooManyLogits {
        /// The file.
        path: PathBuf,
    },
    /// Whoever takes the results no longer does.
    #[error(transparent)]
    Output(io::Error),
    /// The disk.
    #[error("{}: {source}", .path.display())]
    Disk {
        /// The file.
        path: PathBuf,
        /// What the system says.
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
    pub(crate) fn disk(path: &Path, source: io::Error) -> MeasureError {
        MeasureError::Disk {
            path: path.to_owned(),
            source,
        }
    }

    /// What to do about it, where a remedy is known: one sentence for a `hint:` line.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            MeasureError::File(error) => error.hint(),
            MeasureError::Engine(error) => return error.hint(),
            MeasureError::TextTooShort { .. } => {
                Some("give a longer text, or a smaller window with --ctx-size")
            }
            MeasureError::WindowTooSmall { .. } => Some("give --ctx-size 3 or more"),
            MeasureError::NotNumbers { .. } => {
                Some("`gristmill check` tells whether the file is sound")
            }
            MeasureError::LogitsFile { .. } => Some(
                "it must be the whole file that --save-all-logits wrote, of a model with the same vocabulary",
            ),
            MeasureError::TooManyLogits { .. } => Some("save fewer windows with --chunks"),
            MeasureError::Output(_) | MeasureError::Disk { .. } => None,
            MeasureError::ChecksumList { .. } => Some(
                "give what `sha256sum` or `gristmill hash` prints (a hash of 64 digits and a name), or a manifest.json of `gristmill pipeline`",
            ),
        };
        hint.map(str::to_owned)
    }
}
