//! How steps reach their tensors. The arena is locked during an execution, so that a tensor inside it is an error.

use super::memory::Bytes;
use super::{NAME, Run};
use crate::{ComputeError, Tensor};
use std::sync::RwLockWriteGuard;

impl Run<'_> {
    /// A tensor's bytes. One tensor at a time: see [`Run::tensor_pair`].
    pub fn tensor(&self, tensor: &Tensor) -> Result<Bytes<'_>, ComputeError> {
        self.check(tensor)?;
        self.buffers
            .bytes(tensor.buffer, tensor.offset, tensor.n_bytes()?)
    }

    /// The bytes of two tensors, which may lie in one buffer, handed to `job`.
    ///
    /// A lock must not be taken twice by one thread, hence the two cases.
    pub fn tensor_pair<R>(
        &self,
        first: &Tensor,
        second: &Tensor,
        job: impl FnOnce(&[u8], &[u8]) -> Result<R, ComputeError>,
    ) -> Result<R, ComputeError> {
        if first.buffer != second.buffer {
            return job(&self.tensor(first)?, &self.tensor(second)?);
        }
        self.check(first)?;
        let (n_first, n_second) = (first.n_bytes()?, second.n_bytes()?);
        let start = first.offset.min(second.offset);
        let overflow = || ComputeError::TooLarge {
            what: "tensor range",
        };
        let end = |tensor: &Tensor, n: usize| tensor.offset.checked_add(n).ok_or_else(overflow);
        let end = end(first, n_first)?.max(end(second, n_second)?);
        let both = self.buffers.bytes(first.buffer, start, end - start)?;
        job(
            &both[first.offset - start..][..n_first],
            &both[second.offset - start..][..n_second],
        )
    }

    /// The elements of an owned buffer that a step writes into.
    pub fn written_buffer(
        &self,
        tensor: &Tensor,
    ) -> Result<RwLockWriteGuard<'_, Vec<f32>>, ComputeError> {
        self.check(tensor)?;
        self.buffers.floats_mut(tensor.buffer)
    }

    fn check(&self, tensor: &Tensor) -> Result<(), ComputeError> {
        if tensor.buffer == self.arena {
            return Err(ComputeError::ReadOnly {
                backend: NAME,
                buffer: tensor.buffer,
            });
        }
        Ok(())
    }
}

/// The elements of an F32 tensor.
pub fn floats<'a>(tensor: &Tensor, bytes: &'a [u8]) -> Result<&'a [f32], ComputeError> {
    bytemuck::try_cast_slice(bytes).map_err(|_| ComputeError::Misaligned {
        backend: NAME,
        buffer: tensor.buffer,
        offset: tensor.offset,
    })
}
