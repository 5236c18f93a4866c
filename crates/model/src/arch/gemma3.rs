//! Gemma 3, the text model.

use super::{
    Architecture, AttentionScale, Choices, Class, LLAMA_CHOICES, TextPart, TokenizerHabit,
    WindowChoice, gemma2,
};
use crate::block::{attention, feed_forward};
use crate::config::{
    self, Fact, Fallback, GELU_TANH, NO_ATTENTION_CAP, ONE_DIRECTION, QUERY_SCALE, Rule,
    WHOLE_HEADS,
};
use crate::tensors::{Slot, TensorRow, Transform, row};
use gristmill_compute::{Activation, RopeStyle};

pub static GEMMA3: Architecture = Architecture {
    name: "gemma3",
    classes: &[
        Class {
            name: "Gemma3ForCausalLM",
            defaults: &[DEFAULTS],
            facts: FACTS,
        },
        Class {
            name: "Gemma3ForConditionalGeneration",
            defaults: &[DEFAULTS],
            facts: FACTS,
        },
    ],
    tensor_metadata: &[],
    metadata: &[
        config::SIZES,
        config::HEADS,
        &[
            Rule::F32Unless0 {
                key: "final_logit_softcapping",
                from: &["final_logit_softcapping"],
            },
            Rule::With(config::window_entries),
        ],
    ],
    tokenizer: TokenizerHabit {
        no_space_prefix: true,
        ..TokenizerHabit::PLAIN
    },
    text_part: Some(TextPart {
        infix: "language_model.",
        other_prefixes: &[
            "vision_tower.",
            "multi_modal_projector.",
            "model.vision_tower.",
            "model.multi_modal_projector.",
        ],
    }),
    tensors: &[
        ROWS,
        gemma2::NORM_ROWS,
        &attention::rows(Transform::None, Transform::None),
        &attention::head_norm_rows(Transform::AddOne),
        feed_forward::ROWS,
    ],
    choices: Choices {
        rope_style: Some(RopeStyle::NeoX),
        activation: Activation::GeluTanh,
        scaled_embeddings: true,
        // The 27B model divides by its width per head, not by the length of its heads.
        attention_scale: AttentionScale::WidthAt { n_layers: 62 },
        scales_queries: true,
        window: Some(WindowChoice {
            // Every sixth layer has full attention.
            pattern: 6,
            length: None,
            freq_base: Some(10000.0),
            stretched: false,
        }),
        ..LLAMA_CHOICES
    },
};

const DEFAULTS: &[(&str, Fallback)] = &[
    ("vocab_size", Fallback::Integer(262208)),
    ("hidden_size", Fallback::Integer(2304)),
    ("intermediate_size", Fallback::Integer(9216)),
    ("num_hidden_layers", Fallback::Integer(26)),
    ("num_attention_heads", Fallback::Integer(8)),
    ("num_key_value_heads", Fallback::Integer(4)),
    ("head_dim", Fallback::Integer(256)),
    ("max_position_embeddings", Fallback::Integer(131072)),
    ("rms_norm_eps", Fallback::Float(1e-6)),
    ("rope_theta", Fallback::Float(1e6)),
    ("rope_local_base_freq", Fallback::Float(10000.0)),
    ("sliding_window", Fallback::Integer(4096)),
    ("tie_word_embeddings", Fallback::Bool(true)),
];

/// The embeddings may have more rows than the vocabulary.
const ROWS: &[TensorRow] = &[
    row(Slot::TokenEmbd, "model.embed_tokens.weight").transformed(Transform::FirstRows),
    row(Slot::Output, "lm_head.weight")
        .transformed(Transform::FirstRows)
        .optional(),
];

/// What the configuration may say that becomes no metadata.
const FACTS: &[Fact] = &[
    GELU_TANH,
    WHOLE_HEADS,
    NO_ATTENTION_CAP,
    ONE_DIRECTION,
    QUERY_SCALE,
];
