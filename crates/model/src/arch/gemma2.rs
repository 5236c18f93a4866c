//! Gemma 2.

use super::{
    Architecture, AttentionScale, Choices, Class, LLAMA_CHOICES, TokenizerHabit, WindowChoice,
};
use crate::ModelError;
use crate::block::{attention, feed_forward};
use crate::config::{
    self, Config, Entries, Fact, Fallback, GELU_TANH, NO_ATTENTION_BIAS, Otherwise, QUERY_SCALE,
    Rule, WHOLE_HEADS,
};
use crate::tensors::{Slot, TensorRow, Transform, row};
use gristmill_compute::{Activation, RopeStyle};

pub static GEMMA2: Architecture = Architecture {
    name: "gemma2",
    classes: &[Class {
        name: "Gemma2ForCausalLM",
        defaults: &[DEFAULTS],
        facts: FACTS,
    }],
    tensor_metadata: &[],
    metadata: &[&[
        config::CONTEXT_LENGTH,
        config::EMBEDDING_LENGTH,
        config::BLOCK_COUNT,
        config::FEED_FORWARD_LENGTH,
        config::HEAD_COUNT,
        config::HEAD_COUNT_KV,
        Rule::With(other_rotation),
        config::RMS_EPSILON,
        config::KEY_LENGTH,
        config::VALUE_LENGTH,
        Rule::FileType,
        Rule::F32 {
            key: "attn_logit_softcapping",
            from: &["attn_logit_softcapping"],
        },
        Rule::F32 {
            key: "final_logit_softcapping",
            from: &["final_logit_softcapping"],
        },
        Rule::With(config::window_entries),
    ]],
    tokenizer: TokenizerHabit {
        no_space_prefix: true,
        ..TokenizerHabit::PLAIN
    },
    text_part: None,
    tensors: &[
        &[
            row(Slot::TokenEmbd, "model.embed_tokens.weight"),
            row(Slot::Output, "lm_head.weight").optional(),
        ],
        NORM_ROWS,
        &attention::rows(Transform::None, Transform::None),
        feed_forward::ROWS,
    ],
    choices: Choices {
        rope_style: Some(RopeStyle::NeoX),
        activation: Activation::GeluTanh,
        scaled_embeddings: true,
        // The 27B model divides by its width per head, not by the length of its heads.
        attention_scale: AttentionScale::WidthAt { n_layers: 46 },
        scales_queries: true,
        attention_softcap: Some(50.0),
        final_softcap: Some(30.0),
        window: Some(WindowChoice {
            // Every second layer has full attention.
            pattern: 2,
            length: Some(4096),
            freq_base: None,
            stretched: true,
        }),
        ..LLAMA_CHOICES
    },
};

const DEFAULTS: &[(&str, Fallback)] = &[
    ("vocab_size", Fallback::Integer(256000)),
    ("hidden_size", Fallback::Integer(2304)),
    ("intermediate_size", Fallback::Integer(9216)),
    ("num_hidden_layers", Fallback::Integer(26)),
    ("num_attention_heads", Fallback::Integer(8)),
    ("num_key_value_heads", Fallback::Integer(4)),
    ("head_dim", Fallback::Integer(256)),
    ("max_position_embeddings", Fallback::Integer(8192)),
    ("rms_norm_eps", Fallback::Float(1e-6)),
    ("rope_theta", Fallback::Float(BASE)),
    ("sliding_window", Fallback::Integer(4096)),
    ("attn_logit_softcapping", Fallback::Float(50.0)),
    ("final_logit_softcapping", Fallback::Float(30.0)),
    ("tie_word_embeddings", Fallback::Bool(true)),
];

/// The base that loaders assume.
const BASE: f64 = 10000.0;

/// Norms before and after each part, stored as their distance from 1.
pub(super) const NORM_ROWS: &[TensorRow] = &[
    row(Slot::OutputNorm, "model.norm.weight").transformed(Transform::AddOne),
    row(Slot::AttnNorm, "model.layers.{}.input_layernorm.weight").transformed(Transform::AddOne),
    row(
        Slot::PostAttentionNorm,
        "model.layers.{}.post_attention_layernorm.weight",
    )
    .transformed(Transform::AddOne),
    row(
        Slot::FfnNorm,
        "model.layers.{}.pre_feedforward_layernorm.weight",
    )
    .transformed(Transform::AddOne),
    row(
        Slot::PostFfwNorm,
        "model.layers.{}.post_feedforward_layernorm.weight",
    )
    .transformed(Transform::AddOne),
];

/// What the configuration may say that becomes no metadata.
const FACTS: &[Fact] = &[
    GELU_TANH,
    WHOLE_HEADS,
    QUERY_SCALE,
    NO_ATTENTION_BIAS,
    CAPPED_SCORES,
    Fact {
        key: "final_logit_softcapping",
        ..CAPPED_SCORES
    },
];

/// Loaders that find no cap assume one.
const CAPPED_SCORES: Fact = Fact {
    key: "attn_logit_softcapping",
    holds: |_, value| value.as_f64().is_some_and(|cap| cap > 0.0),
    otherwise: Otherwise::Refuse("a number above 0"),
};

/// The rotation, where it is not the one that the reference assumes without being told.
fn other_rotation(config: &Config, entries: &mut Entries<'_>) -> Result<(), ModelError> {
    let rope = config.rope();
    let base = config::rope_number(rope, "rope_theta")?;
    let is_plain = config::rope_type(rope)? == "default";
    if base == Some(BASE) && is_plain {
        return Ok(());
    }
    config::rope_entries(config, entries)
}
