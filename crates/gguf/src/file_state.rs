//! Whether a file that is being written is still the one that was made: other programs may remove it, put another one in its
//! place, or write to it.

use std::fs::{self, File, Metadata};
use std::io;
use std::path::Path;
use std::time::SystemTime;

use crate::error::{Error, Result};

/// What the system tells of a file between two writes of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileState {
    identity: Identity,
    bytes: u64,
    /// Two writes within one tick of the file system's clock, of some milliseconds on older systems, have one time.
    modified: Option<SystemTime>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    /// Device and number.
    #[cfg(unix)]
    number: (u64, u64),
    /// The number of a file that was removed may be given to the next one; the time at which it was made tells them apart.
    created: Option<SystemTime>,
}

impl FileState {
    /// The state of an open file.
    pub fn of(file: &File) -> io::Result<FileState> {
        Ok(FileState::from(&file.metadata()?))
    }

    /// The state of the file at a path, not through links; nothing where none is.
    pub fn at(path: &Path) -> Result<Option<FileState>> {
        match fs::symlink_metadata(path) {
            Ok(about) => Ok(Some(FileState::from(&about))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(Error::io(path, "look at", source)),
        }
    }

    /// Whether that file, whatever was written to it, stands at this path.
    pub fn is_at(&self, path: &Path) -> bool {
        matches!(FileState::at(path), Ok(Some(now)) if self.is_same(&now))
    }

    /// Some file systems (FAT, those of networks) give a closed file another number when they look at it anew. Its size and
    /// its times tell it then.
    fn is_same(&self, now: &FileState) -> bool {
        let has_time = self.modified.is_some() && now.modified == self.modified;
        let has_times = has_time && now.identity.created == self.identity.created;
        now.identity == self.identity || (has_times && now.bytes == self.bytes)
    }

    /// Refuses another file than this one, or one of another size, at the path that it was made at. Whether the file may have
    /// been written to by others all the same.
    ///
    /// # Errors
    /// [`Error::OutputDisturbed`]; [`Error::Io`] where the system does not tell.
    pub fn check(&self, path: &Path) -> Result<bool> {
        match FileState::at(path)? {
            None => Err(removed(path)),
            Some(now) => self.compare(&now, path),
        }
    }

    /// The same for a file that is open.
    pub fn check_open(&self, file: &File, path: &Path) -> Result<bool> {
        let now = FileState::of(file).map_err(|source| Error::io(path, "look at", source))?;
        self.compare(&now, path)
    }

    fn compare(&self, now: &FileState, path: &Path) -> Result<bool> {
        if !self.is_same(now) {
            let reason = "was replaced by another file while it was being written";
            return Err(disturbed(path, reason));
        }
        if now.bytes != self.bytes {
            let (bytes, written) = (now.bytes, self.bytes);
            let what = format!("it has {bytes} bytes in place of {written}");
            return Err(written_to(path, &what));
        }
        Ok(now.modified != self.modified)
    }
}

impl From<&Metadata> for FileState {
    fn from(about: &Metadata) -> FileState {
        #[cfg(unix)]
        use std::os::unix::fs::MetadataExt as _;
        FileState {
            identity: Identity {
                #[cfg(unix)]
                number: (about.dev(), about.ino()),
                created: about.created().ok(),
            },
            bytes: about.len(),
            modified: about.modified().ok(),
        }
    }
}

/// Another program has removed a file of ours.
pub(crate) fn removed(path: &Path) -> Error {
    disturbed(path, "was removed while it was being written")
}

/// Another program has written to a file of ours.
pub(crate) fn written_to(path: &Path, what: &str) -> Error {
    let reason = format!("was changed by another program while it was being written: {what}");
    disturbed(path, &reason)
}

fn disturbed(path: &Path, reason: &str) -> Error {
    Error::OutputDisturbed {
        path: path.to_owned(),
        reason: reason.to_owned(),
    }
}
