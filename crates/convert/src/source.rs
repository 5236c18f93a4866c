//! Where weights are read from: ranges of bytes, so that memory does not grow with the file and a remote file serves
//! as well as a local one.

use crate::ConvertError;
use std::fs::File;
use std::path::{Path, PathBuf};

/// Bytes that are read by ranges.
pub trait Source: Send + Sync {
    /// The file, as errors name it.
    fn path(&self) -> &Path;

    /// Length in bytes.
    fn len(&self) -> u64;

    /// Fills `out` with the bytes at `offset`.
    ///
    /// # Errors
    /// `Io`, also when the range ends beyond the end.
    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), ConvertError>;
}

/// A local file.
#[derive(Debug)]
pub struct LocalFile {
    path: PathBuf,
    file: File,
    len: u64,
}

impl LocalFile {
    /// Opens a file.
    ///
    /// # Errors
    /// `Io`.
    pub fn open(path: &Path) -> Result<Self, ConvertError> {
        let io = |source| ConvertError::io(path, "open the file", source);
        let file = File::open(path).map_err(io)?;
        let len = file.metadata().map_err(io)?.len();
        Ok(Self {
            path: path.to_owned(),
            file,
            len,
        })
    }
}

impl Source for LocalFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), ConvertError> {
        read_exact_at(&self.file, offset, out)
            .map_err(|source| ConvertError::io(&self.path, "read", source))
    }
}

#[cfg(unix)]
fn read_exact_at(file: &File, offset: u64, out: &mut [u8]) -> std::io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, out, offset)
}

#[cfg(windows)]
fn read_exact_at(file: &File, mut offset: u64, mut out: &mut [u8]) -> std::io::Result<()> {
    while !out.is_empty() {
        let n = std::os::windows::fs::FileExt::seek_read(file, out, offset)?;
        if n == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        offset += n as u64;
        out = &mut out[n..];
    }
    Ok(())
}
