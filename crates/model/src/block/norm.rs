//! Norms: of the residual stream and of single heads.

use crate::Hyperparameters;
use crate::arch::Norm;
use gristmill_compute::{GraphBuilder, Tensor, Value};

/// The architecture's norm, of each row by itself: `[n, ..] -> [n, ..]`.
pub(crate) fn build(
    graph: &mut GraphBuilder,
    hparams: &Hyperparameters,
    weight: &Tensor,
    bias: Option<&Tensor>,
    x: Value,
) -> Value {
    match hparams.architecture.choices.norm {
        Norm::Rms => graph.rms_norm(x, Some(weight), hparams.norm_epsilon),
        Norm::Layer => graph.layer_norm(x, weight, bias, hparams.norm_epsilon),
    }
}

/// The norm where there is one, else `x`.
pub(crate) fn optional(
    graph: &mut GraphBuilder,
    hparams: &Hyperparameters,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    x: Value,
) -> Value {
    match weight {
        Some(weight) => build(graph, hparams, weight, bias, x),
        None => x,
    }
}
