//! RMS norms: of the residual stream and of single heads.

use crate::Hyperparameters;
use gristmill_compute::{GraphBuilder, Tensor, Value};

/// The norm where there is one, else `x`: `[n, ..]`, each row by itself.
pub(crate) fn rms(
    graph: &mut GraphBuilder,
    hparams: &Hyperparameters,
    weight: Option<&Tensor>,
    x: Value,
) -> Value {
    match weight {
        Some(weight) => graph.rms_norm(x, Some(weight), hparams.norm_epsilon),
        None => x,
    }
}
