//! Granite, dense.

use super::llama::{self, METADATA};
use super::{Architecture, Choices, Class, LLAMA_CHOICES};
use crate::config::{self, ALL_HEADS, Fallback, Rule, SILU, WHOLE_HEADS};

pub static GRANITE: Architecture = Architecture {
    name: "granite",
    classes: &[Class {
        name: "GraniteForCausalLM",
        defaults: &[DEFAULTS],
        facts: &[SILU, WHOLE_HEADS],
    }],
    tensor_metadata: &[],
    metadata: &[
        config::SIZES,
        config::HEADS_OF_WIDTH,
        METADATA,
        &[
            Rule::F32Unless0 {
                key: "attention.scale",
                from: &["attention_multiplier"],
            },
            Rule::F32Unless0 {
                key: "embedding_scale",
                from: &["embedding_multiplier"],
            },
            Rule::F32Unless0 {
                key: "residual_scale",
                from: &["residual_multiplier"],
            },
            Rule::F32Unless0 {
                key: "logit_scale",
                from: &["logits_scaling"],
            },
        ],
    ],
    tokenizer: llama::TOKENIZER,
    text_part: None,
    tensors: llama::ROWS,
    choices: Choices {
        rotates_whole_heads: true,
        rotation_can_be_off: true,
        multipliers: true,
        ..LLAMA_CHOICES
    },
};

/// Multipliers of embeddings and residuals have no line: where nothing is said, they change nothing.
const DEFAULTS: &[(&str, Fallback)] = &[
    ("vocab_size", Fallback::Integer(32000)),
    ("hidden_size", Fallback::Integer(4096)),
    ("intermediate_size", Fallback::Integer(11008)),
    ("num_hidden_layers", Fallback::Integer(32)),
    ("num_attention_heads", Fallback::Integer(32)),
    ALL_HEADS,
    ("max_position_embeddings", Fallback::Integer(2048)),
    ("rms_norm_eps", Fallback::Float(1e-6)),
    ("rope_theta", Fallback::Float(10000.0)),
    ("attention_multiplier", Fallback::Float(1.0)),
    ("logits_scaling", Fallback::Float(1.0)),
    ("tie_word_embeddings", Fallback::Bool(false)),
];
