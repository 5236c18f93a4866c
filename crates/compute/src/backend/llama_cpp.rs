//! The CPU with the arithmetic of llama.cpp ([`gristmill_kernels::llama_cpp`]): slower than [`CpuBackend`], for telling a
//! difference between the two engines from rounding.
//!
//! Memory, and the ops on which both engines agree anyway, are those of the CPU backend.

use super::cpu::elementwise::EXP_COST;
use super::cpu::parallel::for_rows;
use super::cpu::rope::TURN_COST;
use super::cpu::tensors::floats;
use super::cpu::{CpuBackend, Run, Scratch, kernel_error, output, output_and_operand};
use super::{Backend, Region};
use crate::op::{Glu, MatMul};
use crate::{
    Activation, BufferId, ComputeError, Inputs, Location, Op, Rope, Segment, Step, Tensor,
};
use gristmill_kernels::llama_cpp as kernels;
use gristmill_quant::{F16, F32};
use std::sync::{Mutex, PoisonError};

/// The host's processor, computing as llama.cpp does.
pub struct LlamaCppBackend {
    cpu: CpuBackend,
    /// Most tokens of one part of a batch.
    n_ubatch: usize,
    /// Held during an execution.
    rounded: Mutex<Rounded>,
}

/// The columns rounded last: queries, keys and values read the same ones.
#[derive(Default)]
struct Rounded {
    columns: kernels::Columns,
    source: Option<Location>,
}

impl LlamaCppBackend {
    /// A backend that runs on `n_threads` threads, the caller's counted; 0 is taken as 1. llama.cpp gives other bits with
    /// another number of threads, once the past is long, and so does this.
    pub fn new(n_threads: usize) -> Self {
        Self::with_batches(n_threads, n_threads, 512)
    }

    /// As [`CpuBackend::with_batch_threads`], for batches that are computed in parts of `n_ubatch` tokens: there the caches of
    /// windows have room for one more part, and where a position stands in them decides when it is added; `usize::MAX` is for caches that keep all positions.
    pub fn with_batches(n_threads: usize, n_batch_threads: usize, n_ubatch: usize) -> Self {
        Self {
            n_ubatch,
            cpu: CpuBackend::with_batch_threads(n_threads, n_batch_threads),
            rounded: Mutex::default(),
        }
    }
}

impl Backend for LlamaCppBackend {
    fn name(&self) -> &'static str {
        "cpu-llama.cpp"
    }

    fn supports(&self, op: &Op) -> bool {
        match op {
            Op::MatMul(op) => kernels::supports(op.weight.ty),
            Op::StoreKv(_) | Op::Attend(_) => {
                op.tensors().all(|cache| cache.ty == F16 || cache.ty == F32)
            }
            // Their order of additions is not followed yet.
            Op::ExpertMatMul(_) => false,
            _ => self.cpu.supports(op),
        }
    }

    fn scratch_bytes(&self, segment: &Segment) -> usize {
        // Columns are rounded to other blocks of about the same size.
        self.cpu.scratch_bytes(segment)
    }

    fn import(&self, region: Region) -> Result<BufferId, ComputeError> {
        self.cpu.import(region)
    }

    fn allocate(&self, bytes: usize) -> Result<BufferId, ComputeError> {
        self.cpu.allocate(bytes)
    }

    fn free(&self, buffer: BufferId) {
        self.cpu.free(buffer);
    }

    fn write(&self, buffer: BufferId, offset: usize, data: &[u8]) -> Result<(), ComputeError> {
        self.cpu.write(buffer, offset, data)
    }

    fn read(&self, buffer: BufferId, offset: usize, out: &mut [u8]) -> Result<(), ComputeError> {
        self.cpu.read(buffer, offset, out)
    }

    fn execute(
        &self,
        segment: &Segment,
        arena: BufferId,
        inputs: &Inputs<'_>,
    ) -> Result<(), ComputeError> {
        let mut rounded = self.rounded.lock().unwrap_or_else(PoisonError::into_inner);
        self.cpu
            .run(segment, arena, inputs, |run, values, scratch| {
                rounded.source = None;
                for step in &segment.steps {
                    if let Op::MatMul(op) = &step.op {
                        matmul(run, op, step, values, &mut rounded)?;
                        continue;
                    }
                    // Products of the same columns follow each other: another op between them may have written the columns.
                    rounded.source = None;
                    self.follow(run, step, values, scratch)?;
                }
                Ok(())
            })
    }
}

impl LlamaCppBackend {
    /// Ops on which the engines differ are done as llama.cpp does them.
    fn follow(
        &self,
        run: &Run<'_>,
        step: &Step,
        values: &mut [f32],
        scratch: &mut Scratch,
    ) -> Result<(), ComputeError> {
        if step.output.len == 0 {
            return run.step(step, values, scratch);
        }
        let rotations = [kernels::rotate_normal, kernels::rotate_neox];
        match &step.op {
            Op::RmsNorm(op) => run.rms_norm(op, step, values, kernels::rms_norm),
            Op::Activate(Activation::Silu) => run.unary(step, values, kernels::silu),
            Op::Activate(Activation::GeluTanh) => run.unary(step, values, kernels::gelu),
            Op::Glu(Glu {
                activation: Activation::Silu,
            }) => run.binary_with_cost(step, values, EXP_COST, kernels::silu_mul),
            Op::Glu(Glu {
                activation: Activation::GeluTanh,
            }) => run.binary_with_cost(step, values, EXP_COST, kernels::gelu_mul),
            Op::RopeTable(op) => rope_table(run, op, output(step, values)?),
            Op::Rotate(op) => run.rotate(op, step, values, rotations),
            Op::Attend(op) => {
                let (attention, n_ubatch) = (&op.attention, self.n_ubatch);
                let form = kernels::AttentionForm::new(
                    attention.scales_queries,
                    attention.window,
                    n_ubatch,
                );
                run.attend(op, step, values, |pool, shape, batch, k, v, out| {
                    kernels::attention(pool, shape, form, batch, k, v, out)
                })
            }
            _ => run.step(step, values, scratch),
        }
    }
}

fn matmul(
    run: &Run<'_>,
    op: &MatMul,
    step: &Step,
    values: &mut [f32],
    rounded: &mut Rounded,
) -> Result<(), ComputeError> {
    let error = kernel_error("matmul");
    let Tensor { ty, shape, .. } = op.weight;
    let source = step.operands[0];
    let (out, x) = output_and_operand(step, source, values)?;
    let is_same = rounded.source == Some(source);
    let columns = &mut rounded.columns;
    kernels::round_columns(ty, x, shape.row_len(), is_same, columns).map_err(&error)?;
    rounded.source = Some(source);
    let weights = run.tensor(&op.weight)?;
    kernels::matmul(run.pool, ty, &weights, shape.n_rows(), columns, out).map_err(&error)
}

/// Cosines, then sines, of each position: `[n_dims, n_tokens]`. From pair to pair the angle is multiplied by one factor, so
/// that its error grows.
fn rope_table(run: &Run<'_>, op: &Rope, out: &mut [f32]) -> Result<(), ComputeError> {
    let bytes = op
        .factors
        .as_ref()
        .map(|factors| run.tensor(factors))
        .transpose()?;
    let factors = match (&op.factors, &bytes) {
        (Some(factors), Some(bytes)) => Some(floats(factors, bytes)?),
        _ => None,
    };
    let factor = op.freq_base.powf(-2.0 / op.n_dims as f32);
    let magnitude = op.magnitude();
    for_rows(run.pool, out, op.n_dims, TURN_COST, |first, rows| {
        let positions = &run.inputs.positions[first..];
        for (row, &position) in rows.chunks_exact_mut(op.n_dims).zip(positions) {
            let (cosines, sines) = row.split_at_mut(op.n_dims / 2);
            let mut full = position as f32;
            for (pair, (cos, sin)) in cosines.iter_mut().zip(sines).enumerate() {
                let divisor = factors.and_then(|f| f.get(pair)).copied().unwrap_or(1.0);
                let (s, c) = op.angle(pair, full / divisor).sin_cos();
                (*cos, *sin) = (c * magnitude, s * magnitude);
                full *= factor;
            }
        }
    });
    Ok(())
}
