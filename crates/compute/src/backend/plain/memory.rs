//! Buffers of bytes.

use super::NAME;
use crate::{BufferId, ComputeError, Tensor};

/// Buffers by id; freed ids are used again.
#[derive(Default)]
pub struct Memory {
    buffers: Vec<Option<Vec<u8>>>,
}

impl Memory {
    pub fn allocate(&mut self, bytes: usize) -> Result<BufferId, ComputeError> {
        let mut buffer = Vec::new();
        buffer
            .try_reserve_exact(bytes)
            .map_err(|_| ComputeError::OutOfMemory { bytes })?;
        buffer.resize(bytes, 0);
        let free = self.buffers.iter().position(Option::is_none);
        let index = free.unwrap_or_else(|| {
            self.buffers.push(None);
            self.buffers.len() - 1
        });
        self.buffers[index] = Some(buffer);
        u32::try_from(index)
            .map(BufferId)
            .map_err(|_| ComputeError::TooLarge {
                what: "number of buffers",
            })
    }

    pub fn free(&mut self, buffer: BufferId) {
        if let Some(slot) = self.buffers.get_mut(buffer.0 as usize) {
            *slot = None;
        }
    }

    pub fn bytes(
        &self,
        buffer: BufferId,
        offset: usize,
        bytes: usize,
    ) -> Result<&[u8], ComputeError> {
        let unknown = ComputeError::UnknownBuffer {
            backend: NAME,
            buffer,
        };
        let all = self
            .buffers
            .get(buffer.0 as usize)
            .and_then(Option::as_ref)
            .ok_or(unknown)?;
        let outside = ComputeError::OutOfBounds {
            backend: NAME,
            buffer,
            offset,
            bytes,
            size: all.len(),
        };
        let end = offset.checked_add(bytes).ok_or(ComputeError::TooLarge {
            what: "buffer range",
        })?;
        all.get(offset..end).ok_or(outside)
    }

    pub fn bytes_mut(
        &mut self,
        buffer: BufferId,
        offset: usize,
        bytes: usize,
    ) -> Result<&mut [u8], ComputeError> {
        self.bytes(buffer, offset, bytes)?;
        let all = self.buffers[buffer.0 as usize].as_mut();
        all.map(|all| &mut all[offset..offset + bytes])
            .ok_or(ComputeError::UnknownBuffer {
                backend: NAME,
                buffer,
            })
    }

    /// `n` f32 numbers from a byte offset on.
    pub fn floats(
        &self,
        buffer: BufferId,
        offset: usize,
        n: usize,
    ) -> Result<Vec<f32>, ComputeError> {
        let bytes = self.bytes(buffer, offset, n * size_of::<f32>())?;
        Ok(bytes
            .as_chunks()
            .0
            .iter()
            .map(|&b| f32::from_le_bytes(b))
            .collect())
    }

    pub fn set_floats(
        &mut self,
        buffer: BufferId,
        offset: usize,
        x: &[f32],
    ) -> Result<(), ComputeError> {
        let bytes = self.bytes_mut(buffer, offset, size_of_val(x))?;
        for (bytes, x) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(x) {
            *bytes = x.to_le_bytes();
        }
        Ok(())
    }

    /// The bytes of one row of a tensor.
    pub fn row(&self, tensor: &Tensor, row: usize) -> Result<&[u8], ComputeError> {
        let row_bytes = tensor.row_bytes()?;
        self.bytes(tensor.buffer, row_offset(tensor, row, row_bytes), row_bytes)
    }

    /// One row of a tensor, decoded.
    pub fn decoded_row(&self, tensor: &Tensor, row: usize) -> Result<Vec<f32>, ComputeError> {
        let mut out = vec![0.0; tensor.shape.row_len()];
        let decoded = tensor.ty.decode(self.row(tensor, row)?, &mut out);
        decoded.map_err(|source| ComputeError::Quant {
            op: "decode",
            source,
        })?;
        Ok(out)
    }
}

/// Where a row of a tensor begins; past every buffer if that overflows.
pub fn row_offset(tensor: &Tensor, row: usize, row_bytes: usize) -> usize {
    tensor.offset.saturating_add(row.saturating_mul(row_bytes))
}
