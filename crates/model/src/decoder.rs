//! The decoder: embeddings, blocks, output.

use crate::block::{attention, feed_forward, linear, norm, rope};
use crate::tensors::{Slot, TensorRow, Weights, row};
use crate::weights::Have;
use crate::{Hyperparameters, ModelError};
use gristmill_compute::{GraphBuilder, KvLayer, Rope, Tensor, Value};

/// Embeddings and norms of an architecture that norms before attention and before the feed-forward part only.
pub(crate) const ROWS: &[TensorRow] = &[
    row(Slot::TokenEmbd, "model.embed_tokens.weight"),
    row(Slot::Output, "lm_head.weight").optional(),
    row(Slot::OutputNorm, "model.norm.weight"),
    row(Slot::AttnNorm, "model.layers.{}.input_layernorm.weight"),
    row(
        Slot::FfnNorm,
        "model.layers.{}.post_attention_layernorm.weight",
    ),
];

/// Biases of these norms.
pub(crate) const NORM_BIAS_ROWS: &[TensorRow] = &[
    row(Slot::OutputNormBias, "model.norm.bias"),
    row(Slot::AttnNormBias, "model.layers.{}.input_layernorm.bias"),
    row(
        Slot::FfnNormBias,
        "model.layers.{}.post_attention_layernorm.bias",
    ),
];

/// Builds the graph of a model for the builder's batch: logits `[n_vocab, n_outputs]`, as of [`build_hidden`].
///
/// # Errors
/// As [`build_hidden`]; a model that gives no logits.
pub fn build(
    hparams: &Hyperparameters,
    weights: &Weights,
    caches: &[KvLayer],
    n_ctx: usize,
    graph: &mut GraphBuilder,
) -> Result<Value, ModelError> {
    let none = |reason| ModelError::NoLogits {
        architecture: hparams.architecture.name,
        reason,
    };
    if !hparams.architecture.has(Slot::Output) {
        return Err(none("it has no output projection"));
    }
    if !hparams.causal {
        return Err(none("its attention is not causal"));
    }
    let hidden = build_hidden(hparams, weights, caches, n_ctx, graph)?;
    logits(hparams, weights, graph, hidden)
}

/// Builds the graph for the scores of a classifier, `[n_labels, n_outputs]`, as of [`build_hidden`].
///
/// # Errors
/// As [`build_hidden`].
pub fn build_scores(
    hparams: &Hyperparameters,
    weights: &Weights,
    caches: &[KvLayer],
    n_ctx: usize,
    graph: &mut GraphBuilder,
) -> Result<Value, ModelError> {
    let mut x = build_hidden(hparams, weights, caches, n_ctx, graph)?;
    if let Some(weight) = &weights.cls {
        x = linear(graph, weight, weights.cls_bias.as_ref(), x);
        // The tangent alone.
        x = graph.softcap(x, 1.0);
    }
    if let Some(weight) = &weights.cls_output {
        x = linear(graph, weight, weights.cls_output_bias.as_ref(), x);
    }
    Ok(x)
}

/// Builds the graph up to the last layer's rows, normed where the model norms them: `[n_embd, n_outputs]`.
///
/// `caches` has one entry per layer. Some models rotate otherwise in contexts of more than so many positions: `n_ctx` is
/// how many this one has.
///
/// # Errors
/// A missing tensor or a number of caches that is not the number of layers. Mistakes in shapes are reported by
/// [`GraphBuilder::finish`].
pub fn build_hidden(
    hparams: &Hyperparameters,
    weights: &Weights,
    caches: &[KvLayer],
    n_ctx: usize,
    graph: &mut GraphBuilder,
) -> Result<Value, ModelError> {
    if caches.len() != hparams.n_layers() || weights.blocks.len() != hparams.n_layers() {
        return Err(ModelError::CacheLayers {
            expected: hparams.n_layers(),
            found: caches.len(),
        });
    }
    let divisors = rope::divisors(hparams, weights, n_ctx);
    let mut x = embeddings(hparams, weights, graph)?;
    for (index, (block, cache)) in weights.blocks.iter().zip(caches).enumerate() {
        graph.place(cache.k.device);
        let layer = attention::Layer {
            hparams,
            index,
            block,
            cache,
            divisors,
        };
        let bias = block.attn_norm_bias.as_ref();
        let normed = norm::optional(graph, hparams, block.attn_norm.as_ref(), bias, x);
        let mut attended = attention::build(graph, &layer, normed)?;
        if index + 1 == hparams.n_layers() {
            // What follows the last attention is only needed for the rows that are asked for.
            attended = graph.select_outputs(attended);
            x = graph.select_outputs(x);
        }
        x = joined(
            graph,
            hparams,
            block.post_attention_norm.as_ref(),
            x,
            attended,
        );
        let bias = block.attn_output_norm_bias.as_ref();
        x = norm::optional(graph, hparams, block.attn_output_norm.as_ref(), bias, x);
        let bias = block.ffn_norm_bias.as_ref();
        let normed = norm::optional(graph, hparams, block.ffn_norm.as_ref(), bias, x);
        let fed = feed_forward::build(graph, hparams, block, normed)?;
        x = joined(graph, hparams, block.post_ffw_norm.as_ref(), x, fed);
        let bias = block.layer_output_norm_bias.as_ref();
        x = norm::optional(graph, hparams, block.layer_output_norm.as_ref(), bias, x);
        x = graph.directed(x, index);
    }
    let bias = weights.output_norm_bias.as_ref();
    Ok(norm::optional(
        graph,
        hparams,
        weights.output_norm.as_ref(),
        bias,
        x,
    ))
}

/// What a part computed, normed and scaled where the model does so, joins the residual stream.
fn joined(
    graph: &mut GraphBuilder,
    hparams: &Hyperparameters,
    weight: Option<&Tensor>,
    stream: Value,
    part: Value,
) -> Value {
    let part = norm::optional(graph, hparams, weight, None, part);
    let part = scaled(graph, part, hparams.residual_scale);
    graph.add(stream, part)
}

fn scaled(graph: &mut GraphBuilder, x: Value, factor: f32) -> Value {
    match factor {
        1.0 => x,
        factor => graph.scale(x, factor),
    }
}

/// The rotation of each layer's keys, where it has one; none where positions have embeddings: then keys depend on them in
/// another way. A context of `n_ctx` positions decides between the divisors of some models.
pub fn ropes(
    hparams: &Hyperparameters,
    weights: &Weights,
    n_ctx: usize,
) -> Option<Vec<Option<Rope>>> {
    let divisors = rope::divisors(hparams, weights, n_ctx);
    let of_layer = |layer| rope::of_layer(hparams, layer, divisors);
    let ropes = (0..hparams.n_layers()).map(of_layer);
    weights.position_embd.is_none().then(|| ropes.collect())
}

/// Embeddings of the batch's tokens, and of their positions where the model has such: `[n_embd, n_tokens]`.
fn embeddings(
    hparams: &Hyperparameters,
    weights: &Weights,
    graph: &mut GraphBuilder,
) -> Result<Value, ModelError> {
    let mut x = graph.embed(weights.token_embd.have(Slot::TokenEmbd)?);
    if let Some(types) = &weights.token_types {
        // All tokens are of the first type, as in the reference.
        x = graph.add_first_row(x, types);
    }
    if let Some(positions) = &weights.position_embd {
        let positions = graph.embed_positions(positions);
        x = graph.add(x, positions);
    }
    let bias = weights.token_embd_norm_bias.as_ref();
    let x = norm::optional(graph, hparams, weights.token_embd_norm.as_ref(), bias, x);
    Ok(scaled(graph, x, hparams.embedding_scale))
}

/// `[n_embd, n_outputs] -> [n_vocab, n_outputs]`
fn logits(
    hparams: &Hyperparameters,
    weights: &Weights,
    graph: &mut GraphBuilder,
    normed: Value,
) -> Result<Value, ModelError> {
    let output = weights
        .output
        .as_ref()
        .map_or_else(|| weights.token_embd.have(Slot::TokenEmbd), Ok)?;
    let mut logits = graph.matmul(output, normed);
    if let Some(bias) = &weights.output_bias {
        logits = graph.add_row(logits, bias);
    }
    logits = scaled(graph, logits, hparams.logit_scale);
    Ok(match hparams.final_softcap {
        Some(cap) => graph.softcap(logits, cap),
        None => logits,
    })
}
