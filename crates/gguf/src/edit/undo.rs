//! The undo file: what an edit in place will overwrite, on the disk before the first byte changes.
//!
//! ```text
//!   0   "GMILLUND" | u32 version | u32 zero
//!  16   u64 size of the file | u64 length of its header
//!  32   SHA-256 of the old header | 64: of the new header
//!  96   SHA-256 of the first and last bytes of the data, which no edit changes
//! 128   SHA-256 of bytes 0 to 128
//! 160   the old header
//! ```
//!
//! Numbers are little-endian. An undo file is input like any other: nothing of it is believed
//! before it agrees with itself and with the file beside it.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::digest::{self, Sum};
use crate::directory::{self, DataSection};
use crate::error::{Error, Result};
use crate::faults::Faults;
use crate::mapping::Mapping;
use crate::output::{self, OutputFile, WriteOptions};
use crate::parse::parse;
use crate::replaced::keep_mode;

const MAGIC: &[u8; 8] = b"GMILLUND";
const VERSION: u32 = 1;
/// Where the old header starts.
pub(super) const HEAD_BYTES: usize = 160;
const SEALED_BYTES: usize = 128;
/// The longest header that is edited in place; far above every real one, and read in a second.
pub(super) const HEADER_BYTES_MAX: u64 = 1 << 30;
/// How much of either end of the data is hashed.
const FINGERPRINT_BYTES: u64 = 64 << 10;
const SUFFIX: &str = ".edit-undo";

/// The file that a path leads to: an undo file lies beside the file itself, not beside a link.
pub(super) fn real_path(path: &Path) -> PathBuf {
    let is_link = fs::symlink_metadata(path).is_ok_and(|about| about.is_symlink());
    let real = is_link.then(|| fs::canonicalize(path).ok()).flatten();
    real.unwrap_or_else(|| path.to_owned())
}

/// The name of the undo file of a file.
pub(super) fn path_of(real: &Path) -> PathBuf {
    let mut name = OsString::from(real.file_name().unwrap_or_default());
    name.push(SUFFIX);
    real.with_file_name(name)
}

/// What an undo file says.
pub(super) struct Undo {
    file_bytes: u64,
    pub(super) old: Sum,
    pub(super) new: Sum,
    fingerprint: Sum,
    bytes: Mapping,
}

/// Writes the undo file for a change of the header of `path` from `old` to `new`; it appears whole or not at all. Returns
/// the bytes written.
pub(super) fn write(path: &Path, file: &mut File, old: &[u8], new: &[u8]) -> Result<u64> {
    let file_bytes = size(file).map_err(|source| Error::io(path, "look at the file", source))?;
    let fingerprint = fingerprint(file, old.len() as u64)
        .map_err(|source| Error::io(path, "read the data", source))?;
    let undo = &path_of(path);
    let mut head = Vec::with_capacity(HEAD_BYTES);
    head.extend_from_slice(MAGIC);
    head.extend_from_slice(&VERSION.to_le_bytes());
    head.extend_from_slice(&[0; 4]);
    head.extend_from_slice(&file_bytes.to_le_bytes());
    head.extend_from_slice(&(old.len() as u64).to_le_bytes());
    head.extend_from_slice(&digest::of_bytes(old));
    head.extend_from_slice(&digest::of_bytes(new));
    head.extend_from_slice(&fingerprint);
    let seal = digest::of_bytes(&head);
    head.extend_from_slice(&seal);
    let bytes = (head.len() + old.len()) as u64;
    let mut out = OutputFile::create(undo, bytes, &WriteOptions::default())?;
    // It has the old header, which is nobody's who cannot read the file.
    keep_mode(file, out.file())
        .map_err(|source| Error::io(undo, "keep the mode of the file", source))?;
    out.write_all(&head)
        .and_then(|()| out.write_all(old))
        .map_err(|source| Error::io(undo, "write the undo file", source))?;
    out.commit()?;
    Ok(bytes)
}

/// Removes an undo file that is done with.
pub(super) fn remove(undo: &Path) -> Result<()> {
    fs::remove_file(undo).map_err(|source| Error::io(undo, "remove the undo file", source))?;
    output::sync_folder(undo);
    Ok(())
}

/// Whether there is anything by the name of an undo file, be it a link that leads nowhere.
pub(super) fn exists(undo: &Path) -> bool {
    fs::symlink_metadata(undo).is_ok()
}

/// Whether this is an undo file by its first bytes; nothing else is removed unasked.
pub(super) fn is_ours(undo: &Path) -> bool {
    let mut magic = [0; MAGIC.len()];
    let read = open_regular(undo).and_then(|mut file| file.read_exact(&mut magic));
    read.is_ok() && magic == *MAGIC
}

impl Undo {
    /// Reads an undo file and checks it against itself; the error is the reason to refuse it.
    pub(super) fn read(undo: &Path) -> Result<Undo, String> {
        let damaged = || "it is damaged".to_owned();
        let cannot = |source: io::Error| format!("it cannot be read: {source}");
        let file = open_regular(undo).map_err(cannot)?;
        let length = file.metadata().map_err(cannot)?.len();
        if length < HEAD_BYTES as u64 || length > HEADER_BYTES_MAX + HEAD_BYTES as u64 {
            return Err(damaged());
        }
        let bytes = Mapping::of_file(&file, undo).map_err(|error| error.to_string())?;
        let all = bytes.as_ref();
        if !all.starts_with(MAGIC) {
            return Err("it is no undo file".to_owned());
        }
        if number(all, 8, 4) != u64::from(VERSION) {
            return Err("it was written by a newer gristmill".to_owned());
        }
        let header_bytes = number(all, 24, 8);
        let seal = digest::of_bytes(&all[..SEALED_BYTES]);
        let header = &all[HEAD_BYTES..];
        let (old, new, fingerprint) = (sum(all, 32), sum(all, 64), sum(all, 96));
        let whole = seal == sum(all, SEALED_BYTES)
            && header.len() as u64 == header_bytes
            && digest::of_bytes(header) == old;
        if !whole {
            return Err(damaged());
        }
        let file_bytes = number(all, 16, 8);
        Ok(Undo {
            file_bytes,
            old,
            new,
            fingerprint,
            bytes,
        })
    }

    /// The header to put back.
    pub(super) fn header(&self) -> &[u8] {
        &self.bytes.as_ref()[HEAD_BYTES..]
    }

    /// Whether this undo file was written for `file`: the sizes and the data agree, and the header
    /// that it holds is one that ends where the data of a file of this size starts. The error is
    /// the reason to refuse it.
    pub(super) fn check(&self, file: &mut File, path: &Path) -> Result<(), String> {
        let cannot = |source: io::Error| format!("the file cannot be read: {source}");
        let stranger = "it belongs to another file, or the file was replaced since".to_owned();
        let header_bytes = self.header().len() as u64;
        let size = size(file).map_err(cannot)?;
        if size != self.file_bytes || header_bytes > size {
            return Err(stranger);
        }
        if fingerprint(file, header_bytes).map_err(cannot)? != self.fingerprint {
            return Err(stranger);
        }
        let start = data_start(self.header(), path, size);
        match start.map_err(|error| format!("the header that it holds is bad: {error}"))? {
            start if start == header_bytes => Ok(()),
            _ => Err("the header that it holds ends elsewhere".to_owned()),
        }
    }
}

/// Where the data starts by this header, once it is found good for a file of `size` bytes.
pub(super) fn data_start(header: &[u8], path: &Path, size: u64) -> Result<u64> {
    let parsed = parse(header, path, &mut Faults::Refuse)?;
    let alignment = directory::alignment(&parsed.metadata, path)?;
    let start = directory::data_offset(parsed.directory_end, parsed.tensors.len(), alignment);
    let section = DataSection {
        alignment,
        offset: start,
        file_size: size,
    };
    directory::validate(parsed.tensors, path, section, &mut Faults::Refuse)?;
    Ok(start)
}

/// Opens a regular file and nothing else, through no link.
fn open_regular(path: &Path) -> io::Result<File> {
    let refused = || io::Error::other("it is not a regular file");
    if !fs::symlink_metadata(path)?.is_file() {
        return Err(refused());
    }
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        options.custom_flags(flags.bits() as i32);
    }
    let file = options.open(path)?;
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(refused())
    }
}

fn size(file: &File) -> io::Result<u64> {
    Ok(file.metadata()?.len())
}

/// The hash of the first and the last bytes after the header.
fn fingerprint(file: &mut File, header_bytes: u64) -> io::Result<Sum> {
    let size = size(file)?;
    let first = header_bytes..size.min(header_bytes.saturating_add(FINGERPRINT_BYTES));
    let last = size.saturating_sub(FINGERPRINT_BYTES).max(header_bytes)..size;
    let mut sampled = Vec::new();
    for range in [first, last] {
        file.seek(SeekFrom::Start(range.start))?;
        let length = range.end.saturating_sub(range.start);
        Read::take(&mut *file, length).read_to_end(&mut sampled)?;
    }
    Ok(digest::of_bytes(&sampled))
}

/// A little-endian number of `n` bytes, at most 8, which the caller knows to be there.
fn number(bytes: &[u8], at: usize, n: usize) -> u64 {
    let mut word = [0; 8];
    word[..n].copy_from_slice(&bytes[at..at + n]);
    u64::from_le_bytes(word)
}

/// A hash, which the caller knows to be there.
fn sum(bytes: &[u8], at: usize) -> Sum {
    let mut sum = [0; 32];
    sum.copy_from_slice(&bytes[at..at + 32]);
    sum
}
