//! Gemma 3, the text model.

use super::{
    Architecture, AttentionScale, Choices, Class, LLAMA_CHOICES, TextPart, TokenizerHabit,
    WindowChoice,
};
use crate::ModelError;
use crate::block::{attention, feed_forward};
use crate::config::{
    self, Config, Entries, Fact, Fallback, GELU_TANH, NO_ATTENTION_CAP, ONE_DIRECTION, Otherwise,
    Rule, WHOLE_HEADS,
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
    metadata: &[
        Rule::F32Unless0 {
            key: "final_logit_softcapping",
            from: &["final_logit_softcapping"],
        },
        Rule::With(window),
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
        &attention::rows(Transform::None, Transform::None),
        &attention::head_norm_rows(Transform::AddOne),
        feed_forward::ROWS,
    ],
    choices: Choices {
        rope_style: Some(RopeStyle::NeoX),
        activation: Activation::GeluTanh,
        scaled_embeddings: true,
        // The 27B model divides by its width per head, not by the length of its heads.
        attention_scale: AttentionScale::WidthAt {
            n_layers: N_LAYERS_27B,
        },
        window: Some(WindowChoice {
            pattern: PATTERN,
            freq_base: 10000.0,
        }),
        ..LLAMA_CHOICES
    },
};

const N_LAYERS_27B: usize = 62;
/// Every sixth layer has full attention.
const PATTERN: usize = 6;

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

/// Norms are stored as their distance from 1, and the embeddings may have more rows than the vocabulary.
const ROWS: &[TensorRow] = &[
    row(Slot::TokenEmbd, "model.embed_tokens.weight").transformed(Transform::FirstRows),
    row(Slot::Output, "lm_head.weight")
        .transformed(Transform::FirstRows)
        .optional(),
    row(Slot::OutputNorm, "model.norm.weight").transformed(Transform::AddOne),
    row(Slot::AttnNorm, "model.layers.{}.input_layernorm.weight").transformed(Transform::AddOne),
    row(
        Slot::PostAttentionNorm,
        "model.layers.{}.post_attention_layernorm.weight",
    )
    .transformed(Transform::AddOne),
    row(
        Slot::FfnNorm,
        "model.layers.{}.pre_feedforward_layernorm.weight",
    )
    .transformed(Transform::AddOne),
    row(
        Slot::PostFfwNorm,
        "model.layers.{}.post_feedforward_layernorm.weight",
    )
    .transformed(Transform::AddOne),
];

/// What the configuration may say that becomes no metadata.
const FACTS: &[Fact] = &[
    GELU_TANH,
    WHOLE_HEADS,
    NO_ATTENTION_CAP,
    ONE_DIRECTION,
    Fact {
        key: "query_pre_attn_scalar",
        holds: |config, value| value.as_f64() == attention_divisor(config),
        otherwise: Otherwise::Refuse("the length of a head (in the 27B model, the width per head)"),
    },
];

/// The number under the root that products of queries and keys are divided by, where the configuration has it all.
fn attention_divisor(config: &Config) -> Option<f64> {
    let integer = |key| config.integer(key).ok().flatten();
    let divisor = if integer("num_hidden_layers")? as usize == N_LAYERS_27B {
        integer("hidden_size")?.checked_div(integer("num_attention_heads")?)?
    } else {
        integer("head_dim")?
    };
    Some(f64::from(divisor))
}

/// The window, and which layers have it where that is not what a loader assumes.
fn window(config: &Config, entries: &mut Entries<'_>) -> Result<(), ModelError> {
    let windowed = config::windowed_layers(config, PATTERN)?;
    if !windowed.contains(&true) {
        return Ok(());
    }
    if let Some(window) = config.integer("sliding_window")? {
        entries.set("attention.sliding_window", window);
        config::window_pattern(&windowed, PATTERN, entries);
    }
    Ok(())
}
