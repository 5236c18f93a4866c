//! Attention to a page, one query at a time.

use crate::attention::{AttentionKernels, CacheView, QueryBlock, Scratch};
use crate::plain::vector::dot_f32;

pub(crate) const KERNELS: AttentionKernels = AttentionKernels {
    page,
    blend,
    queries_max: 16,
};

fn page(block: &QueryBlock<'_>, page_index: usize, scratch: &mut Scratch) {
    let shape = block.shape;
    let Scratch {
        keys,
        values,
        scores,
        partial,
        ..
    } = scratch;
    widen(
        block.page_of(block.k, shape.key_dim, page_index),
        block.k,
        keys,
    );
    widen(
        block.page_of(block.v, shape.value_dim, page_index),
        block.v,
        values,
    );
    for query in 0..block.n_queries() {
        let slots = block.slots(query, page_index);
        if slots.is_empty() {
            continue;
        }
        let rows = slots.start * shape.key_dim..slots.end * shape.key_dim;
        scores.clear();
        scores.extend(keys[rows].chunks_exact(shape.key_dim).map(|key| {
            let score = dot_f32(block.query(query), key) * shape.scale;
            shape
                .softcap
                .map_or(score, |cap| cap * (score / cap).tanh())
        }));
        let largest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let output = &mut partial.outputs[query * shape.value_dim..][..shape.value_dim];
        let mut sum = 0.0;
        for (score, value) in scores
            .iter()
            .zip(values[slots.start * shape.value_dim..].chunks_exact(shape.value_dim))
        {
            let weight = (score - largest).exp();
            sum += weight;
            output
                .iter_mut()
                .zip(value)
                .for_each(|(output, value)| *output += weight * value);
        }
        (partial.maxima[query], partial.sums[query]) = (largest, sum);
    }
}

#[inline(always)]
pub(crate) fn blend(sum: &mut [f32], a: f32, x: &[f32], b: f32) {
    sum.iter_mut()
        .zip(x)
        .for_each(|(sum, x)| *sum = *sum * a + x * b);
}

fn widen(bytes: &[u8], cache: CacheView<'_>, out: &mut Vec<f32>) {
    out.resize(
        bytes.len() / cache.ty.block_bytes() * cache.ty.block_len(),
        0.0,
    );
    let decoded = cache.ty.decode(bytes, out);
    debug_assert!(
        decoded.is_ok(),
        "the types of caches have decoders, and the lengths fit"
    );
}
