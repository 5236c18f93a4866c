//! The old file, kept as `NAME.bak`.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::rewrite::keep_mode;
use crate::error::{Error, Result};
use crate::output::{OutputFile, WriteOptions};

/// A backup that was asked for, or none. Dropped before [`Backup::keep`], it goes: the edit was not
/// made.
#[must_use]
pub(super) struct Backup(Option<PathBuf>);

impl Backup {
    /// A copy with bytes of its own, for a file whose header is about to be overwritten. (The system
    /// shares the blocks where the file system can.)
    pub(super) fn copy(wanted: bool, path: &Path) -> Result<Backup> {
        if !wanted {
            return Ok(Backup(None));
        }
        let backup = backup_path(path)?;
        copy(path, &backup)?;
        Ok(Backup(Some(backup)))
    }

    /// The old file under a second name, for a file that is about to be replaced; a copy where there
    /// are no links.
    pub(super) fn link(wanted: bool, path: &Path) -> Result<Backup> {
        if !wanted {
            return Ok(Backup(None));
        }
        let backup = backup_path(path)?;
        if fs::hard_link(path, &backup).is_err() {
            copy(path, &backup)?;
        }
        Ok(Backup(Some(backup)))
    }

    /// Leaves the backup where it is, and says where.
    pub(super) fn keep(mut self) -> Option<PathBuf> {
        self.0.take()
    }
}

impl Drop for Backup {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            // There is nobody to tell of another failure.
            let _ = fs::remove_file(path);
        }
    }
}

/// The name of the backup, which must not be there: an older one is never replaced.
fn backup_path(path: &Path) -> Result<PathBuf> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".bak");
    let backup = path.with_file_name(name);
    if fs::symlink_metadata(&backup).is_ok() {
        return Err(Error::OutputExists { path: backup });
    }
    Ok(backup)
}

fn copy(path: &Path, backup: &Path) -> Result<()> {
    let error = |source| Error::io(backup, "copy the file", source);
    let mut source = File::open(path).map_err(|source| Error::io(path, "open the file", source))?;
    let size = source.metadata().map_err(error)?.len();
    let out = OutputFile::create(backup, size, &WriteOptions::default())?;
    io::copy(&mut source, &mut out.file()).map_err(error)?;
    keep_mode(&source, out.file()).map_err(error)?;
    out.commit()
}
