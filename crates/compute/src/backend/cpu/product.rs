//! Weight times columns, with one preparation of the columns for all products that read them.

use super::{Run, kernel_error, operand, places};
use crate::plan::Location;
use crate::{ComputeError, Op, Step, Tensor};
use gristmill_kernels::{self as kernels, Activations, ExpertOrder, MatrixProduct};

/// The columns prepared last. Queries, keys and values (or gate and up) read the same columns, which are
/// prepared (quantized) once; and the routes ordered last.
#[derive(Default)]
pub struct Prepared {
    activations: Activations,
    source: Option<Location>,
    order: ExpertOrder,
    routes: Option<Location>,
}

impl Prepared {
    /// Nothing is prepared any more; the allocations stay.
    pub fn forget(&mut self) {
        self.source = None;
        self.routes = None;
    }

    /// Tells that a place was written.
    pub fn written(&mut self, place: Location) {
        let touches = |known: &Location| {
            known.offset < place.offset + place.len && place.offset < known.offset + known.len
        };
        for known in [&mut self.source, &mut self.routes] {
            if known.as_ref().is_some_and(touches) {
                *known = None;
            }
        }
    }
}

/// Bytes that columns prepared for the products among these steps take: of each layout the most at a time, since both are
/// kept.
pub fn prepared_bytes(steps: &[Step]) -> usize {
    let of_layout = |is_quantized: bool| {
        let bytes = steps.iter().filter_map(|step| {
            let weight = weight_of(&step.op)?;
            let n = weight.shape.row_len();
            let n_columns = step.operands[0].len / n.max(1);
            (weight.ty.is_quantized() == is_quantized)
                .then(|| Activations::bytes_of(weight.ty, n, n_columns))
        });
        bytes.max().unwrap_or(0)
    };
    of_layout(true).saturating_add(of_layout(false))
}

/// Products that are done as one job at most.
const GROUP_MAX: usize = 4;

/// The weight of a product.
fn weight_of(op: &Op) -> Option<&Tensor> {
    match op {
        Op::MatMul(op) => Some(&op.weight),
        Op::ExpertMatMul(op) => Some(&op.weight),
        _ => None,
    }
}

impl Run<'_> {
    /// Does the products at the front of `steps`, which is not empty, and returns how many they were; 0 if another op
    /// stands there.
    pub fn products(
        &self,
        steps: &[Step],
        values: &mut [f32],
        prepared: &mut Prepared,
    ) -> Result<usize, ComputeError> {
        let steps = &steps[..self.group_len(steps)];
        let Some((first, weight)) = steps.first().and_then(|s| Some((s, weight_of(&s.op)?))) else {
            return Ok(0);
        };
        let error = kernel_error(first.op.name());
        if let Op::ExpertMatMul(_) = first.op {
            self.order_experts(first, weight, values, prepared)?;
        }
        // Places that are not there stand at the end and hold nothing.
        let end = values.len()..values.len();
        let mut ranges = [const { 0..0 }; 1 + GROUP_MAX];
        ranges.fill(end);
        ranges[0] = first.operands[0].range();
        ranges[1..]
            .iter_mut()
            .zip(steps)
            .for_each(|(range, step)| *range = step.output.range());
        let parts = values.get_disjoint_mut(ranges);
        let [columns, outputs @ ..] = parts.map_err(|_| places(first))?;
        let n = weight.shape.row_len();
        let activations = &mut prepared.activations;
        let ready = prepared.source == Some(first.operands[0])
            && activations.is_for(weight.ty)
            && activations.n() == n;
        let n_columns = columns.len() / n.max(1);
        if !ready {
            kernels::prepare(self.pool, weight.ty, columns, n, n_columns, activations)
                .map_err(&error)?;
            prepared.source = Some(first.operands[0]);
        }
        let mut weights = [const { None }; GROUP_MAX];
        for (weight, step) in weights.iter_mut().zip(steps) {
            if let Some(tensor) = weight_of(&step.op) {
                *weight = Some((*tensor, self.tensor(tensor)?));
            }
        }
        let products = weights
            .iter()
            .flatten()
            .zip(outputs)
            .map(|((tensor, bytes), out)| MatrixProduct {
                ty: tensor.ty,
                weights: bytes,
                n_rows: tensor.shape.dims()[1],
                out,
            });
        let done = match first.op {
            Op::ExpertMatMul(_) => {
                let sharing = first.shape.n_rows() / n_columns.max(1);
                let order = &mut prepared.order;
                kernels::matmul_experts(self.pool, n, activations, order, sharing, products)
            }
            _ => kernels::matmul_many(self.pool, n, activations, products),
        };
        done.map_err(&error)?;
        steps.iter().for_each(|step| prepared.written(step.output));
        Ok(steps.len())
    }

    /// Puts the pairs of tokens and experts into order, unless it was done for an earlier product.
    fn order_experts(
        &self,
        step: &Step,
        weight: &Tensor,
        values: &[f32],
        prepared: &mut Prepared,
    ) -> Result<(), ComputeError> {
        let place = step.operands[1];
        if prepared.routes == Some(place) {
            return Ok(());
        }
        let routes = operand(step, place, values)?;
        let [_, n_used, n_tokens, _] = step.shape.dims();
        let expert = |pair| {
            let route = routes.get(pair / n_used * 2 * n_used + pair % n_used);
            route.map_or(usize::MAX, |&expert| expert as usize)
        };
        let experts = (0..n_used * n_tokens).map(expert);
        let set = prepared.order.set(experts, weight.shape.dims()[2]);
        set.map_err(kernel_error(step.op.name()))?;
        prepared.routes = Some(place);
        Ok(())
    }

    /// How many steps at the front are products of the same columns in the same layout.
    fn group_len(&self, steps: &[Step]) -> usize {
        let layout = |step: &Step| {
            let weight = weight_of(&step.op)?;
            let [n, _, n_experts, _] = weight.shape.dims();
            Some((step.operands, weight.ty.is_quantized(), n, n_experts))
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
