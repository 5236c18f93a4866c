//! Picking rows.

use super::parallel::for_rows;
use super::{Run, kernel_error, output_and_operand, places};
use crate::op::Embed;
use crate::{ComputeError, Step};
use gristmill_kernels as kernels;
use std::sync::OnceLock;

/// Work to decode an element, beside copying one.
const DECODE_COST: usize = 4;

impl Run<'_> {
    pub fn embed(&self, op: &Embed, out: &mut [f32]) -> Result<(), ComputeError> {
        let table = self.tensor(&op.table)?;
        let (n, row_bytes) = (op.table.shape.row_len(), op.table.row_bytes()?);
        let failure = OnceLock::new();
        for_rows(self.pool, out, n, DECODE_COST, |first, rows| {
            for (token, row) in rows.chunks_exact_mut(n).enumerate() {
                let index = self.inputs.row(op.index, first + token);
                // The executor has checked that it is below the number of rows.
                let bytes = &table[index * row_bytes..][..row_bytes];
                if let Err(error) = kernels::decode_row(op.table.ty, bytes, row) {
                    failure.get_or_init(|| error);
                }
            }
        });
        failure
            .into_inner()
            .map_or(Ok(()), |error| Err(kernel_error("embed")(error)))
    }

    pub fn select_outputs(&self, step: &Step, values: &mut [f32]) -> Result<(), ComputeError> {
        let n = step.shape.row_len();
        let (out, x) = output_and_operand(step, step.operands[0], values)?;
        for (out, &row) in out.chunks_exact_mut(n.max(1)).zip(self.inputs.output_rows) {
            let x = x
                .get(row as usize * n..)
                .and_then(|x| x.get(..n))
                .ok_or(places(step))?;
            out.copy_from_slice(x);
        }
        Ok(())
    }
}
