//! The feed-forward part: `down(activation(gate(x)) * up(x))`, or `down(activation(up(x)))` without a gate.

use super::{experts, linear};
use crate::tensors::{BlockWeights, Slot, TensorRow, row, without_experts};
use crate::weights::Have;
use crate::{Hyperparameters, ModelError};
use gristmill_compute::{GraphBuilder, Value};

/// Its matrices, gate included.
pub(crate) const ROWS: &[TensorRow] = &[
    row(Slot::FfnGate, "model.layers.{}.mlp.gate_proj.weight").present(without_experts),
    row(Slot::FfnUp, "model.layers.{}.mlp.up_proj.weight").present(without_experts),
    row(Slot::FfnDown, "model.layers.{}.mlp.down_proj.weight").present(without_experts),
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
    if let Some(experts) = &hparams.experts {
        return experts::build(graph, hparams, experts, block, x);
    }
    let activation = hparams.architecture.choices.activation;
    let active = match &block.ffn_gate_up {
        Some(both) => {
            let n_ff = both.shape.n_rows() / 2;
            let gate = graph.matmul(&both.rows(0..n_ff)?, x);
            let up = graph.matmul(&both.rows(n_ff..2 * n_ff)?, x);
            graph.glu(gate, up, activation)
        }
        None => {
            let gate = block.ffn_gate.as_ref();
            let gate = gate.map(|gate| linear(graph, gate, block.ffn_gate_bias.as_ref(), x));
            let up = block.ffn_up.have(Slot::FfnUp)?;
            let up = linear(graph, up, block.ffn_up_bias.as_ref(), x);
            match gate {
                Some(gate) => graph.glu(gate, up, activation),
                None => graph.activate(up, activation),
            }
        }
    };
    Ok(linear(
        graph,
        block.ffn_down.have(Slot::FfnDown)?,
        block.ffn_down_bias.as_ref(),
        active,
    ))
}
