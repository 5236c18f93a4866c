//! The old file, kept as `NAME.bak`.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::output::{OutputFile, PartialPath, WriteOptions};
use crate::replaced::keep_mode;
use crate::source::{PIECE_BYTES, Source};

/// A backup that was asked for, or none. Dropped before [`Backup::keep`], it goes: the edit was not
/// made. So it does at an interrupt, unless it was settled together with the edit.
#[must_use]
pub(super) struct Backup(Option<PartialPath>);

impl Backup {
    /// A copy with bytes of its own, for a file whose header is about to be overwritten. (The system
    /// shares the blocks where the file system can.)
    pub(super) fn copy(wanted: bool, path: &Path) -> Result<Backup> {
        if !wanted {
            return Ok(Backup(None));
        }
        let backup = backup_path(path)?;
        copy(path, &backup).map(|copy| Backup(Some(copy)))
    }

    /// The old file under a second name, for a file that is about to be replaced; a copy where there
    /// are no links.
    pub(super) fn link(wanted: bool, path: &Path) -> Result<Backup> {
        if !wanted {
            return Ok(Backup(None));
        }
        let backup = backup_path(path)?;
        let linked = match PartialPath::begin(&backup, |backup| fs::hard_link(path, backup)) {
            Err(Error::OutputRefused { .. }) => copy(path, &backup),
            other => other,
        };
        linked.map(|backup| Backup(Some(backup)))
    }

    /// What is to be settled with the edit.
    pub(super) fn partial(&self) -> Option<&PartialPath> {
        self.0.as_ref()
    }

    /// Leaves the backup where it is, and says where.
    pub(super) fn keep(self) -> Option<PathBuf> {
        self.0.map(PartialPath::keep)
    }
}

/// The name of the backup, which must not be there: an older one is never replaced.
fn backup_path(path: &Path) -> Result<PathBuf> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".bak");
    let backup = path.with_file_name(name);
    if fs::symlink_metadata(&backup).is_ok() {
        return Err(Error::BackupExists { path: backup });
    }
    Ok(backup)
}

fn copy(path: &Path, backup: &Path) -> Result<PartialPath> {
    let source = Source::open(path)?;
    let size = source.size()?;
    let error = |source| Error::io(backup, "write", source);
    let mut out = OutputFile::create(backup, size, &WriteOptions::default())?;
    source.read(0, size, PIECE_BYTES, |piece| {
        out.write_all(piece).map_err(error)
    })?;
    keep_mode(source.file(), out.file())
        .map_err(|source| Error::io(backup, "keep the mode of the file", source))?;
    out.stage()?.commit_partial()
}
