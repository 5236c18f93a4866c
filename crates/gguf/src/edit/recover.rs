//! Opening a file whose last edit was cut short.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::digest;
use super::in_place::{MARK, overwrite};
use super::lock::{self, Settled};
use super::undo::{self, Undo};
use crate::error::{Error, Result};

/// What was found beside a file, and done about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// The file, links followed.
    pub path: PathBuf,
    /// The undo file, which is gone now.
    pub undo: PathBuf,
    /// What was done.
    pub state: Recovered,
}

/// How far a cut edit had come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Recovered {
    /// The file had not been touched yet.
    Untouched,
    /// The header was half written; the old one was put back.
    Restored,
    /// The new header was complete, and stays.
    Complete,
}

impl std::fmt::Display for Recovery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let did = match self.state {
            Recovered::Untouched => "was cut short before it began; the file is as it was",
            Recovered::Restored => "was cut short; the file is again as it was",
            Recovered::Complete => "was cut short when it was done; the file holds the edit",
        };
        write!(f, "{}: its last edit {did}", self.path.display())
    }
}

static REPORT: OnceLock<fn(&Recovery)> = OnceLock::new();

/// Makes every later [`crate::File::open`] and [`crate::Model::open`] of this process call
/// [`recover`] first, for each file and each shard, and tell of it. Without this they answer
/// [`Error::UnfinishedEdit`]: a library does not write to files that it was asked to read.
pub fn recover_on_open(report: fn(&Recovery)) {
    // Whoever was first stays.
    let _ = REPORT.set(report);
}

/// Opens a file to read it, under a lock that keeps editors out, once no edit of it is unfinished.
pub(crate) fn open_settled(path: &Path) -> Result<Settled> {
    let undo = undo::path_of(&undo::real_path(path));
    loop {
        let file = File::open(path).map_err(|source| Error::io(path, "open the file", source))?;
        let file = Settled::lock(file, path)?;
        if !undo::exists(&undo) {
            return Ok(file);
        }
        drop(file);
        let Some(report) = REPORT.get() else {
            let path = path.to_owned();
            return Err(Error::UnfinishedEdit { path, undo });
        };
        if let Some(recovery) = recover(path)? {
            report(&recovery);
        }
    }
}

/// Settles an edit of this file that was cut short: puts the old header back where the new one is
/// not complete. `None` where there was nothing to settle.
///
/// # Errors
/// [`Error::HeaderLost`], and [`Error::Unrestored`] where the header may be good, for an undo file that is damaged or of
/// another file; nothing was changed then. [`Error::RestoreFailed`] where the file cannot be written, [`Error::Busy`]
/// where an edit goes on right now.
pub fn recover(path: &Path) -> Result<Option<Recovery>> {
    let path = undo::real_path(path);
    let undo = undo::path_of(&path);
    if !undo::exists(&undo) {
        return Ok(None);
    }
    let failed = |reason: String| Error::RestoreFailed {
        path: path.clone(),
        undo: undo.clone(),
        reason,
    };
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(&path)
        .map_err(|source| failed(format!("the file cannot be written: {source}")))?;
    lock::to_write(&file, &path)?;
    // The edit that was going on may have ended, or another process was faster.
    if !undo::exists(&undo) {
        return Ok(None);
    }
    let is_half = has_mark(&mut file).map_err(|source| failed(source.to_string()))?;
    let refused = |reason: String| {
        let (path, undo) = (path.clone(), undo.clone());
        match is_half {
            true => Error::HeaderLost { path, undo, reason },
            false => Error::Unrestored { path, undo, reason },
        }
    };
    let found = Undo::read(&undo).map_err(refused)?;
    found.check(&mut file, &path).map_err(refused)?;
    let state = settle(&mut file, &found).map_err(|source| failed(source.to_string()))?;
    let state = state
        .ok_or_else(|| refused("the header was changed by something else since".to_owned()))?;
    undo::remove(&undo).map_err(|error| refused(error.to_string()))?;
    Ok(Some(Recovery { path, undo, state }))
}

/// What the header of the file is by now; the old one again if it was marked.
fn settle(file: &mut File, undo: &Undo) -> io::Result<Option<Recovered>> {
    let old = undo.header();
    let mut now = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    Read::take(&mut *file, old.len() as u64).read_to_end(&mut now)?;
    let sum = digest::of_bytes(&now);
    if sum == undo.old {
        return Ok(Some(Recovered::Untouched));
    }
    if sum == undo.new {
        // It may be in memory only.
        file.sync_data()?;
        return Ok(Some(Recovered::Complete));
    }
    if !now.starts_with(MARK) {
        return Ok(None);
    }
    overwrite(file, old, MARK.len()..old.len(), &mut || ())?;
    Ok(Some(Recovered::Restored))
}

/// Whether the header of a file is half written.
fn has_mark(file: &mut File) -> io::Result<bool> {
    let mut head = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    Read::take(&mut *file, MARK.len() as u64).read_to_end(&mut head)?;
    Ok(head == MARK)
}

/// Whether a file starts like one whose header is being overwritten.
pub(crate) fn is_marked(head: &[u8]) -> bool {
    // The version follows, in either byte order.
    let version = |bytes: &[u8]| matches!(bytes, [2 | 3, 0, 0, 0] | [0, 0, 0, 2 | 3]);
    head.starts_with(MARK) && head.get(4..8).is_some_and(version)
}

/// The error for a marked file without an undo file.
pub(crate) fn undo_is_gone(path: &Path) -> Error {
    let undo = undo::path_of(&undo::real_path(path));
    let path = path.to_owned();
    Error::UndoMissing { path, undo }
}

/// Removes the undo file of a file that has just been replaced by another one.
pub(crate) fn forget(path: &Path) {
    let undo = undo::path_of(path);
    if undo::is_ours(&undo) {
        // If it stays, the next open says so.
        let _ = undo::remove(&undo);
    }
}
