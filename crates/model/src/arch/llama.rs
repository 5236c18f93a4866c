//! Llama, Mistral, SmolLM and what else shares their shape.

use super::{Architecture, Choices, Class, HabitValue, LLAMA_CHOICES, TokenizerHabit};
use crate::block::{attention, feed_forward, rope};
use crate::config::{self, ALL_HEADS, Fallback, NO_WINDOW, Rule, SILU, WHOLE_HEADS};
use crate::decoder;
use crate::tensors::{Heads, Slot, TensorRow, Transform, computed, row};

pub static LLAMA: Architecture = Architecture {
    name: "llama",
    classes: &[
        Class {
            name: "LlamaForCausalLM",
            defaults: &[
                DEFAULTS,
                &[
                    ("intermediate_size", Fallback::Integer(11008)),
                    ("max_position_embeddings", Fallback::Integer(2048)),
                    ALL_HEADS,
                    ("head_dim", Fallback::WidthPerHead),
                ],
            ],
            facts: &[SILU, WHOLE_HEADS],
        },
        Class {
            name: "MistralForCausalLM",
            defaults: &[
                DEFAULTS,
                &[
                    ("intermediate_size", Fallback::Integer(14336)),
                    ("max_position_embeddings", Fallback::Integer(131072)),
                    ("num_key_value_heads", Fallback::Integer(8)),
                    ALL_HEADS,
                ],
            ],
            facts: &[SILU, WHOLE_HEADS, NO_WINDOW],
        },
    ],
    tensor_metadata: &[],
    metadata: &[config::SIZES, config::HEADS, METADATA],
    tokenizer: TOKENIZER,
    text_part: None,
    tensors: DENSE_ROWS,
    choices: Choices {
        rotates_whole_heads: true,
        ..LLAMA_CHOICES
    },
};

/// What the vocabularies of Llama, Granite and CodeLlama need.
pub(super) const TOKENIZER: TokenizerHabit = TokenizerHabit {
    space_prefix_as_configured: true,
    by_size: &[
        // CodeLlama: its fill-in-the-middle tokens.
        (
            32016,
            &[
                ("prefix_token_id", HabitValue::Id(32007)),
                ("suffix_token_id", HabitValue::Id(32008)),
                ("middle_token_id", HabitValue::Id(32009)),
                ("eot_token_id", HabitValue::Id(32010)),
            ],
        ),
        // Small Granite models, and whoever shares their vocabulary: no beginning token.
        (49152, &[("add_bos_token", HabitValue::Bool(false))]),
    ],
    ..TokenizerHabit::PLAIN
};

/// The tensors of a dense model.
pub(super) const DENSE_ROWS: &[&[TensorRow]] = &[
    decoder::ROWS,
    // Rotary dimensions are stored in pairs, the checkpoint has them in halves.
    &attention::rows(
        Transform::HalvesToPairs(Heads::Query),
        Transform::HalvesToPairs(Heads::KeyValue),
    ),
    &attention::bias_rows(
        Transform::HalvesToPairs(Heads::Query),
        Transform::HalvesToPairs(Heads::KeyValue),
    ),
    feed_forward::ROWS,
    feed_forward::BIAS_ROWS,
    &[
        row(
            Slot::AttnOutputBias,
            "model.layers.{}.self_attn.o_proj.bias",
        )
        .optional(),
        computed(Slot::RopeFreqs, rope::llama3_divisors),
    ],
];

/// Size of the vocabulary and rotated dimensions.
pub(super) const METADATA: &[Rule] = &[
    Rule::U32 {
        key: "vocab_size",
        from: &["vocab_size"],
    },
    Rule::With(config::rotary_dimensions),
];

const DEFAULTS: &[(&str, Fallback)] = &[
    ("vocab_size", Fallback::Integer(32000)),
    ("hidden_size", Fallback::Integer(4096)),
    ("num_hidden_layers", Fallback::Integer(32)),
    ("num_attention_heads", Fallback::Integer(32)),
    ("rms_norm_eps", Fallback::Float(1e-6)),
    ("rope_theta", Fallback::Float(10000.0)),
    ("tie_word_embeddings", Fallback::Bool(false)),
];
