//! GPT-2.

use super::{Architecture, Choices, Class, LLAMA_CHOICES, Norm, TextPart, TokenizerHabit};
use crate::config::{self, Fact, Fallback, GELU_TANH};
use crate::tensors::{Slot, TensorRow, Transform, row};
use gristmill_compute::Activation;

pub static GPT2: Architecture = Architecture {
    name: "gpt2",
    classes: &[Class {
        name: "GPT2LMHeadModel",
        defaults: &[DEFAULTS],
        facts: FACTS,
    }],
    tensor_metadata: &[],
    metadata: &[config::SIZES, config::HEADS],
    tokenizer: TokenizerHabit::PLAIN,
    // The oldest checkpoints have no prefix.
    text_part: Some(TextPart {
        infix: "transformer.",
        other_prefixes: &[],
    }),
    tensors: &[ROWS],
    choices: Choices {
        rope_style: None,
        norm: Norm::Layer,
        activation: Activation::GeluTanh,
        ..LLAMA_CHOICES
    },
};

const DEFAULTS: &[(&str, Fallback)] = &[
    ("vocab_size", Fallback::Integer(50257)),
    ("n_positions", Fallback::Integer(1024)),
    ("n_embd", Fallback::Integer(768)),
    ("n_layer", Fallback::Integer(12)),
    ("n_head", Fallback::Integer(12)),
    ("n_inner", Fallback::Times(4, "n_embd")),
    ("layer_norm_epsilon", Fallback::Float(1e-5)),
    ("tie_word_embeddings", Fallback::Bool(true)),
];

/// The matrices of blocks are stored as inputs by outputs.
const ROWS: &[TensorRow] = &[
    row(Slot::TokenEmbd, "wte.weight"),
    row(Slot::PositionEmbd, "wpe.weight"),
    row(Slot::Output, "lm_head.weight").optional(),
    row(Slot::OutputNorm, "ln_f.weight"),
    row(Slot::OutputNormBias, "ln_f.bias"),
    row(Slot::AttnNorm, "h.{}.ln_1.weight"),
    row(Slot::AttnNormBias, "h.{}.ln_1.bias"),
    row(Slot::AttnQkv, "h.{}.attn.c_attn.weight").transformed(Transform::Transposed),
    row(Slot::AttnQkvBias, "h.{}.attn.c_attn.bias"),
    row(Slot::AttnOutput, "h.{}.attn.c_proj.weight").transformed(Transform::Transposed),
    row(Slot::AttnOutputBias, "h.{}.attn.c_proj.bias"),
    row(Slot::FfnNorm, "h.{}.ln_2.weight"),
    row(Slot::FfnNormBias, "h.{}.ln_2.bias"),
    row(Slot::FfnUp, "h.{}.mlp.c_fc.weight").transformed(Transform::Transposed),
    row(Slot::FfnUpBias, "h.{}.mlp.c_fc.bias"),
    row(Slot::FfnDown, "h.{}.mlp.c_proj.weight").transformed(Transform::Transposed),
    row(Slot::FfnDownBias, "h.{}.mlp.c_proj.bias"),
];

/// What the configuration may say that becomes no metadata.
const FACTS: &[Fact] = &[
    Fact {
        key: "activation_function",
        ..GELU_TANH
    },
    Fact::on("scale_attn_weights"),
    Fact::off("scale_attn_by_inverse_layer_idx"),
    Fact::off("add_cross_attention"),
];
