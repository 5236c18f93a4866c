//! The bytes of a file: mapped, read into memory where that was asked for, or owned where they had to be changed. The only
//! `unsafe` of this crate.

use std::fmt;
use std::fs::File;
use std::path::Path;

use memmap2::{Mmap, MmapMut};

use crate::error::{Error, Result};
use crate::source::Source;

/// A read-only region of bytes that stays valid and in place as long as it lives.
///
/// # A file that changes under the map
///
/// A mapped file is shared with everyone who may write to it. The sizes and offsets of this crate
/// were checked against the length at the time of mapping and are kept in owned memory, so a
/// change of the *content* can change weights, and never an index. If another process *truncates*
/// the file, the system answers a read behind its new end with a fault (SIGBUS on Unix) that ends
/// the process; no library can turn it into an error. Replace a file in use by renaming a new one
/// over it, as [`crate::Writer`] does: the map keeps the old file.
pub struct Mapping(Region);

enum Region {
    Mapped(Mmap),
    /// Memory of this process that a file was read into.
    Read(Mmap),
    Owned(Lines, usize),
}

/// Memory in units of a cache line, so that an owned region is aligned as well as a mapped one.
type Lines = Vec<Line>;

#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(64))]
struct Line([u8; 64]);

impl Mapping {
    /// Maps a regular file that is not empty.
    pub(crate) fn of_file(file: &File, path: &Path) -> Result<Mapping> {
        // SAFETY: the map is read-only and only ever seen as bytes, for which every content is
        // valid. A concurrent change of the file may change those bytes between two reads; no
        // safety of ours rests on their staying equal, since all lengths and offsets that were
        // checked live in owned memory. A concurrent truncation ends the process with a signal,
        // which is not undefined behaviour; the type's documentation tells of it.
        let map =
            unsafe { Mmap::map(file) }.map_err(|source| Error::io(path, "map the file", source))?;
        Ok(Mapping(Region::Mapped(map)))
    }

    /// The first `len` bytes of a file, read into memory.
    pub(crate) fn read(source: &Source, len: usize, path: &Path) -> Result<Mapping> {
        let reserved = MmapMut::map_anon(len);
        let mut memory =
            reserved.map_err(|error| Error::io(path, "reserve memory for the file", error))?;
        source.read_at(0, &mut memory)?;
        let memory = memory.make_read_only();
        let memory =
            memory.map_err(|error| Error::io(path, "protect the memory of the file", error))?;
        Ok(Mapping(Region::Read(memory)))
    }

    /// Asks the system to keep the bytes in memory.
    pub(crate) fn lock(&self) -> std::io::Result<()> {
        match &self.0 {
            #[cfg(unix)]
            Region::Mapped(map) | Region::Read(map) => map.lock(),
            _ => Err(std::io::ErrorKind::Unsupported.into()),
        }
    }

    /// An owned copy of bytes.
    pub fn of_bytes(bytes: &[u8]) -> Mapping {
        let mut lines = vec![Line([0; 64]); bytes.len().div_ceil(64)];
        bytemuck::cast_slice_mut::<Line, u8>(&mut lines)[..bytes.len()].copy_from_slice(bytes);
        Mapping(Region::Owned(lines, bytes.len()))
    }

    /// An owned copy of bytes, or nothing where the system has no memory for it.
    pub(crate) fn try_of_bytes(bytes: &[u8]) -> Option<Mapping> {
        let mut lines = Lines::new();
        lines.try_reserve_exact(bytes.len().div_ceil(64)).ok()?;
        lines.extend(bytes.chunks(64).map(|chunk| {
            let mut line = Line([0; 64]);
            line.0[..chunk.len()].copy_from_slice(chunk);
            line
        }));
        Some(Mapping(Region::Owned(lines, bytes.len())))
    }

    /// The bytes, to change them, where this region is owned.
    pub(crate) fn owned_mut(&mut self) -> Option<&mut [u8]> {
        match &mut self.0 {
            Region::Mapped(_) | Region::Read(_) => None,
            Region::Owned(lines, len) => Some(&mut bytemuck::cast_slice_mut(lines)[..*len]),
        }
    }

    /// Tells the system that the bytes of a range will not be needed for a while, so that it may use their memory for
    /// something else. They stay as they are: the next read brings them back from the file.
    pub fn release(&self, range: std::ops::Range<usize>) {
        #[cfg(unix)]
        if let Region::Mapped(map) = &self.0
            && range.start < range.end
            && range.end <= map.len()
        {
            // SAFETY: the map is a read-only view of a file, so dropping its pages loses nothing: a read loads the same
            // bytes again. A refusal changes nothing.
            let _ = unsafe {
                map.unchecked_advise_range(
                    memmap2::UncheckedAdvice::DontNeed,
                    range.start,
                    range.end - range.start,
                )
            };
        }
        #[cfg(not(unix))]
        let _ = range;
    }

    /// Whether the bytes are those of a file, loaded on demand by the system, rather than memory of
    /// this process.
    pub fn is_mapped(&self) -> bool {
        matches!(self.0, Region::Mapped(_))
    }
}

impl AsRef<[u8]> for Mapping {
    fn as_ref(&self) -> &[u8] {
        match &self.0 {
            Region::Mapped(map) | Region::Read(map) => map,
            Region::Owned(lines, len) => &bytemuck::cast_slice(lines)[..*len],
        }
    }
}

impl fmt::Debug for Mapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Mapping({} bytes, mapped: {})",
            self.as_ref().len(),
            self.is_mapped()
        )
    }
}
