//! Tensor data on its way from one file to another, and what is told of it meanwhile.

use std::path::Path;

use crate::error::Result;
use crate::model::Model;
use crate::source::{PIECE_BYTES, Source};

/// What happens while files are read or written.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// The work begins: so many bytes will go by.
    Start {
        /// Bytes in all.
        bytes: u64,
    },
    /// A file is begun.
    File {
        /// Its path.
        path: &'a Path,
    },
    /// Bytes went by since the last event.
    Done {
        /// How many.
        bytes: u64,
    },
}

/// Who is told of [`Event`]s.
pub type Progress<'a> = &'a mut dyn FnMut(Event<'_>);

/// Hands on the stored bytes of all tensors of a model, in order, in pieces.
pub(crate) fn read_tensors(
    model: &Model,
    progress: Progress<'_>,
    mut take: impl FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    for file in model.shards() {
        progress(Event::File { path: file.path() });
        let source = Source::of(file)?;
        for tensor in file.tensors() {
            let start = file.data_offset() + tensor.offset;
            source.read(start, tensor.bytes, PIECE_BYTES, |piece| {
                take(piece)?;
                let bytes = piece.len() as u64;
                progress(Event::Done { bytes });
                Ok(())
            })?;
        }
    }
    Ok(())
}

/// The bytes of all tensors of a model.
pub(crate) fn data_bytes(model: &Model) -> u64 {
    let bytes = model.tensors().iter().map(|tensor| tensor.bytes);
    bytes.fold(0, u64::saturating_add)
}
