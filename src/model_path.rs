//! The model of a command: by `-m`, as for the reference, or as a word of its own.

use std::path::{Path, PathBuf};

/// Names the model; flatten it into a command that reads one.
#[derive(clap::Args)]
pub struct ModelPath {
    /// A GGUF file, or any shard of a set
    #[arg(long, short, value_name = "FILE")]
    model: Option<PathBuf>,
    /// The same without the flag
    #[arg(
        value_name = "MODEL",
        id = "model_word",
        conflicts_with = "model",
        required_unless_present = "model"
    )]
    word: Option<PathBuf>,
}

impl ModelPath {
    /// The path that was given.
    pub fn path(&self) -> &Path {
        let path = self.model.as_deref().or(self.word.as_deref());
        // The parser asks for one of the two, so there is one.
        path.unwrap_or(Path::new(""))
    }
}
