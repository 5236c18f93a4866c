//! The CPU: memory shared with the host, mapped files imported without a copy, the work done by the kernels on
//! a pool of threads.
//!
//! One execution runs at a time; its steps follow each other and each is cut over the threads where that pays.
//! In the steady state a step allocates nothing here.

mod attention;
pub(super) mod elementwise;
mod experts;
mod memory;
pub(super) mod parallel;
mod product;
pub(super) mod rope;
mod rows;
pub(super) mod tensors;

use super::{Backend, Region};
use crate::plan::Location;
use crate::{BatchShape, BufferId, ComputeError, Inputs, Op, Segment, Step};
use gristmill_kernels::{self as kernels, KernelError, Pool};
use memory::Buffers;
use product::Prepared;
use rope::ROTATIONS;
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Name in logs and errors.
const NAME: &str = "cpu";

/// The host's processor.
pub struct CpuBackend {
    pool: Pool,
    /// For batches of more than one token, where they have another number of threads.
    batch_pool: Option<Pool>,
    buffers: RwLock<Buffers>,
    /// Held during an execution.
    scratch: Mutex<Scratch>,
}

/// What an execution keeps between steps, and its allocations between executions.
#[derive(Default)]
pub(super) struct Scratch {
    prepared: Prepared,
    pub(super) frequencies: Vec<f32>,
    /// Logits of a router.
    logits: Vec<f32>,
}

/// One execution in progress.
pub(super) struct Run<'a> {
    pub(super) pool: &'a Pool,
    buffers: &'a Buffers,
    arena: BufferId,
    batch: &'a BatchShape,
    pub(super) inputs: &'a Inputs<'a>,
}

impl CpuBackend {
    /// A backend that runs on `n_threads` threads, the caller's counted; 0 is taken as 1.
    pub fn new(n_threads: usize) -> Self {
        Self {
            pool: Pool::new(n_threads),
            batch_pool: None,
            buffers: RwLock::default(),
            scratch: Mutex::default(),
        }
    }

    /// As [`CpuBackend::new`], with another number of threads for batches of more than one token.
    pub fn with_batch_threads(n_threads: usize, n_threads_batch: usize) -> Self {
        let differ = n_threads_batch.max(1) != n_threads.max(1);
        Self {
            batch_pool: differ.then(|| Pool::new(n_threads_batch)),
            ..Self::new(n_threads)
        }
    }

    /// Threads that take part, the caller's counted.
    pub fn n_threads(&self) -> usize {
        self.pool.n_threads()
    }

    /// Calls `job(run, values, scratch)` with the values in the arena.
    pub(super) fn run(
        &self,
        segment: &Segment,
        arena: BufferId,
        inputs: &Inputs<'_>,
        job: impl FnOnce(&Run<'_>, &mut [f32], &mut Scratch) -> Result<(), ComputeError>,
    ) -> Result<(), ComputeError> {
        let mut scratch = self.scratch.lock().unwrap_or_else(PoisonError::into_inner);
        let buffers = self.buffers();
        let mut values = buffers.floats_mut(arena)?;
        let of_batch = self
            .batch_pool
            .as_ref()
            .filter(|_| segment.batch.n_tokens > 1);
        let run = Run {
            pool: of_batch.unwrap_or(&self.pool),
            buffers: &buffers,
            arena,
            batch: &segment.batch,
            inputs,
        };
        job(&run, &mut values, &mut scratch)
    }

    // Locks guard plain numbers: a panic elsewhere leaves nothing half-made that could hurt, so poison is ignored.

    fn buffers(&self) -> RwLockReadGuard<'_, Buffers> {
        self.buffers.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn buffers_mut(&self) -> RwLockWriteGuard<'_, Buffers> {
        self.buffers.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Backend for CpuBackend {
    fn name(&self) -> &'static str {
        NAME
    }

    fn supports(&self, op: &Op) -> bool {
        match op {
            Op::MatMul(op) => kernels::supports(op.weight.ty),
            Op::ExpertMatMul(op) => kernels::supports(op.weight.ty),
            _ => op.tensors().all(|tensor| tensor.ty.can_decode()),
        }
    }

    fn scratch_bytes(&self, segment: &Segment) -> usize {
        product::prepared_bytes(&segment.steps)
    }

    fn import(&self, region: Region) -> Result<BufferId, ComputeError> {
        self.buffers_mut().import(region)
    }

    fn allocate(&self, bytes: usize) -> Result<BufferId, ComputeError> {
        self.buffers_mut().allocate(bytes)
    }

    fn free(&self, buffer: BufferId) {
        self.buffers_mut().free(buffer);
    }

    fn write(&self, buffer: BufferId, offset: usize, data: &[u8]) -> Result<(), ComputeError> {
        self.buffers().write(buffer, offset, data)
    }

    fn read(&self, buffer: BufferId, offset: usize, out: &mut [u8]) -> Result<(), ComputeError> {
        self.buffers().read(buffer, offset, out)
    }

    fn execute(
        &self,
        segment: &Segment,
        arena: BufferId,
        inputs: &Inputs<'_>,
    ) -> Result<(), ComputeError> {
        self.run(segment, arena, inputs, |run, values, scratch| {
            scratch.prepared.forget();
            let mut steps = segment.steps.as_slice();
            while let [step, rest @ ..] = steps {
                let n_products = run.products(steps, values, &mut scratch.prepared)?;
                if n_products > 0 {
                    steps = &steps[n_products..];
                    continue;
                }
                run.step(step, values, scratch)?;
                scratch.prepared.written(step.output);
                steps = rest;
            }
            Ok(())
        })
    }
}

impl Run<'_> {
    pub(super) fn step(
        &self,
        step: &Step,
        values: &mut [f32],
        scratch: &mut Scratch,
    ) -> Result<(), ComputeError> {
        if step.output.len == 0 && !matches!(step.op, Op::StoreKv(_)) {
            return Ok(());
        }
        match &step.op {
            Op::Embed(op) => self.embed(op, output(step, values)?),
            Op::SelectOutputs => self.select_outputs(step, values),
            Op::Route(op) => self.route(op, step, values, &mut scratch.logits),
            Op::Combine => self.combine(step, values),
            Op::AddRow(op) => self.with_row(step, &op.row, values, kernels::add_assign),
            Op::MulRow(op) => self.with_row(step, &op.row, values, kernels::mul_assign),
            Op::Add => self.binary(step, values, kernels::add_assign),
            Op::Mul => self.binary(step, values, kernels::mul_assign),
            Op::Scale(factor) => self.unary(step, values, |x| kernels::scale_assign(x, *factor)),
            Op::Softcap(cap) => self.unary(step, values, |x| kernels::softcap_assign(x, *cap)),
            Op::Activate(activation) => self.activate(step, *activation, values),
            Op::Glu(op) => self.glu(step, op.activation, values),
            Op::RmsNorm(op) => self.rms_norm(op, step, values, kernels::rms_norm),
            Op::LayerNorm(op) => self.layer_norm(op, step, values),
            Op::RopeTable(op) => {
                self.rope_table(op, output(step, values)?, &mut scratch.frequencies)
            }
            Op::Rotate(op) => self.rotate(op, step, values, ROTATIONS),
            Op::StoreKv(op) => self.store(op, step, values),
            Op::Attend(op) => self.attend(op, step, values, kernels::attention),
            // Products are done in groups before this; a reshape is another name for the same elements, and no step.
            Op::MatMul(_) | Op::ExpertMatMul(_) | Op::Reshape(_) => Ok(()),
        }
    }
}

/// The result's elements.
pub(super) fn output<'a>(
    step: &Step,
    values: &'a mut [f32],
) -> Result<&'a mut [f32], ComputeError> {
    values.get_mut(step.output.range()).ok_or(places(step))
}

/// An operand's elements, for an op that writes no value.
fn operand<'a>(step: &Step, place: Location, values: &'a [f32]) -> Result<&'a [f32], ComputeError> {
    values.get(place.range()).ok_or(places(step))
}

/// The result's elements and an operand's, which lie apart.
pub(super) fn output_and_operand<'a>(
    step: &Step,
    place: Location,
    values: &'a mut [f32],
) -> Result<(&'a mut [f32], &'a [f32]), ComputeError> {
    let [output, operand] = values
        .get_disjoint_mut([step.output.range(), place.range()])
        .map_err(|_| places(step))?;
    Ok((output, operand))
}

/// Copies the first operand to the result's place, unless that is its place already.
fn start_from_first(step: &Step, values: &mut [f32]) -> Result<(), ComputeError> {
    let (from, to) = (step.operands[0], step.output);
    if from == to {
        return Ok(());
    }
    let (output, operand) = output_and_operand(step, from, values)?;
    if output.len() != operand.len() {
        return Err(places(step));
    }
    output.copy_from_slice(operand);
    Ok(())
}

fn places(step: &Step) -> ComputeError {
    ComputeError::Places { op: step.op.name() }
}

/// Names the op of a kernel's error.
pub(super) fn kernel_error(op: &'static str) -> impl Fn(KernelError) -> ComputeError {
    move |source| ComputeError::Kernel { op, source }
}
