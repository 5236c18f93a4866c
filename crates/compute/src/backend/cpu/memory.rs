//! Buffers: regions of the host that are only read, and owned memory.

use super::NAME;
use crate::{BufferId, ComputeError, Region};
use std::ops::{Deref, Range};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

enum Buffer {
    Region(Region),
    /// f32 elements, so that any cast of aligned parts works; and the size asked for, in bytes.
    Owned(RwLock<Vec<f32>>, usize),
}

/// Buffers by id; freed ids are used again.
#[derive(Default)]
pub struct Buffers {
    buffers: Vec<Option<Buffer>>,
}

/// Bytes of a tensor, readable while this lives.
pub enum Bytes<'a> {
    Region(&'a [u8]),
    Owned(RwLockReadGuard<'a, Vec<f32>>, Range<usize>),
}

impl Deref for Bytes<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Region(bytes) => bytes,
            Self::Owned(floats, range) => &bytemuck::cast_slice(floats)[range.clone()],
        }
    }
}

impl Buffers {
    pub fn import(&mut self, region: Region) -> Result<BufferId, ComputeError> {
        let bytes = (*region).as_ref();
        if bytes.as_ptr().align_offset(align_of::<f32>()) == 0 {
            return self.insert(Buffer::Region(region));
        }
        // Vectors of f32 could not be read in place: the one case where a region is copied.
        let buffer = self.allocate(bytes.len())?;
        self.write(buffer, 0, bytes)?;
        Ok(buffer)
    }

    pub fn allocate(&mut self, bytes: usize) -> Result<BufferId, ComputeError> {
        let n = bytes.div_ceil(size_of::<f32>());
        // Fresh pages of the system are zero already, so that a large cache costs nothing until it is used.
        let floats = bytemuck::allocation::try_zeroed_vec(n);
        let floats = floats.map_err(|()| ComputeError::OutOfMemory { bytes })?;
        self.insert(Buffer::Owned(RwLock::new(floats), bytes))
    }

    fn insert(&mut self, buffer: Buffer) -> Result<BufferId, ComputeError> {
        let free = self.buffers.iter().position(Option::is_none);
        let index = free.unwrap_or(self.buffers.len());
        let id = u32::try_from(index).map_err(|_| ComputeError::TooLarge {
            what: "number of buffers",
        })?;
        match free {
            Some(index) => self.buffers[index] = Some(buffer),
            None => self.buffers.push(Some(buffer)),
        }
        Ok(BufferId(id))
    }

    pub fn free(&mut self, buffer: BufferId) {
        if let Some(slot) = self.buffers.get_mut(buffer.0 as usize) {
            *slot = None;
        }
    }

    pub fn write(&self, buffer: BufferId, offset: usize, data: &[u8]) -> Result<(), ComputeError> {
        let Buffer::Owned(floats, size) = self.get(buffer)? else {
            return Err(ComputeError::ReadOnly {
                backend: NAME,
                buffer,
            });
        };
        let range = checked_range(buffer, offset, data.len(), *size)?;
        let mut floats = floats.write().unwrap_or_else(PoisonError::into_inner);
        bytemuck::cast_slice_mut::<f32, u8>(&mut floats)[range].copy_from_slice(data);
        Ok(())
    }

    pub fn read(
        &self,
        buffer: BufferId,
        offset: usize,
        out: &mut [u8],
    ) -> Result<(), ComputeError> {
        out.copy_from_slice(&self.bytes(buffer, offset, out.len())?);
        Ok(())
    }

    /// All elements of an owned buffer, for writing. Waits for readers: the caller must hold no part of it.
    pub fn floats_mut(
        &self,
        buffer: BufferId,
    ) -> Result<RwLockWriteGuard<'_, Vec<f32>>, ComputeError> {
        match self.get(buffer)? {
            Buffer::Owned(floats, _) => Ok(floats.write().unwrap_or_else(PoisonError::into_inner)),
            Buffer::Region(_) => Err(ComputeError::ReadOnly {
                backend: NAME,
                buffer,
            }),
        }
    }

    /// A part of a buffer, for reading. Waits for a writer: the caller must hold no part of it.
    pub fn bytes(
        &self,
        buffer: BufferId,
        offset: usize,
        n_bytes: usize,
    ) -> Result<Bytes<'_>, ComputeError> {
        match self.get(buffer)? {
            Buffer::Region(region) => {
                let bytes = (**region).as_ref();
                let range = checked_range(buffer, offset, n_bytes, bytes.len())?;
                Ok(Bytes::Region(&bytes[range]))
            }
            Buffer::Owned(floats, size) => {
                let range = checked_range(buffer, offset, n_bytes, *size)?;
                Ok(Bytes::Owned(
                    floats.read().unwrap_or_else(PoisonError::into_inner),
                    range,
                ))
            }
        }
    }

    /// Whether a buffer is imported memory, which needs no lock.
    pub fn is_region(&self, buffer: BufferId) -> bool {
        matches!(self.get(buffer), Ok(Buffer::Region(_)))
    }

    fn get(&self, buffer: BufferId) -> Result<&Buffer, ComputeError> {
        let unknown = ComputeError::UnknownBuffer {
            backend: NAME,
            buffer,
        };
        self.buffers
            .get(buffer.0 as usize)
            .and_then(Option::as_ref)
            .ok_or(unknown)
    }
}

fn checked_range(
    buffer: BufferId,
    offset: usize,
    bytes: usize,
    size: usize,
) -> Result<Range<usize>, ComputeError> {
    match offset.checked_add(bytes) {
        Some(end) if end <= size => Ok(offset..end),
        _ => Err(ComputeError::OutOfBounds {
            backend: NAME,
            buffer,
            offset,
            bytes,
            size,
        }),
    }
}
