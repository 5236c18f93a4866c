//! The feed-forward part: `down(activation(gate(x)) * up(x))`, or `down(activation(up(x)))` without a gate.

use super::linear;
use crate::tensors::{BlockWeights, Slot, TensorRow, row};
use crate::weights::Have;
use crate::{Hyperparameters, ModelError};
use gristmill_compute::{GraphBuilder, Value};

/// Its matrices, gate included.
pub(crate) const ROWS: &[TensorRow] = &[
    row(Slot::FfnGate, "model.layers.{}.mlp.gate_proj.weight"),
    row(Slot::FfnUp, "model.layers.{}.mlp.up_proj.weight"),
    row(Slot::FfnDown, "model.layers.{}.mlp.down_proj.weight"),
];

/// Its biases, where an architecture may have them.
pub(crate) const BIAS_ROWS: &[TensorRow] = &[
    row(Slot::FfnGateBias, "model.layers.{}.mlp.gate_proj.bias").optional(),
    row(Slot::FfnUpBias, "model.layers.{}.mlp.up_proj.bias").optional(),
    row(Slot::FfnDownBias, "model.layers.{}.mlp.down_proj.bias").optional(),
];

/// `[n_embd, n_tokens] -> [n_embd, n_tokens]`
pub(crate) fn build(
    graph: &mut GraphBuilder,
    hparams: &Hyperparameters,
    block: &BlockWeights,
    x: Value,
) -> Result<Value, ModelError> {
    let activation = hparams.architecture.choices.activation;
    let gate = block.ffn_gate.as_ref();
    let gate = gate.map(|gate| linear(graph, gate, block.ffn_gate_bias.as_ref(), x));
    let up = linear(
        graph,
        block.ffn_up.have(Slot::FfnUp)?,
        block.ffn_up_bias.as_ref(),
        x,
    );
    let active = match gate {
        Some(gate) => graph.glu(gate, up, activation),
        None => graph.activate(up, activation),
    };
    Ok(linear(
        graph,
        block.ffn_down.have(Slot::FfnDown)?,
        block.ffn_down_bias.as_ref(),
        active,
    ))
}
