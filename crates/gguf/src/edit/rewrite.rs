//! Writing a new file with the new header and the old data.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::ops::Range;
use std::path::Path;

use super::backup::Backup;
use super::plan::{Outcome, Plan};
use super::{lock, undo};
use crate::error::{Error, Result};
use crate::output::{OutputFile, has_name};
use crate::replaced::keep_mode;
use crate::source::{PIECE_BYTES, Source};
use crate::writer::write_zeros;

/// Bytes of the old file, and zeros after them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) range: Range<u64>,
    pub(super) zeros: u64,
}

impl Piece {
    pub(super) fn of(range: Range<u64>) -> Piece {
        Piece { range, zeros: 0 }
    }

    pub(super) fn n_bytes(&self) -> u64 {
        (self.range.end - self.range.start).saturating_add(self.zeros)
    }
}

/// Opens a file to change its header.
pub(super) fn open_for_change(path: &Path) -> Result<Source> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .map(|file| Source::over(file, path))
        .map_err(|source| match source.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                Error::WriteProtected {
                    path: path.to_owned(),
                }
            }
            _ => Error::io(path, "open the file for writing", source),
        })
}

/// Whether the plan still fits the file: it has its name, its size and its header. To be asked
/// under the lock.
pub(super) fn check_unchanged(plan: &Plan, source: &Source) -> Result<()> {
    let about = source.about()?;
    let mut header = vec![0; plan.old.len()];
    let same = about.len() == plan.file_bytes
        && has_name(&about, &plan.real)
        && !undo::exists(&undo::path_of(&plan.real));
    if same {
        source.read_at(0, &mut header)?;
    }
    if same && header == plan.old {
        return Ok(());
    }
    Err(Error::ChangedMeanwhile {
        path: plan.real.clone(),
    })
}

/// Writes the new file; it takes its name when it is complete, and the old one's mode with it.
pub(super) fn rewrite(plan: &Plan, progress: &mut dyn FnMut(u64)) -> Result<Outcome> {
    let target = plan.output.as_ref().unwrap_or(&plan.real);
    let replaces = plan.output.is_none();
    let size = plan.file_bytes().1;
    let mut out = OutputFile::create(target, size, &plan.write_options())?;
    let source = Source::open(&plan.real)?;
    write_all(plan, &source, target, &mut out, progress)?;
    if replaces {
        keep_mode(source.file(), out.file())
            .map_err(|source| Error::io(target, "keep the mode of the file", source))?;
    }
    // On the disk before the lock, since a large file takes its time.
    let out = out.stage()?;
    // Under the lock, so that of two edits at once the second one is not lost.
    lock::to_write(source.file(), &plan.real)?;
    check_unchanged(plan, &source)?;
    let backup = Backup::link(plan.backup && replaces, &plan.real)?;
    // No interrupt comes between: the backup is the only name that the old file has left.
    out.commit_with(backup.partial())?;
    Ok(Outcome {
        path: target.clone(),
        bytes_written: size,
        backup: backup.keep(),
    })
}

fn write_all(
    plan: &Plan,
    source: &Source,
    target: &Path,
    out: &mut OutputFile,
    progress: &mut dyn FnMut(u64),
) -> Result<()> {
    let error = |source| Error::io(target, "write", source);
    out.write_all(&plan.new).map_err(error)?;
    progress(plan.new.len() as u64);
    for piece in &plan.pieces {
        let n = piece.range.end - piece.range.start;
        source.read(piece.range.start, n, PIECE_BYTES, |bytes| {
            out.write_all(bytes).map_err(error)?;
            progress(bytes.len() as u64);
            Ok(())
        })?;
        write_zeros(piece.zeros, out).map_err(error)?;
        progress(piece.zeros);
    }
    Ok(())
}
