//! Where the data goes: files that appear whole or not at all, or such that a later run continues.

use gristmill_gguf::{Model, ResumableWriter, ShardPlan, ShardWriter, WriteOptions};

use super::{Quality, QuantizeOptions};
use crate::error::Result;
use crate::recipe::{Plan, SourceTensor};

/// An output that takes the tensors of a plan in their order.
pub(super) enum Sink {
    Whole(Box<ShardWriter>),
    Resumable(Box<ResumableWriter>),
}

impl Sink {
    /// Opens the output of a plan; `description` is what its bytes depend on beside the plan.
    pub fn open(
        files: Vec<ShardPlan>,
        options: &WriteOptions,
        description: Option<&str>,
    ) -> Result<Sink> {
        Ok(match description {
            Some(description) => Sink::Resumable(Box::new(ResumableWriter::open(
                &files,
                options,
                description,
            )?)),
            None => Sink::Whole(Box::new(ShardWriter::create(files, options)?)),
        })
    }

    /// What an earlier run told of the tensors that are done.
    pub fn done(&self) -> Vec<Option<Quality>> {
        match self {
            Sink::Whole(_) => Vec::new(),
            Sink::Resumable(writer) => {
                let notes = writer.done().iter();
                notes.map(|note| Quality::from_note(note)).collect()
            }
        }
    }

    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        match self {
            Sink::Whole(writer) => writer.write(bytes)?,
            Sink::Resumable(writer) => writer.write(bytes)?,
        }
        Ok(())
    }

    pub fn finish_tensor(&mut self, quality: Option<Quality>) -> Result<()> {
        if let Sink::Resumable(writer) = self {
            writer.finish_tensor(&quality.map_or_else(String::new, Quality::to_note))?;
        }
        Ok(())
    }

    pub fn finish(self) -> Result<()> {
        match self {
            Sink::Whole(writer) => writer.finish()?,
            Sink::Resumable(writer) => writer.finish()?,
        }
        Ok(())
    }
}

/// Everything that the bytes of the output depend on and its plan does not tell: the state of the source and of the
/// importance matrix, the types that tensors come from, and whether losses are noted.
pub(super) fn description(
    options: &QuantizeOptions,
    model: &Model,
    sources: &[SourceTensor],
    plan: &Plan,
) -> String {
    use std::fmt::Write as _;
    let mut text = format!(
        "gristmill {}\nmeasured {}\n",
        env!("CARGO_PKG_VERSION"),
        options.measure
    );
    let importance = options
        .importance
        .as_ref()
        .map(|importance| importance.path());
    let paths = model.shards().iter().map(|shard| shard.path());
    for path in paths.chain(importance) {
        let about = std::fs::metadata(path).ok();
        let changed = about.as_ref().and_then(|about| about.modified().ok());
        let bytes = about.map(|about| about.len());
        // Writing to a string cannot fail.
        let _ = writeln!(text, "file {path:?} {bytes:?} {changed:?}");
    }
    if let Some(importance) = &options.importance {
        for name in importance.names() {
            let _ = writeln!(text, "weights {name:?}");
        }
    }
    for (tensor, planned) in sources.iter().zip(&plan.tensors) {
        let _ = writeln!(text, "{:?} {} {}", tensor.name, tensor.ty, planned.ty);
    }
    text
}
