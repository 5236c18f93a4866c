//! OLMo 2 and 3.

use super::{Architecture, Choices, Class, LLAMA_CHOICES, TokenizerHabit, WindowChoice};
use crate::ModelError;
use crate::block::{attention, feed_forward};
use crate::config::{
    self, ALL_HEADS, Config, Entries, Fact, Fallback, NO_ATTENTION_BIAS, Rule, SILU, WHOLE_HEADS,
};
use crate::tensors::{Slot, TensorRow, Transform, row};
use gristmill_compute::RopeStyle;

pub static OLMO2: Architecture = Architecture {
    name: "olmo2",
    classes: &[
        Class {
            name: "Olmo2ForCausalLM",
            defaults: &[DEFAULTS],
            facts: FACTS,
        },
        Class {
            name: "Olmo3ForCausalLM",
            defaults: &[DEFAULTS, &[("sliding_window", Fallback::Integer(4096))]],
            facts: FACTS,
        },
    ],
    tensor_metadata: &[],
    metadata: &[config::SIZES, config::HEADS, &[Rule::With(window)]],
    tokenizer: TokenizerHabit::PLAIN,
    text_part: None,
    tensors: &[
        ROWS,
        &attention::rows(Transform::None, Transform::None),
        feed_forward::ROWS,
    ],
    choices: Choices {
        rope_style: Some(RopeStyle::NeoX),
        window: Some(WindowChoice {
            // Every fourth layer has full attention.
            pattern: 4,
            length: None,
            freq_base: None,
            stretched: false,
        }),
        ..LLAMA_CHOICES
    },
};

const DEFAULTS: &[(&str, Fallback)] = &[
    ("vocab_size", Fallback::Integer(50304)),
    ("hidden_size", Fallback::Integer(4096)),
    ("intermediate_size", Fallback::Integer(11008)),
    ("num_hidden_layers", Fallback::Integer(32)),
    ("num_attention_heads", Fallback::Integer(32)),
    ALL_HEADS,
    ("max_position_embeddings", Fallback::Integer(2048)),
    ("rms_norm_eps", Fallback::Float(1e-5)),
    ("rope_theta", Fallback::Float(10000.0)),
    ("tie_word_embeddings", Fallback::Bool(false)),
];

/// Norms behind attention and feed-forward part only, and of all queries and all keys of a token together.
const ROWS: &[TensorRow] = &[
    row(Slot::TokenEmbd, "model.embed_tokens.weight"),
    row(Slot::Output, "lm_head.weight"),
    row(Slot::OutputNorm, "model.norm.weight"),
    row(
        Slot::AttnQueriesNorm,
        "model.layers.{}.self_attn.q_norm.weight",
    ),
    row(
        Slot::AttnKeysNorm,
        "model.layers.{}.self_attn.k_norm.weight",
    ),
    row(
        Slot::PostAttentionNorm,
        "model.layers.{}.post_attention_layernorm.weight",
    ),
    row(
        Slot::PostFfwNorm,
        "model.layers.{}.post_feedforward_layernorm.weight",
    ),
];

/// What the configuration may say that becomes no metadata.
const FACTS: &[Fact] = &[
    SILU,
    WHOLE_HEADS,
    NO_ATTENTION_BIAS,
    // Loaders ask for an output projection.
    Fact::off("tie_word_embeddings"),
];

/// OLMo 3's window; which layers have it is said one by one.
fn window(config: &Config, entries: &mut Entries<'_>) -> Result<(), ModelError> {
    let Some(window) = config.integer("sliding_window")? else {
        return Ok(());
    };
    entries.set("attention.sliding_window", window);
    let windowed = config::windowed_layers(config)?;
    entries.set("attention.sliding_window_pattern", windowed);
    Ok(())
}
