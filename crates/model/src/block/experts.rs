//! The feed-forward part divided among experts: of each token some take part, which a router chooses.

use crate::tensors::{BlockWeights, Slot};
use crate::weights::Have;
use crate::{ExpertHyperparameters, Hyperparameters, ModelError};
use gristmill_compute::{GraphBuilder, Route, Value};

/// `[n_embd, n_tokens] -> [n_embd, n_tokens]`
pub(crate) fn build(
    graph: &mut GraphBuilder,
    hparams: &Hyperparameters,
    experts: &ExpertHyperparameters,
    block: &BlockWeights,
    x: Value,
) -> Result<Value, ModelError> {
    let logits = graph.matmul(block.ffn_gate_inp.have(Slot::FfnGateInp)?, x);
    let route = Route {
        n_used: experts.n_used,
        normalized: experts.normalized,
        scale: experts.scale,
    };
    let routes = graph.route(logits, &route);
    let gate = graph.expert_matmul(block.ffn_gate_exps.have(Slot::FfnGateExps)?, x, routes);
    let up = graph.expert_matmul(block.ffn_up_exps.have(Slot::FfnUpExps)?, x, routes);
    let active = graph.glu(gate, up, hparams.architecture.choices.activation);
    let down = block.ffn_down_exps.have(Slot::FfnDownExps)?;
    let down = graph.expert_matmul(down, active, routes);
    Ok(graph.combine(down, routes))
}
