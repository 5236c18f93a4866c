//! Entries that architectures share, in the reference's order, and where computed ones come from.

use super::{Config, Entries, Rule, bad, kind, rope};
use crate::ModelError;
use serde_json::Value;

pub(crate) const BLOCK_COUNT: Rule = Rule::U32 {
    key: "block_count",
    from: &["n_layers", "num_hidden_layers", "n_layer", "num_layers"],
};
pub(crate) const CONTEXT_LENGTH: Rule = Rule::U32 {
    key: "context_length",
    from: &[
        "max_position_embeddings",
        "n_ctx",
        "n_positions",
        "max_length",
        "max_sequence_length",
        "model_max_length",
    ],
};
pub(crate) const EMBEDDING_LENGTH: Rule = Rule::U32 {
    key: "embedding_length",
    from: &["hidden_size", "n_embd", "dim"],
};
pub(crate) const FEED_FORWARD_LENGTH: Rule = Rule::U32 {
    key: "feed_forward_length",
    from: &[
        "prefix_dense_intermediate_size",
        "dense_intermediate_size",
        "intermediate_size",
        "n_inner",
        "hidden_dim",
    ],
};
pub(crate) const HEAD_COUNT: Rule = Rule::U32 {
    key: "attention.head_count",
    from: &["num_attention_heads", "n_head", "n_heads"],
};
pub(crate) const HEAD_COUNT_KV: Rule = Rule::U32 {
    key: "attention.head_count_kv",
    from: &["num_key_value_heads", "n_kv_heads"],
};
pub(crate) const RMS_EPSILON: Rule = Rule::F32 {
    key: "attention.layer_norm_rms_epsilon",
    from: &["rms_norm_eps", "norm_eps"],
};
pub(crate) const KEY_LENGTH: Rule = Rule::U32 {
    key: "attention.key_length",
    from: &["head_dim"],
};
pub(crate) const VALUE_LENGTH: Rule = Rule::U32 {
    key: "attention.value_length",
    from: &["head_dim"],
};

/// Sizes, rotation, epsilons and numbers of experts: the first entries of most architectures.
pub(crate) const SIZES: &[Rule] = &[
    BLOCK_COUNT,
    CONTEXT_LENGTH,
    EMBEDDING_LENGTH,
    FEED_FORWARD_LENGTH,
    HEAD_COUNT,
    HEAD_COUNT_KV,
    Rule::With(causality),
    Rule::With(rope::entries),
    RMS_EPSILON,
    Rule::F32 {
        key: "attention.layer_norm_epsilon",
        from: &["layer_norm_eps", "layer_norm_epsilon", "norm_epsilon"],
    },
    Rule::U32 {
        key: "expert_count",
        from: &["num_local_experts", "num_experts", "n_routed_experts"],
    },
    Rule::U32 {
        key: "expert_used_count",
        from: &[
            "num_experts_per_tok",
            "num_experts_per_token",
            "top_k_experts",
        ],
    },
];

/// What follows them: lengths of heads, and the type of the file.
pub(crate) const HEADS: &[Rule] = &[KEY_LENGTH, VALUE_LENGTH, Rule::FileType];

/// The same where the reference takes heads to share the width of the stream: their length is only said if they do not.
pub(crate) const HEADS_OF_WIDTH: &[Rule] = &[Rule::With(other_head_lengths), Rule::FileType];

fn other_head_lengths(config: &Config, entries: &mut Entries<'_>) -> Result<(), ModelError> {
    let length = config.head_length()?;
    if Some(length) != config.width_per_head()? {
        entries.set("attention.key_length", length);
        entries.set("attention.value_length", length);
    }
    Ok(())
}

fn causality(config: &Config, entries: &mut Entries<'_>) -> Result<(), ModelError> {
    let key = "is_causal";
    match config.values.get(key) {
        None | Some(Value::Bool(true)) => {}
        Some(Value::Bool(false)) => entries.set("attention.causal", false),
        // The authors' code would let tokens see later ones.
        Some(other) => return Err(bad(key, "true or false", &kind(other))),
    }
    Ok(())
}

/// Entries that [`Rule::With`] makes, and what stands in the configuration for them.
pub(super) const COMPUTED_FROM: &[(&str, &str)] = &[
    ("vocab_size", "vocab_size"),
    ("attention.key_length", "head_dim"),
    ("attention.value_length", "head_dim"),
    ("rope.freq_base", "rope_theta"),
    ("rope.freq_base_swa", "rope_local_base_freq"),
    ("rope.dimension_count", "head_dim"),
    ("rope.scaling.factor", "rope_scaling.factor"),
    ("rope.scaling.attn_factor", "rope_scaling.attention_factor"),
    (
        "rope.scaling.original_context_length",
        "rope_scaling.original_max_position_embeddings",
    ),
    (
        "rope.scaling.yarn_ext_factor",
        "rope_scaling.extrapolation_factor",
    ),
    (
        "rope.scaling.yarn_attn_factor",
        "rope_scaling.attention_factor",
    ),
    ("rope.scaling.yarn_beta_fast", "rope_scaling.beta_fast"),
    ("rope.scaling.yarn_beta_slow", "rope_scaling.beta_slow"),
    ("attention.sliding_window", "sliding_window"),
];
