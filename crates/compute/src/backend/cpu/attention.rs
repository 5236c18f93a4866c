//! The paged cache.

use super::{Run, kernel_error, operand, output_and_operand};
use crate::op::{Attend, StoreKv};
use crate::{ComputeError, Step, Tensor};
use gristmill_kernels::{
    self as kernels, AttentionBatch, AttentionShape, CacheView, KernelError, Pool,
};
use gristmill_quant as quant;

impl Run<'_> {
    pub fn store(&self, op: &StoreKv, step: &Step, values: &mut [f32]) -> Result<(), ComputeError> {
        let [keys, key_values] = step.operands;
        let slots = self.inputs.slots_of(op.layer.table, self.batch);
        self.store_half(&op.layer.k, operand(step, keys, values)?, slots)?;
        self.store_half(&op.layer.v, operand(step, key_values, values)?, slots)
    }

    /// Writes `x` `[head_dim, n_head_kv, n_tokens]` to the slots of the batch.
    fn store_half(&self, cache: &Tensor, x: &[f32], slots: &[i32]) -> Result<(), ComputeError> {
        let [head_dim, page_len, n_head_kv, _] = cache.shape.dims();
        let (row_bytes, n_bytes) = (cache.row_bytes()?, cache.n_bytes()?);
        let mut floats = self.written_buffer(cache)?;
        let all: &mut [u8] = bytemuck::cast_slice_mut(&mut floats);
        let (buffer, offset, size) = (cache.buffer, cache.offset, all.len());
        let outside = ComputeError::OutOfBounds {
            backend: super::NAME,
            buffer,
            offset,
            bytes: n_bytes,
            size,
        };
        let bytes = all
            .get_mut(offset..)
            .and_then(|all| all.get_mut(..n_bytes))
            .ok_or(outside)?;
        let tokens = x.chunks_exact((head_dim * n_head_kv).max(1));
        for (token, &slot) in tokens.zip(slots) {
            // The executor has checked that the slot is inside the cache.
            let slot = slot as usize;
            let mut row = slot / page_len * n_head_kv * page_len + slot % page_len;
            for head in token.chunks_exact(head_dim) {
                let out = &mut bytes[row * row_bytes..][..row_bytes];
                if cache.ty == quant::F16 {
                    kernels::f32_to_f16(head, out);
                } else {
                    kernels::encode_rows(cache.ty, head, head_dim, None, out)
                        .map_err(kernel_error("store_kv"))?;
                }
                row += page_len;
            }
        }
        Ok(())
    }

    /// Attention by [`kernels::attention`] or what is called as it is.
    pub fn attend(
        &self,
        op: &Attend,
        step: &Step,
        values: &mut [f32],
        kernel: impl FnOnce(
            &Pool,
            &AttentionShape,
            &AttentionBatch<'_>,
            CacheView<'_>,
            CacheView<'_>,
            &mut [f32],
        ) -> Result<(), KernelError>,
    ) -> Result<(), ComputeError> {
        let (layer, choices) = (&op.layer, &op.attention);
        let shape = AttentionShape {
            n_head: choices.n_head,
            n_head_kv: choices.n_head_kv,
            key_dim: choices.key_dim,
            value_dim: choices.value_dim,
            page_len: layer.page_len,
            scale: choices.scale,
            softcap: choices.softcap,
            window: choices.window,
            causal: choices.causal,
        };
        let (out, q) = output_and_operand(step, step.operands[0], values)?;
        let batch = AttentionBatch {
            q,
            positions: self.inputs.positions,
            sequences: self.inputs.sequences,
            page_table: self.inputs.page_table_of(layer.table, self.batch),
            max_pages: self.batch.max_pages,
        };
        self.tensor_pair(&layer.k, &layer.v, |k, v| {
            let (k, v) = (
                CacheView {
                    ty: layer.k.ty,
                    bytes: k,
                },
                CacheView {
                    ty: layer.v.ty,
                    bytes: v,
                },
            );
            kernel(self.pool, &shape, &batch, k, v, out).map_err(kernel_error("attention"))
        })
    }
}
