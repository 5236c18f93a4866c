//! The second backend: memory of its own, one thread, the formulas written out. It is the oracle of the
//! conformance tests and stands in for a device whose memory the host cannot see.

mod attention;
mod experts;
mod memory;
mod ops;

use super::{Backend, Region};
use crate::{BufferId, ComputeError, Inputs, Op, Segment};
use memory::Memory;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Name in logs and errors.
const NAME: &str = "plain";

/// See the module.
#[derive(Default)]
pub struct PlainBackend {
    memory: Mutex<Memory>,
}

impl PlainBackend {
    /// A backend without buffers.
    pub fn new() -> Self {
        Self::default()
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        // Buffers hold plain numbers: a panic elsewhere leaves nothing half-made that could hurt.
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Backend for PlainBackend {
    fn name(&self) -> &'static str {
        NAME
    }

    fn supports(&self, op: &Op) -> bool {
        op.tensors().all(|tensor| tensor.ty.can_decode())
    }

    fn import(&self, region: Region) -> Result<BufferId, ComputeError> {
        let bytes = (*region).as_ref();
        let mut memory = self.memory();
        let buffer = memory.allocate(bytes.len())?;
        memory
            .bytes_mut(buffer, 0, bytes.len())?
            .copy_from_slice(bytes);
        Ok(buffer)
    }

    fn allocate(&self, bytes: usize) -> Result<BufferId, ComputeError> {
        self.memory().allocate(bytes)
    }

    fn free(&self, buffer: BufferId) {
        self.memory().free(buffer);
    }

    fn write(&self, buffer: BufferId, offset: usize, data: &[u8]) -> Result<(), ComputeError> {
        self.memory()
            .bytes_mut(buffer, offset, data.len())?
            .copy_from_slice(data);
        Ok(())
    }

    fn read(&self, buffer: BufferId, offset: usize, out: &mut [u8]) -> Result<(), ComputeError> {
        out.copy_from_slice(self.memory().bytes(buffer, offset, out.len())?);
        Ok(())
    }

    fn execute(
        &self,
        segment: &Segment,
        arena: BufferId,
        inputs: &Inputs<'_>,
    ) -> Result<(), ComputeError> {
        let mut memory = self.memory();
        for step in &segment.steps {
            let mut operands = [Vec::new(), Vec::new()];
            for (operand, place) in operands.iter_mut().zip(step.operands) {
                *operand = memory.floats(arena, place.offset * size_of::<f32>(), place.len)?;
            }
            let [a, b] = operands;
            let result = match &step.op {
                Op::StoreKv(op) => {
                    let slots = inputs.slots_of(op.layer.table, &segment.batch);
                    attention::store(&mut memory, &op.layer, [&a, &b], slots)?;
                    continue;
                }
                Op::Attend(op) => attention::attend(&memory, op, &a, &segment.batch, inputs)?,
                _ => ops::compute(&memory, step, a, &b, inputs)?,
            };
            memory.set_floats(arena, step.output.offset * size_of::<f32>(), &result)?;
        }
        Ok(())
    }
}
