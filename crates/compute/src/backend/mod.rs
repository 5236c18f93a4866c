//! What a device must be able to do.

pub mod cpu;
pub mod llama_cpp;
pub mod plain;

use crate::{BufferId, ComputeError, Inputs, Op, Segment};
use std::sync::Arc;

/// Memory of the host that a backend may import, for example a mapped file.
pub type Region = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// A device with memory of its own.
///
/// Buffers are addressed by id and byte offset; the host reaches them only through `write` and `read`. All
/// methods take `&self`: a backend is shared by every context that runs on it.
pub trait Backend: Send + Sync {
    /// A short name for logs and errors.
    fn name(&self) -> &'static str;

    /// Whether `execute` knows this op with these tensor types.
    fn supports(&self, op: &Op) -> bool;

    /// Bytes of host memory that executing a segment takes besides the arena, as far as they grow with the batch.
    fn scratch_bytes(&self, segment: &Segment) -> usize {
        let _ = segment;
        0
    }

    /// Takes over a region of host memory for reading: a share of it on the CPU, an upload elsewhere.
    ///
    /// # Errors
    /// `OutOfMemory`.
    fn import(&self, region: Region) -> Result<BufferId, ComputeError>;

    /// Reserves `bytes` zeroed bytes.
    ///
    /// # Errors
    /// `OutOfMemory`.
    fn allocate(&self, bytes: usize) -> Result<BufferId, ComputeError>;

    /// Gives a buffer back. An unknown id is ignored: freeing happens on drop, where nobody could act on it.
    fn free(&self, buffer: BufferId);

    /// Copies host memory into a buffer.
    ///
    /// # Errors
    /// `UnknownBuffer`, `OutOfBounds`, `ReadOnly`.
    fn write(&self, buffer: BufferId, offset: usize, data: &[u8]) -> Result<(), ComputeError>;

    /// Copies a part of a buffer to host memory.
    ///
    /// # Errors
    /// `UnknownBuffer`, `OutOfBounds`.
    fn read(&self, buffer: BufferId, offset: usize, out: &mut [u8]) -> Result<(), ComputeError>;

    /// Runs the steps of a segment in order. Values lie in the buffer `arena` at the locations that the steps
    /// name. The executor has checked the inputs against the plan's limits.
    ///
    /// # Errors
    /// Those of buffers, and those of an op's tensors.
    fn execute(
        &self,
        segment: &Segment,
        arena: BufferId,
        inputs: &Inputs<'_>,
    ) -> Result<(), ComputeError>;
}
