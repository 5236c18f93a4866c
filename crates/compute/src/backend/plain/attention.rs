//! The paged cache and attention, written out: scores of all visible positions, softmax in f64, weighted sum.

use super::memory::{Memory, row_offset};
use crate::op::Attend;
use crate::{BatchShape, ComputeError, Inputs, KvLayer, Tensor};

/// Row of the cache tensor (`[head_dim, page_len, n_head_kv, n_pages]`) for a head and a slot.
fn cache_row(cache: &Tensor, head: usize, slot: usize) -> usize {
    let [_, page_len, n_head_kv, _] = cache.shape.dims();
    (slot / page_len * n_head_kv + head) * page_len + slot % page_len
}

/// Writes one token's heads after the other.
pub fn store(
    memory: &mut Memory,
    layer: &KvLayer,
    values: [&[f32]; 2],
    slots: &[i32],
) -> Result<(), ComputeError> {
    for (cache, value) in [&layer.k, &layer.v].into_iter().zip(values) {
        let [head_dim, _, n_head_kv, _] = cache.shape.dims();
        let row_bytes = cache.row_bytes()?;
        let heads = value.chunks_exact(head_dim);
        for (index, head) in heads.enumerate() {
            let (token, head_index) = (index / n_head_kv, index % n_head_kv);
            let row = cache_row(cache, head_index, slots[token] as usize);
            let bytes =
                memory.bytes_mut(cache.buffer, row_offset(cache, row, row_bytes), row_bytes)?;
            let encoded = cache.ty.encode(head, head_dim, None, bytes);
            encoded.map_err(|source| ComputeError::Quant {
                op: "store_kv",
                source,
            })?;
        }
    }
    Ok(())
}

/// `[value_dim * n_head, n_tokens]`
pub fn attend(
    memory: &Memory,
    op: &Attend,
    queries: &[f32],
    batch: &BatchShape,
    inputs: &Inputs<'_>,
) -> Result<Vec<f32>, ComputeError> {
    let (layer, choices) = (&op.layer, &op.attention);
    let group = choices.n_head / choices.n_head_kv;
    let page_table = inputs.page_table_of(layer.table, batch);
    let mut out = Vec::with_capacity(batch.n_tokens * choices.n_head * choices.value_dim);
    for (index, query) in queries.chunks_exact(choices.key_dim).enumerate() {
        let (token, head) = (index / choices.n_head, index % choices.n_head / group);
        let position = inputs.positions[token] as usize;
        let last = match choices.causal {
            true => position,
            false => last_of_sequence(inputs, token),
        };
        let first = choices
            .window
            .map_or(0, |window| (position + 1).saturating_sub(window));
        let pages = &page_table[inputs.sequences[token] as usize * batch.max_pages..];
        let slot =
            |p: usize| pages[p / layer.page_len] as usize * layer.page_len + p % layer.page_len;
        let mut scores = Vec::with_capacity(last + 1 - first);
        for p in first..=last {
            let key = memory.decoded_row(&layer.k, cache_row(&layer.k, head, slot(p)))?;
            let product: f64 = key
                .iter()
                .zip(query)
                .map(|(&k, &q)| f64::from(k) * f64::from(q))
                .sum();
            let score = product * f64::from(choices.scale);
            scores.push(choices.softcap.map_or(score, |cap| {
                f64::from(cap) * (score / f64::from(cap)).tanh()
            }));
        }
        let highest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let total: f64 = scores.iter().map(|score| (score - highest).exp()).sum();
        let mut sum = vec![0.0; choices.value_dim];
        for (p, score) in (first..=last).zip(scores) {
            let weight = (score - highest).exp() / total;
            let value = memory.decoded_row(&layer.v, cache_row(&layer.v, head, slot(p)))?;
            sum.iter_mut()
                .zip(value)
                .for_each(|(sum, v)| *sum += weight * f64::from(v));
        }
        out.extend(sum.into_iter().map(|x| x as f32));
    }
    Ok(out)
}

/// The last position in the batch of a token's sequence.
fn last_of_sequence(inputs: &Inputs<'_>, token: usize) -> usize {
    let tokens = inputs.positions.iter().zip(inputs.sequences);
    let same = tokens.filter(|(_, sequence)| **sequence == inputs.sequences[token]);
    same.map(|(position, _)| *position as usize)
        .max()
        .unwrap_or(0)
}
