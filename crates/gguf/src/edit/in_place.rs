//! Overwriting a header so that a kill at any moment leaves a whole file, or one that says that it
//! is not and can be put back.
//!
//! 1. The undo file is written, synced and named.
//! 2. The magic number becomes [`MARK`], synced: from here on nobody takes the file for a GGUF file.
//! 3. The bytes that differ are written, synced.
//! 4. The magic number comes back, synced: the new header counts.
//! 5. The undo file is removed.
//!
//! So the header beside an undo file is the old one (up to step 2), the new one (from step 4), or
//! marked; [`super::recover`] needs no guess.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::Path;

use super::undo;
use crate::error::{Error, Result};
use crate::output::{PartialPath, uninterrupted};

/// What stands in place of the magic number while a header is being overwritten.
pub(super) const MARK: &[u8; 4] = b"UNDO";
const MAGIC: &[u8; 4] = b"GGUF";
/// Bytes that go to the system at once.
const CHUNK_BYTES: usize = 1 << 20;

/// Replaces the header `old` of `file` by `new`, which has the same length. Returns the bytes that
/// went to the disk, undo file included. With the header, `backup` is settled. `step` is called between any two steps.
pub(super) fn replace_header(
    path: &Path,
    file: &mut File,
    old: &[u8],
    new: &[u8],
    backup: Option<&PartialPath>,
    step: &mut dyn FnMut(),
) -> Result<u64> {
    let undo = undo::path_of(path);
    step();
    let undo_bytes = undo::write(path, file, old, new)?;
    step();
    let changed = changed(old, new);
    let overwritten = uninterrupted(path, backup, || {
        overwrite(file, new, changed.clone(), step)
            .map_err(|source| put_back(path, file, old, source))
    });
    if let Err(error) = overwritten {
        // Nothing was changed, or it was put back.
        if !matches!(error, Error::RestoreFailed { .. }) {
            undo::remove(&undo)?;
        }
        return Err(error);
    }
    remove_done(path, &undo)?;
    step();
    Ok(undo_bytes + (2 * MARK.len() + changed.len()) as u64)
}

/// Removes the undo file of an edit that was made, which no failure can take back.
fn remove_done(path: &Path, undo: &Path) -> Result<()> {
    let removed = undo::remove(undo);
    let reason = match removed {
        // Whoever took it away, it is not needed.
        Ok(()) | Err(Error::NotFound { .. }) => return Ok(()),
        Err(Error::Io { source, .. }) => source.to_string(),
        Err(error) => error.to_string(),
    };
    let (path, undo) = (path.to_owned(), undo.to_owned());
    Err(Error::UndoLeft { path, undo, reason })
}

/// The bytes that [`replace_header`] writes.
pub(super) fn bytes_to_write(old: &[u8], new: &[u8]) -> u64 {
    (undo::HEAD_BYTES + old.len() + 2 * MARK.len() + changed(old, new).len()) as u64
}

/// Writes `header[changed]` in its place, with the mark before and the magic number after it.
pub(super) fn overwrite(
    file: &mut File,
    header: &[u8],
    changed: Range<usize>,
    step: &mut dyn FnMut(),
) -> io::Result<()> {
    put(file, 0, MARK)?;
    file.sync_data()?;
    step();
    let mut place = changed.start;
    for chunk in header[changed].chunks(CHUNK_BYTES) {
        put(file, place, chunk)?;
        place += chunk.len();
        step();
    }
    file.sync_data()?;
    step();
    put(file, 0, MAGIC)?;
    step();
    file.sync_data()?;
    step();
    Ok(())
}

/// From the first to the last byte that differs, the magic number left out.
fn changed(old: &[u8], new: &[u8]) -> Range<usize> {
    let differs = |(old, new): (&u8, &u8)| old != new;
    let pairs = || old.iter().zip(new).skip(MAGIC.len());
    let Some(first) = pairs().position(differs) else {
        return MAGIC.len()..MAGIC.len();
    };
    let same_after = pairs().rev().position(differs).unwrap_or(0);
    MAGIC.len() + first..old.len().min(new.len()) - same_after
}

fn put(file: &mut File, place: usize, bytes: &[u8]) -> io::Result<()> {
    file.seek(SeekFrom::Start(place as u64))?;
    file.write_all(bytes)
}

/// After a failed write: the old header again. The error is that of the write, or that the file is
/// left as it is, marked and with its undo file.
fn put_back(path: &Path, file: &mut File, old: &[u8], source: io::Error) -> Error {
    match overwrite(file, old, MAGIC.len()..old.len(), &mut || ()) {
        Ok(()) => Error::io(path, "write the header", source),
        Err(second) => Error::RestoreFailed {
            path: path.to_owned(),
            undo: undo::path_of(path),
            reason: format!("{source}; putting the header back: {second}"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::changed;

    #[test]
    fn only_what_differs_is_written() {
        assert_eq!(changed(b"GGUFabcdef", b"GGUFabXdeY"), 6..10);
        assert_eq!(changed(b"GGUFabcdef", b"GGUFXbcdef"), 4..5);
        assert_eq!(changed(b"GGUFabcdef", b"GGUFabcdef"), 4..4);
    }
}
