//! Weight times columns, with one preparation of the columns for all products that read them.

use super::{Run, kernel_error, places};
use crate::plan::Location;
use crate::{ComputeError, Op, Step};
use gristmill_kernels::{self as kernels, Activations, MatrixProduct};

/// The columns prepared last. Queries, keys and values (or gate and up) read the same columns, which are
/// prepared (quantized) once.
#[derive(Default)]
pub struct Prepared {
    activations: Activations,
    source: Option<Location>,
}

impl Prepared {
    /// Nothing is prepared any more; the allocation stays.
    pub fn forget(&mut self) {
        self.source = None;
    }

    /// Tells that a place was written.
    pub fn written(&mut self, place: Location) {
        let touches = |source: &Location| {
            source.offset < place.offset + place.len && place.offset < source.offset + source.len
        };
        if self.source.as_ref().is_some_and(touches) {
            self.source = None;
        }
    }
}

/// Products that are done as one job at most.
const GROUP_MAX: usize = 4;

impl Run<'_> {
    /// Does the products at the front of `steps`, which is not empty, and returns how many they were; 0 if another op
    /// stands there.
    pub fn products(
        &self,
        steps: &[Step],
        values: &mut [f32],
        prepared: &mut Prepared,
    ) -> Result<usize, ComputeError> {
        let error = kernel_error("matmul");
        let steps = &steps[..self.group_len(steps)];
        let Some(Step {
            op: Op::MatMul(first),
            operands: [source, _],
            ..
        }) = steps.first()
        else {
            return Ok(0);
        };
        // Places that are not there stand at the end and hold nothing.
        let end = values.len()..values.len();
        let mut ranges = [const { 0..0 }; 1 + GROUP_MAX];
        ranges.fill(end);
        ranges[0] = source.range();
        ranges[1..]
            .iter_mut()
            .zip(steps)
            .for_each(|(range, step)| *range = step.output.range());
        let parts = values
            .get_disjoint_mut(ranges)
            .map_err(|_| places(&steps[0]))?;
        let [columns, outputs @ ..] = parts;
        let n = first.weight.shape.row_len();
        let activations = &mut prepared.activations;
        let ready = prepared.source == Some(*source)
            && activations.is_for(first.weight.ty)
            && activations.n() == n;
        if !ready {
            let n_columns = columns.len() / n.max(1);
            kernels::prepare(
                self.pool,
                first.weight.ty,
                columns,
                n,
                n_columns,
                activations,
            )
            .map_err(&error)?;
            prepared.source = Some(*source);
        }
        let mut weights = [const { None }; GROUP_MAX];
        for (weight, step) in weights.iter_mut().zip(steps) {
            if let Op::MatMul(op) = &step.op {
                *weight = Some((op.weight, self.tensor(&op.weight)?));
            }
        }
        let products = weights
            .iter()
            .flatten()
            .zip(outputs)
            .map(|((tensor, bytes), out)| MatrixProduct {
                ty: tensor.ty,
                weights: bytes,
                n_rows: tensor.shape.n_rows(),
                out,
            });
        kernels::matmul_many(self.pool, n, activations, products).map_err(&error)?;
        steps.iter().for_each(|step| prepared.written(step.output));
        Ok(steps.len())
    }

    /// How many steps at the front are products of the same columns in the same layout.
    fn group_len(&self, steps: &[Step]) -> usize {
        let layout = |step: &Step| match &step.op {
            Op::MatMul(op) => Some((
                step.operands[0],
                op.weight.ty.is_quantized(),
                op.weight.shape.row_len(),
            )),
            _ => None,
        };
        let Some(first) = steps.first().and_then(layout) else {
            return 0;
        };
        let alike = |step: &&Step| layout(step) == Some(first);
        let n_alike = steps.iter().take(GROUP_MAX).take_while(alike).count();
        // All weights are held at once, and a lock must not be taken twice by one thread; regions have none.
        let locked = |step: &Step| {
            step.op
                .tensors()
                .any(|weight| !self.buffers.is_region(weight.buffer))
        };
        if steps[..n_alike].iter().any(locked) {
            1
        } else {
            n_alike
        }
    }
}
