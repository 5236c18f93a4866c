//! StarCoder2.

use super::{Architecture, Choices, Class, LLAMA_CHOICES, Norm, TokenizerHabit};
use crate::block::attention;
use crate::config::{self, Fact, Fallback, GELU_TANH, NO_WINDOW, WHOLE_HEADS};
use crate::decoder;
use crate::tensors::{Slot, TensorRow, Transform, row};
use gristmill_compute::{Activation, RopeStyle};

pub static STARCODER2: Architecture = Architecture {
    name: "starcoder2",
    classes: &[Class {
        name: "Starcoder2ForCausalLM",
        defaults: &[DEFAULTS],
        facts: FACTS,
    }],
    tensor_metadata: &[],
    metadata: &[config::SIZES, config::HEADS],
    tokenizer: TokenizerHabit::PLAIN,
    text_part: None,
    tensors: &[
        decoder::ROWS,
        decoder::NORM_BIAS_ROWS,
        &attention::rows(Transform::None, Transform::None),
        &attention::bias_rows(Transform::None, Transform::None),
        ROWS,
    ],
    choices: Choices {
        rope_style: Some(RopeStyle::NeoX),
        norm: Norm::Layer,
        activation: Activation::GeluTanh,
        ..LLAMA_CHOICES
    },
};

const DEFAULTS: &[(&str, Fallback)] = &[
    ("vocab_size", Fallback::Integer(49152)),
    ("hidden_size", Fallback::Integer(3072)),
    ("intermediate_size", Fallback::Integer(12288)),
    ("num_hidden_layers", Fallback::Integer(30)),
    ("num_attention_heads", Fallback::Integer(24)),
    ("num_key_value_heads", Fallback::Integer(2)),
    ("max_position_embeddings", Fallback::Integer(4096)),
    ("norm_epsilon", Fallback::Float(1e-5)),
    ("rope_theta", Fallback::Float(10000.0)),
    ("tie_word_embeddings", Fallback::Bool(true)),
];

/// No gate, and biases that loaders ask for.
const ROWS: &[TensorRow] = &[
    row(
        Slot::AttnOutputBias,
        "model.layers.{}.self_attn.o_proj.bias",
    ),
    row(Slot::FfnUp, "model.layers.{}.mlp.c_fc.weight"),
    row(Slot::FfnUpBias, "model.layers.{}.mlp.c_fc.bias"),
    row(Slot::FfnDown, "model.layers.{}.mlp.c_proj.weight"),
    row(Slot::FfnDownBias, "model.layers.{}.mlp.c_proj.bias"),
];

/// What the configuration may say that becomes no metadata.
const FACTS: &[Fact] = &[
    Fact {
        key: "hidden_act",
        ..GELU_TANH
    },
    Fact::on("use_bias"),
    WHOLE_HEADS,
    NO_WINDOW,
];
