//! Qwen3, dense.

use super::qwen2::{DEFAULTS, FACTS, QWEN_CHOICES};
use super::{Architecture, Choices, Class, TokenizerHabit};
use crate::block::{attention, feed_forward};
use crate::config::{self, Fallback};
use crate::decoder;
use crate::tensors::{Slot, TensorRow, Transform, row};

pub static QWEN3: Architecture = Architecture {
    name: "qwen3",
    classes: &[Class {
        name: "Qwen3ForCausalLM",
        defaults: &[&[("head_dim", Fallback::Integer(128))], DEFAULTS],
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
        &attention::head_norm_rows(Transform::None),
        feed_forward::ROWS,
        CLASSIFIER,
    ],
    choices: Choices {
        scores_are_shares: true,
        ..QWEN_CHOICES
    },
};

/// What rerankers have: a row for "yes" and one for "no".
const CLASSIFIER: &[TensorRow] = &[
    row(Slot::ClsOutput, "score.weight").optional(),
    row(Slot::ClsOutputBias, "score.bias").optional(),
];
