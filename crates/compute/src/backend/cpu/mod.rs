//! The CPU. For now the plain formulas under the final interface; the kernels move in next.

use super::plain::PlainBackend;
use super::{Backend, Region};
use crate::{BufferId, ComputeError, Inputs, Op, Segment};

/// The host's processor.
#[derive(Default)]
pub struct CpuBackend {
    plain: PlainBackend,
}

impl CpuBackend {
    /// A backend that runs on `n_threads` threads, the caller's counted.
    pub fn new(_n_threads: usize) -> Self {
        Self::default()
    }
}

impl Backend for CpuBackend {
    fn name(&self) -> &'static str {
        "cpu"
    }

    fn supports(&self, op: &Op) -> bool {
        self.plain.supports(op)
    }

    fn import(&self, region: Region) -> Result<BufferId, ComputeError> {
        self.plain.import(region)
    }

    fn allocate(&self, bytes: usize) -> Result<BufferId, ComputeError> {
        self.plain.allocate(bytes)
    }

    fn free(&self, buffer: BufferId) {
        self.plain.free(buffer);
    }

    fn write(&self, buffer: BufferId, offset: usize, data: &[u8]) -> Result<(), ComputeError> {
        self.plain.write(buffer, offset, data)
    }

    fn read(&self, buffer: BufferId, offset: usize, out: &mut [u8]) -> Result<(), ComputeError> {
        self.plain.read(buffer, offset, out)
    }

    fn execute(
        &self,
        segment: &Segment,
        arena: BufferId,
        inputs: &Inputs<'_>,
    ) -> Result<(), ComputeError> {
        self.plain.execute(segment, arena, inputs)
    }
}
