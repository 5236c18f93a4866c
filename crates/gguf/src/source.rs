//! Reading a file's bytes by position, in pieces: memory stays small however large the file is, and a file that is
//! cut short meanwhile is an error (a mapping would end the process).

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::file::File;

/// Bytes that are read at once.
pub(crate) const PIECE_BYTES: usize = 4 << 20;

/// What tells a file from another one that took its name. As long as the first is mapped, no other file gets its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    size: u64,
    #[cfg(unix)]
    number: (u64, u64),
    #[cfg(not(unix))]
    modified: Option<std::time::SystemTime>,
}

impl Identity {
    #[cfg(unix)]
    pub(crate) fn of(about: &std::fs::Metadata) -> Identity {
        use std::os::unix::fs::MetadataExt as _;
        Identity {
            size: about.len(),
            number: (about.dev(), about.ino()),
        }
    }

    #[cfg(not(unix))]
    pub(crate) fn of(about: &std::fs::Metadata) -> Identity {
        Identity {
            size: about.len(),
            modified: about.modified().ok(),
        }
    }
}

/// A file that is open for reading by position.
#[derive(Debug)]
pub struct Source {
    path: PathBuf,
    file: std::fs::File,
}

impl Source {
    /// Opens the bytes of a file that was validated before.
    ///
    /// # Errors
    /// [`Error::Changed`] where another file has the name by now, or the file another size; [`Error::NotFound`],
    /// [`Error::Io`].
    pub fn of(file: &File) -> Result<Source> {
        let source = Source::open(file.path())?;
        let about = source.about()?;
        let same = match file.identity() {
            Some(identity) => Identity::of(&about) == identity,
            None => about.len() == file.size(),
        };
        if same {
            Ok(source)
        } else {
            Err(source.changed())
        }
    }

    /// The file, open for reading.
    pub(crate) fn over(file: std::fs::File, path: &Path) -> Source {
        let path = path.to_owned();
        Source { path, file }
    }

    /// The open file, for its permissions and locks.
    pub(crate) fn file(&self) -> &std::fs::File {
        &self.file
    }

    /// Opens any file.
    pub(crate) fn open(path: &Path) -> Result<Source> {
        let file =
            std::fs::File::open(path).map_err(|source| Error::io(path, "open the file", source))?;
        Ok(Source::over(file, path))
    }

    /// The open file, to be written to.
    pub(crate) fn file_mut(&mut self) -> &mut std::fs::File {
        &mut self.file
    }

    /// What the system tells of the file.
    pub(crate) fn about(&self) -> Result<std::fs::Metadata> {
        let about = self.file.metadata();
        about.map_err(|source| Error::io(&self.path, "look at the file", source))
    }

    /// The size in bytes.
    pub(crate) fn size(&self) -> Result<u64> {
        self.about().map(|about| about.len())
    }

    /// Hands on `n` bytes from `offset`, in pieces of at most `piece` bytes; a piece is whole unless it is the last.
    pub(crate) fn read(
        &self,
        offset: u64,
        n: u64,
        piece: usize,
        mut take: impl FnMut(&mut [u8]) -> Result<()>,
    ) -> Result<()> {
        let mut buffer = vec![0; n.min(piece as u64) as usize];
        let mut done = 0;
        while done < n {
            let length = (n - done).min(buffer.len() as u64) as usize;
            self.read_at(offset + done, &mut buffer[..length])?;
            take(&mut buffer[..length])?;
            done += length as u64;
        }
        Ok(())
    }

    /// Fills the buffer with the bytes from `offset` on, in bytes from the start of the file.
    ///
    /// # Errors
    /// [`Error::Changed`] where the file ends before, [`Error::Io`].
    pub fn read_at(&self, mut offset: u64, mut buffer: &mut [u8]) -> Result<()> {
        while !buffer.is_empty() {
            match read_some(&self.file, buffer, offset) {
                Ok(0) => return Err(self.changed()),
                Ok(n) => {
                    offset += n as u64;
                    buffer = &mut buffer[n..];
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(source) => return Err(Error::io(&self.path, "read", source)),
            }
        }
        Ok(())
    }

    fn changed(&self) -> Error {
        Error::Changed {
            path: self.path.clone(),
        }
    }
}

#[cfg(unix)]
fn read_some(file: &std::fs::File, buffer: &mut [u8], offset: u64) -> std::io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, buffer, offset)
}

#[cfg(windows)]
fn read_some(file: &std::fs::File, buffer: &mut [u8], offset: u64) -> std::io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, buffer, offset)
}
