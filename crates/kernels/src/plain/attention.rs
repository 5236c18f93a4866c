//! Attention, one query at a time.

use crate::attention::{AttentionKernels, CacheView, QueryBlock, Scratch};
use crate::plain::vector::{dot_f32, scale};

pub(crate) const KERNELS: AttentionKernels = AttentionKernels {
    block,
    queries_max: 16,
};

fn block(block: &QueryBlock<'_>, scratch: &mut Scratch) {
    for token in block.tokens.clone() {
        for head in block.heads.clone() {
            query(block, scratch, head, token);
        }
    }
}

/// Online softmax: after each page, `out` is the sum of exp(score - largest) * value over the pages so far.
fn query(block: &QueryBlock<'_>, scratch: &mut Scratch, head: usize, token: usize) {
    let (shape, visible) = (block.shape, block.visible(token));
    let out = block.output(head, token);
    out.fill(0.0);
    let (mut largest, mut sum) = (f32::NEG_INFINITY, 0.0);
    for page in visible.start / shape.page_len..visible.end.div_ceil(shape.page_len) {
        let first = page * shape.page_len;
        let slots = visible.start.saturating_sub(first)..(visible.end - first).min(shape.page_len);
        widen(
            block.page_of(block.k, shape.key_dim, page),
            block.k,
            &mut scratch.keys,
        );
        widen(
            block.page_of(block.v, shape.value_dim, page),
            block.v,
            &mut scratch.values,
        );
        scratch.scores.clear();
        let keys = scratch.keys[slots.start * shape.key_dim..slots.end * shape.key_dim]
            .chunks_exact(shape.key_dim);
        scratch.scores.extend(keys.map(|key| {
            let score = dot_f32(block.query(head, token), key) * shape.scale;
            shape
                .softcap
                .map_or(score, |cap| cap * (score / cap).tanh())
        }));
        let page_largest = scratch.scores.iter().copied().fold(largest, f32::max);
        let correction = (largest - page_largest).exp();
        largest = page_largest;
        sum *= correction;
        scale(out, correction);
        let values = scratch.values[slots.start * shape.value_dim..].chunks_exact(shape.value_dim);
        for (score, value) in scratch.scores.iter().zip(values) {
            let weight = (score - largest).exp();
            sum += weight;
            out.iter_mut()
                .zip(value)
                .for_each(|(out, value)| *out += weight * value);
        }
    }
    if sum > 0.0 {
        scale(out, 1.0 / sum);
    }
}

fn widen(bytes: &[u8], cache: CacheView<'_>, out: &mut Vec<f32>) {
    out.resize(bytes.len() / cache.ty.block_bytes(), 0.0);
    let decoded = cache.ty.decode(bytes, out);
    debug_assert!(
        decoded.is_ok(),
        "F16 and F32 have decoders, and the lengths fit"
    );
}
