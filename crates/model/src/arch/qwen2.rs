//! Qwen2 and Qwen2.5.

use super::{Architecture, Choices, Class, LLAMA_CHOICES, TokenizerHabit};
use crate::block::{attention, feed_forward};
use crate::config::{self, ALL_HEADS, Fact, Fallback, NO_WINDOW_SWITCHED_ON, SILU, WHOLE_HEADS};
use crate::decoder;
use crate::tensors::{Slot, Transform, row};
use gristmill_compute::RopeStyle;

pub static QWEN2: Architecture = Architecture {
    name: "qwen2",
    classes: &[Class {
        name: "Qwen2ForCausalLM",
        defaults: &[DEFAULTS],
        facts: FACTS,
    }],
    tensor_metadata: &[],
    metadata: &[config::SIZES, config::HEADS],
    tokenizer: TokenizerHabit::PLAIN,
    text_part: None,
    tensors: &[
        decoder::ROWS,
        &attention::rows(Transform::None, Transform::None),
        &attention::bias_rows(Transform::None, Transform::None),
        feed_forward::ROWS,
        &[row(Slot::OutputBias, "lm_head.bias").optional()],
    ],
    choices: QWEN_CHOICES,
};

/// The choices of the whole family.
pub(super) const QWEN_CHOICES: Choices = Choices {
    rope_style: Some(RopeStyle::NeoX),
    ..LLAMA_CHOICES
};

/// What the family's configurations may say that becomes no metadata.
pub(super) const FACTS: &[Fact] = &[SILU, WHOLE_HEADS, NO_WINDOW_SWITCHED_ON];

/// What the family's configurations mean where they are silent.
pub(super) const DEFAULTS: &[(&str, Fallback)] = &[
    ("vocab_size", Fallback::Integer(151936)),
    ("hidden_size", Fallback::Integer(4096)),
    ("intermediate_size", Fallback::Integer(22016)),
    ("num_hidden_layers", Fallback::Integer(32)),
    ("num_attention_heads", Fallback::Integer(32)),
    ("num_key_value_heads", Fallback::Integer(32)),
    ALL_HEADS,
    ("max_position_embeddings", Fallback::Integer(32768)),
    ("rms_norm_eps", Fallback::Float(1e-6)),
    ("rope_theta", Fallback::Float(10000.0)),
    ("tie_word_embeddings", Fallback::Bool(false)),
];
