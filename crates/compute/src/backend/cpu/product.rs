//! Weight times columns, with one preparation of the columns for all products that read them.

use super::{Run, kernel_error, output_and_operand};
use crate::op::MatMul;
use crate::plan::Location;
use crate::{ComputeError, Step};
use gristmill_kernels::{self as kernels, Activations};

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

impl Run<'_> {
    pub fn matmul(
        &self,
        op: &MatMul,
        step: &Step,
        values: &mut [f32],
        prepared: &mut Prepared,
    ) -> Result<(), ComputeError> {
        let error = kernel_error("matmul");
        let (ty, n, n_rows) = (
            op.weight.ty,
            op.weight.shape.row_len(),
            op.weight.shape.n_rows(),
        );
        let weight = self.tensor(&op.weight)?;
        let (out, columns) = output_and_operand(step, step.operands[0], values)?;
        let activations = &mut prepared.activations;
        let ready = prepared.source == Some(step.operands[0])
            && activations.is_for(ty)
            && activations.n() == n;
        if !ready {
            kernels::prepare(
                self.pool,
                ty,
                columns,
                n,
                columns.len() / n.max(1),
                activations,
            )
            .map_err(&error)?;
            prepared.source = Some(step.operands[0]);
        }
        kernels::matmul(self.pool, ty, &weight, n, n_rows, activations, out).map_err(&error)
    }
}
