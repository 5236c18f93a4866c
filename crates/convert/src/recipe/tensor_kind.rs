//! What a tensor is, by its name, and whether it is quantized at all.

use super::plan::ModelFacts;

/// The kinds of tensors that mixes tell apart, by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TensorKind {
    /// The output matrix.
    Output,
    /// The token embedding, per-layer ones included.
    TokenEmbedding,
    /// Values of the attention, alone or fused with others.
    Value,
    /// Keys of the attention.
    Key,
    /// Queries of the attention.
    Query,
    /// The projection that ends the attention.
    AttentionOutput,
    /// Up projection, of experts too.
    Up,
    /// Gate projection, of experts too.
    Gate,
    /// Down projection, of experts too.
    Down,
    /// Everything else.
    Other,
}

/// Parts of a name that tell the kind; the first that occurs decides.
const PARTS: &[(&str, TensorKind)] = &[
    ("attn_qkv.weight", TensorKind::Value),
    ("attn_kv_b.weight", TensorKind::Value),
    ("attn_v.weight", TensorKind::Value),
    ("attn_k.weight", TensorKind::Key),
    ("attn_q.weight", TensorKind::Query),
    ("attn_output.weight", TensorKind::AttentionOutput),
    ("ffn_up", TensorKind::Up),
    ("ffn_gate", TensorKind::Gate),
    ("ffn_down", TensorKind::Down),
];

/// The embedding of each layer that some models carry beside the main one.
pub(super) const PER_LAYER_EMBEDDING: &str = "per_layer_token_embd.weight";

impl TensorKind {
    /// The kind of the tensor of this name.
    pub fn of(name: &str) -> Self {
        match name {
            "output.weight" => TensorKind::Output,
            "token_embd.weight" | PER_LAYER_EMBEDDING => TensorKind::TokenEmbedding,
            _ => {
                let found = PARTS.iter().find(|(part, _)| name.contains(part));
                found.map_or(TensorKind::Other, |(_, kind)| *kind)
            }
        }
    }

    /// Gate, up or down projection.
    pub fn is_feed_forward(self) -> bool {
        matches!(self, TensorKind::Up | TensorKind::Gate | TensorKind::Down)
    }
}

/// Names kept as they are.
const KEPT_NAMES: &[&str] = &["position_embd.weight", "token_types.weight"];

/// Parts of names kept as they are: small, or of great effect.
const KEPT_PARTS: &[&str] = &[
    "_norm.weight",
    // Expert routing.
    "ffn_gate_inp.weight",
    "ffn_gate_tid2eid.weight",
    // Very small matrices.
    "altup",
    "laurel",
    "per_layer_model_proj",
    "ssm_conv1d",
    "shortconv.conv.weight",
    "indexer.k_proj.weight",
    "indexer.q_proj.weight",
    "attn_rel_b.weight",
    // Recurrences.
    "time_mix_first.weight",
    "time_mix_w0.weight",
    "time_mix_w1.weight",
    "time_mix_w2.weight",
    "time_mix_v0.weight",
    "time_mix_v1.weight",
    "time_mix_v2.weight",
    "time_mix_a0.weight",
    "time_mix_a1.weight",
    "time_mix_a2.weight",
    "time_mix_g1.weight",
    "time_mix_g2.weight",
    "time_mix_decay_w1.weight",
    "time_mix_decay_w2.weight",
    "time_mix_lerp_fused.weight",
    // Images and sound.
    ".position_embd",
    "sam.pos_embd",
    "sam.neck.",
    "sam.net_",
    ".rel_pos",
    ".patch_embd",
    ".patch_merger",
    "a.rvq.codebook",
    "mm.a.code_embd",
];

/// Whether a recipe may change the tensor's type. `dims` without trailing ones.
pub(super) fn may_change(model: &ModelFacts, name: &str, dims: &[u64]) -> bool {
    dims.len() >= 2
        && name.ends_with("weight")
        && !KEPT_NAMES.contains(&name)
        && !has_part(KEPT_PARTS, name)
        && !has_part(model.family().kept_parts, name)
}

/// Whether the architecture insists on eight bits for the tensor.
pub(super) fn needs_q8_0(model: &ModelFacts, name: &str) -> bool {
    has_part(model.family().eight_bit_parts, name)
}

fn has_part(parts: &[&str], name: &str) -> bool {
    parts.iter().any(|part| name.contains(part))
}
