//! Where the data goes: files that appear whole or not at all, or such that a later run continues.

use gristmill_gguf::{ResumableWriter, ShardPlan, ShardWriter, Spoilt, WriteOptions};

use super::Quality;
use super::job::Job;
use super::source_state::SourceState;
use crate::error::Result;

/// Bytes of the source that are read at once to compare them with what an earlier run read.
const PIECE_BYTES: usize = 1 << 20;

/// An output that takes the tensors of a plan in their order.
pub(super) enum Sink {
    Whole(Box<ShardWriter>),
    Resumable(Box<ResumableWriter>),
}

impl Sink {
    /// Opens the output of a job.
    pub fn open(
        job: &Job<'_>,
        source: &SourceState,
        files: Vec<ShardPlan>,
        options: &WriteOptions,
    ) -> Result<Sink> {
        if !job.options.resume {
            return Ok(Sink::Whole(Box::new(ShardWriter::create(files, options)?)));
        }
        let description = description(job, source);
        let writer = ResumableWriter::open(&files, options, &description, |index, read| {
            read_released(job, index, read);
        })?;
        Ok(Sink::Resumable(Box::new(writer)))
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

    /// Why tensors that an earlier run had done are written again, if some are.
    pub fn spoilt(&self) -> Option<&Spoilt> {
        match self {
            Sink::Whole(_) => None,
            Sink::Resumable(writer) => writer.spoilt(),
        }
    }

    /// Takes note of the next bytes that the current tensor is made from.
    pub fn read(&mut self, bytes: &[u8]) {
        if let Sink::Resumable(writer) = self {
            writer.read(bytes);
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

/// Reads the source of a tensor in pieces, and gives the pages of each back.
fn read_released(job: &Job<'_>, index: usize, read: &mut dyn FnMut(&[u8])) {
    let Some(view) = job.views.get(index) else {
        return;
    };
    let mut start = 0;
    for piece in view.data.chunks(PIECE_BYTES) {
        read(piece);
        let end = start + piece.len();
        job.release(view, start..end);
        start = end;
    }
}

/// Everything that the bytes of the output depend on and neither its plan nor the data of the source tells: the state of the
/// source, the importance matrix, the types that tensors come from, and whether losses are noted.
fn description(job: &Job<'_>, source: &SourceState) -> String {
    use std::fmt::Write as _;
    let mut text = format!(
        "gristmill {}\nmeasured {}\n{}",
        env!("CARGO_PKG_VERSION"),
        job.options.measure,
        source.description()
    );
    // Writing to a string cannot fail.
    if let Some(importance) = job.importance.as_deref() {
        let _ = writeln!(text, "importance {}", importance.fingerprint());
    }
    for (tensor, planned) in job.sources.iter().zip(&job.plan.tensors) {
        let _ = writeln!(text, "{:?} {} {}", tensor.name, tensor.ty, planned.ty);
    }
    text
}
