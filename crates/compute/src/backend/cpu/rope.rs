//! Rotary position embedding.

use super::parallel::for_rows;
use super::tensors::floats;
use super::{Run, output_and_operand, start_from_first};
use crate::op::Rotate;
use crate::{ComputeError, Rope, RopeStyle, Step};
use gristmill_kernels as kernels;

/// Work of a sine and a cosine.
pub const TURN_COST: usize = 16;

/// Turns the pairs of a head by angles of these cosines and sines.
pub type Rotation = fn(head: &mut [f32], cosines: &[f32], sines: &[f32]);

/// Of neighbours, and of halves.
pub const ROTATIONS: [Rotation; 2] = [kernels::rope_normal, kernels::rope_neox];

impl Run<'_> {
    /// Cosines, then sines, of each position: `[n_dims, n_tokens]`.
    pub fn rope_table(
        &self,
        op: &Rope,
        out: &mut [f32],
        frequencies: &mut Vec<f32>,
    ) -> Result<(), ComputeError> {
        let bytes = op
            .factors
            .as_ref()
            .map(|factors| self.tensor(factors))
            .transpose()?;
        let factors = match (&op.factors, &bytes) {
            (Some(factors), Some(bytes)) => Some(floats(factors, bytes)?),
            _ => None,
        };
        frequencies.clear();
        frequencies.extend(op.frequencies(factors));
        let magnitude = op.magnitude();
        for_rows(self.pool, out, op.n_dims, TURN_COST, |first, rows| {
            let positions = &self.inputs.positions[first..];
            for (row, &position) in rows.chunks_exact_mut(op.n_dims).zip(positions) {
                let (cosines, sines) = row.split_at_mut(op.n_dims / 2);
                for ((cos, sin), &frequency) in
                    cosines.iter_mut().zip(sines).zip(frequencies.iter())
                {
                    let (s, c) = (position as f32 * frequency).sin_cos();
                    (*cos, *sin) = (c * magnitude, s * magnitude);
                }
            }
        });
        Ok(())
    }

    pub fn rotate(
        &self,
        op: &Rotate,
        step: &Step,
        values: &mut [f32],
        [normal, neox]: [Rotation; 2],
    ) -> Result<(), ComputeError> {
        start_from_first(step, values)?;
        let [head_dim, n_head, ..] = step.shape.dims();
        let token_len = head_dim * n_head;
        let (out, table) = output_and_operand(step, step.operands[1], values)?;
        let kernel = match op.style {
            RopeStyle::Normal => normal,
            RopeStyle::NeoX => neox,
        };
        for_rows(self.pool, out, token_len, 2, |first, tokens| {
            let tables = table[first * op.n_dims..].chunks_exact(op.n_dims);
            for (token, table) in tokens.chunks_exact_mut(token_len).zip(tables) {
                let (cosines, sines) = table.split_at(op.n_dims / 2);
                token
                    .chunks_exact_mut(head_dim)
                    .for_each(|head| kernel(head, cosines, sines));
            }
        });
        Ok(())
    }
}
