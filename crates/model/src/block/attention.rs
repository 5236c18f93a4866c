//! Attention with query, key and value projections apart or in one, optional biases, head norms and rotation.

use super::{linear, norm, rope};
use crate::tensors::{BlockWeights, Slot, TensorRow, Transform, row};
use crate::weights::Have;
use crate::{Hyperparameters, LayerHyperparameters, ModelError};
use gristmill_compute::{Attention, GraphBuilder, KvLayer, Rope, Shape, Tensor, Value};
use std::ops::Range;

/// Its matrices, with the transforms of queries and keys.
pub(crate) const fn rows(queries: Transform, keys: Transform) -> [TensorRow; 4] {
    [
        row(Slot::AttnQ, "model.layers.{}.self_attn.q_proj.weight").transformed(queries),
        row(Slot::AttnK, "model.layers.{}.self_attn.k_proj.weight").transformed(keys),
        row(Slot::AttnV, "model.layers.{}.self_attn.v_proj.weight"),
        row(Slot::AttnOutput, "model.layers.{}.self_attn.o_proj.weight"),
    ]
}

/// Biases of queries, keys and values, where an architecture may have them.
pub(crate) const fn bias_rows(queries: Transform, keys: Transform) -> [TensorRow; 3] {
    [
        row(Slot::AttnQBias, "model.layers.{}.self_attn.q_proj.bias")
            .transformed(queries)
            .optional(),
        row(Slot::AttnKBias, "model.layers.{}.self_attn.k_proj.bias")
            .transformed(keys)
            .optional(),
        row(Slot::AttnVBias, "model.layers.{}.self_attn.v_proj.bias").optional(),
    ]
}

/// Norms of single query and key heads.
pub(crate) const fn head_norm_rows(transform: Transform) -> [TensorRow; 2] {
    [
        row(Slot::AttnQNorm, "model.layers.{}.self_attn.q_norm.weight").transformed(transform),
        row(Slot::AttnKNorm, "model.layers.{}.self_attn.k_norm.weight").transformed(transform),
    ]
}

/// What one layer's attention reads besides its input.
pub(crate) struct Layer<'a> {
    pub hparams: &'a Hyperparameters,
    pub index: usize,
    pub block: &'a BlockWeights,
    pub cache: &'a KvLayer,
    /// Divisors of the rotary frequencies.
    pub divisors: Option<&'a Tensor>,
}

/// `[n_embd, n_tokens] -> [n_embd, n_tokens]`; keys and values go to the cache first.
pub(crate) fn build(
    graph: &mut GraphBuilder,
    layer: &Layer<'_>,
    x: Value,
) -> Result<Value, ModelError> {
    let (hparams, block) = (layer.hparams, layer.block);
    let heads = hparams.layers.get(layer.index).copied().unwrap_or_default();
    let rope = rope::of_layer(hparams, layer.index, layer.divisors);

    let [q, k, v] = projections(block, heads, hparams)?;
    let norms = [&block.attn_queries_norm, &block.attn_q_norm];
    let q = q.of(graph, x);
    let q = rotated(graph, hparams, norms, heads.n_head, rope.as_ref(), q)?;
    let norms = [&block.attn_keys_norm, &block.attn_k_norm];
    let k = k.of(graph, x);
    let k = rotated(graph, hparams, norms, heads.n_head_kv, rope.as_ref(), k)?;
    let v = v.of(graph, x);
    graph.store_kv(layer.cache, k, v);

    let attended = graph.attention(
        layer.cache,
        q,
        &Attention {
            n_head: heads.n_head,
            n_head_kv: heads.n_head_kv,
            key_dim: hparams.key_length,
            value_dim: hparams.value_length,
            scale: hparams.attention_scale,
            scales_queries: hparams.architecture.choices.scales_queries,
            softcap: hparams.attention_softcap,
            window: hparams.window_of(layer.index),
            causal: hparams.causal,
        },
    );
    Ok(linear(
        graph,
        block.attn_output.have(Slot::AttnOutput)?,
        block.attn_output_bias.as_ref(),
        attended,
    ))
}

/// Queries or keys, normed all together or head by head where there is such a norm, and rotated.
fn rotated(
    graph: &mut GraphBuilder,
    hparams: &Hyperparameters,
    [norm_of_all, norm_of_head]: [&Option<Tensor>; 2],
    n_head: usize,
    rope: Option<&Rope>,
    x: Value,
) -> Result<Value, ModelError> {
    let n_tokens = graph.shape(x).dims()[1];
    let x = norm::optional(graph, hparams, norm_of_all.as_ref(), None, x);
    let x = graph.reshape(x, Shape::new(&[hparams.key_length, n_head, n_tokens])?);
    let x = norm::optional(graph, hparams, norm_of_head.as_ref(), None, x);
    Ok(rope.map_or(x, |rope| graph.rope(x, rope)))
}

/// A weight and perhaps its bias.
struct Projection {
    weight: Tensor,
    bias: Option<Tensor>,
}

impl Projection {
    fn of(&self, graph: &mut GraphBuilder, x: Value) -> Value {
        linear(graph, &self.weight, self.bias.as_ref(), x)
    }
}

/// Those of queries, keys and values: each by itself, or parts of one weight.
fn projections(
    block: &BlockWeights,
    heads: LayerHyperparameters,
    hparams: &Hyperparameters,
) -> Result<[Projection; 3], ModelError> {
    let Some(weight) = &block.attn_qkv else {
        let apart = |weight: &Option<Tensor>, slot, bias| {
            let weight = *weight.have(slot)?;
            Ok::<_, ModelError>(Projection { weight, bias })
        };
        return Ok([
            apart(&block.attn_q, Slot::AttnQ, block.attn_q_bias)?,
            apart(&block.attn_k, Slot::AttnK, block.attn_k_bias)?,
            apart(&block.attn_v, Slot::AttnV, block.attn_v_bias)?,
        ]);
    };
    let keys = heads.n_head * hparams.key_length;
    let values = keys + heads.n_head_kv * hparams.key_length;
    let end = values + heads.n_head_kv * hparams.value_length;
    let part = |rows: Range<usize>| {
        let bias = block.attn_qkv_bias.as_ref();
        Ok::<_, ModelError>(Projection {
            weight: weight.rows(rows.clone())?,
            bias: bias.map(|bias| bias.elements(rows)).transpose()?,
        })
    };
    Ok([part(0..keys)?, part(keys..values)?, part(values..end)?])
}
