//! Llama, Mistral, SmolLM and what else shares their shape.

use super::{
    Architecture, Choices, Class, ExpertChoice, HabitValue, LLAMA_CHOICES, TokenizerHabit,
};
use crate::block::{attention, feed_forward, rope};
use crate::config::{self, ALL_HEADS, Fallback, NO_WINDOW, Rule, SILU, WHOLE_HEADS};
use crate::decoder;
use crate::tensors::{
    ExpertPart, Heads, Slot, TensorRow, Transform, computed, expert_row, row, with_experts,
};

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
            name: "MixtralForCausalLM",
            defaults: &[MIXTRAL_DEFAULTS],
            facts: &[SILU, WHOLE_HEADS, NO_WINDOW],
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
    tensors: ROWS,
    choices: Choices {
        rotates_whole_heads: true,
        experts: Some(ExpertChoice {
            always: false,
            own_width: false,
            normalized: true,
        }),
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

/// Its tensors; those of experts are there where the model has such.
pub(super) const ROWS: &[&[TensorRow]] = &[
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
    EXPERT_ROWS,
    &[
        row(
            Slot::AttnOutputBias,
            "model.layers.{}.self_attn.o_proj.bias",
        )
        .optional(),
        computed(Slot::RopeFreqs, rope::llama3_divisors),
    ],
];

/// Mixtral's experts, in the order in which conversion writes them.
const EXPERT_ROWS: &[TensorRow] = &[
    expert_row(
        Slot::FfnGateExps,
        "model.layers.{}.block_sparse_moe.experts.{expert}.w1.weight",
        &[
            (
                "model.layers.{}.block_sparse_moe.experts.w1",
                ExpertPart::Whole,
            ),
            (
                "model.layers.{}.block_sparse_moe.experts.gate_up_proj",
                ExpertPart::FirstHalf,
            ),
        ],
    ),
    expert_row(
        Slot::FfnDownExps,
        "model.layers.{}.block_sparse_moe.experts.{expert}.w2.weight",
        &[
            (
                "model.layers.{}.block_sparse_moe.experts.w2",
                ExpertPart::Whole,
            ),
            (
                "model.layers.{}.block_sparse_moe.experts.down_proj",
                ExpertPart::Whole,
            ),
        ],
    ),
    expert_row(
        Slot::FfnUpExps,
        "model.layers.{}.block_sparse_moe.experts.{expert}.w3.weight",
        &[
            (
                "model.layers.{}.block_sparse_moe.experts.w3",
                ExpertPart::Whole,
            ),
            (
                "model.layers.{}.block_sparse_moe.experts.gate_up_proj",
                ExpertPart::SecondHalf,
            ),
        ],
    ),
    row(
        Slot::FfnGateInp,
        "model.layers.{}.block_sparse_moe.gate.weight",
    )
    .present(with_experts),
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

const MIXTRAL_DEFAULTS: &[(&str, Fallback)] = &[
    ("vocab_size", Fallback::Integer(32000)),
    ("hidden_size", Fallback::Integer(4096)),
    ("intermediate_size", Fallback::Integer(14336)),
    ("num_hidden_layers", Fallback::Integer(32)),
    ("num_attention_heads", Fallback::Integer(32)),
    ("num_key_value_heads", Fallback::Integer(8)),
    ALL_HEADS,
    ("max_position_embeddings", Fallback::Integer(131072)),
    ("rms_norm_eps", Fallback::Float(1e-5)),
    ("rope_theta", Fallback::Float(1e6)),
    ("num_experts_per_tok", Fallback::Integer(2)),
    ("num_local_experts", Fallback::Integer(8)),
    ("tie_word_embeddings", Fallback::Bool(false)),
];
