//! Qwen3 with experts.

use super::qwen2::QWEN_CHOICES;
use super::{Architecture, Choices, Class, ExpertChoice, TokenizerHabit};
use crate::block::attention;
use crate::config::{
    self, Fact, Fallback, NO_ATTENTION_BIAS, NO_WINDOW_SWITCHED_ON, Otherwise, Rule, SILU,
    WHOLE_HEADS,
};
use crate::decoder;
use crate::tensors::{ExpertPart, Slot, TensorRow, Transform, expert_row, row};

pub static QWEN3MOE: Architecture = Architecture {
    name: "qwen3moe",
    classes: &[Class {
        name: "Qwen3MoeForCausalLM",
        defaults: &[DEFAULTS],
        facts: FACTS,
    }],
    tensor_metadata: &[],
    metadata: &[
        config::SIZES,
        config::HEADS,
        &[Rule::U32 {
            key: "expert_feed_forward_length",
            from: &["moe_intermediate_size"],
        }],
    ],
    tokenizer: TokenizerHabit::PLAIN,
    text_part: None,
    tensors: &[
        decoder::ROWS,
        &attention::rows(Transform::None, Transform::None),
        &attention::bias_rows(Transform::None, Transform::None),
        &attention::head_norm_rows(Transform::None),
        ROWS,
    ],
    choices: Choices {
        experts: Some(ExpertChoice {
            always: true,
            own_width: true,
            normalized: true,
        }),
        ..QWEN_CHOICES
    },
};

const DEFAULTS: &[(&str, Fallback)] = &[
    ("vocab_size", Fallback::Integer(151936)),
    ("hidden_size", Fallback::Integer(2048)),
    ("intermediate_size", Fallback::Integer(6144)),
    ("num_hidden_layers", Fallback::Integer(24)),
    ("num_attention_heads", Fallback::Integer(32)),
    ("num_key_value_heads", Fallback::Integer(4)),
    ("max_position_embeddings", Fallback::Integer(32768)),
    ("rms_norm_eps", Fallback::Float(1e-6)),
    ("rope_theta", Fallback::Float(10000.0)),
    ("moe_intermediate_size", Fallback::Integer(768)),
    ("num_experts_per_tok", Fallback::Integer(8)),
    ("num_experts", Fallback::Integer(128)),
    ("norm_topk_prob", Fallback::Bool(false)),
    ("tie_word_embeddings", Fallback::Bool(false)),
];

/// Its experts, in the order in which conversion writes them.
const ROWS: &[TensorRow] = &[
    expert_row(
        Slot::FfnDownExps,
        "model.layers.{}.mlp.experts.{expert}.down_proj.weight",
        &[("model.layers.{}.mlp.experts.down_proj", ExpertPart::Whole)],
    ),
    expert_row(
        Slot::FfnGateExps,
        "model.layers.{}.mlp.experts.{expert}.gate_proj.weight",
        &[
            ("model.layers.{}.mlp.experts.gate_proj", ExpertPart::Whole),
            (
                "model.layers.{}.mlp.experts.gate_up_proj",
                ExpertPart::FirstHalf,
            ),
        ],
    ),
    expert_row(
        Slot::FfnUpExps,
        "model.layers.{}.mlp.experts.{expert}.up_proj.weight",
        &[
            ("model.layers.{}.mlp.experts.up_proj", ExpertPart::Whole),
            (
                "model.layers.{}.mlp.experts.gate_up_proj",
                ExpertPart::SecondHalf,
            ),
        ],
    ),
    row(Slot::FfnGateInp, "model.layers.{}.mlp.gate.weight"),
];

/// What the configuration may say that becomes no metadata: loaders know experts in every layer, and weights that are
/// divided by their sum.
const FACTS: &[Fact] = &[
    SILU,
    WHOLE_HEADS,
    NO_WINDOW_SWITCHED_ON,
    NO_ATTENTION_BIAS,
    Fact::on("norm_topk_prob"),
    Fact {
        key: "decoder_sparse_step",
        holds: |_, value| value.as_u64() == Some(1),
        otherwise: Otherwise::Refuse("1"),
    },
    Fact {
        key: "mlp_only_layers",
        holds: |_, value| value.is_null() || value.as_array().is_some_and(Vec::is_empty),
        otherwise: Otherwise::Refuse("an empty list"),
    },
];
