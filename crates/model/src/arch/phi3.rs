//! Phi-3, Phi-3.5 and Phi-4.

use super::{Architecture, Choices, Class, LLAMA_CHOICES, TokenizerHabit};
use crate::ModelError;
use crate::config::{
    self, ALL_HEADS, Config, Entries, Fact, Fallback, NO_ATTENTION_BIAS, NO_WINDOW, Rule, SILU,
};
use crate::decoder;
use crate::tensors::{Slot, TensorRow, computed, row};
use gristmill_compute::RopeStyle;

pub static PHI3: Architecture = Architecture {
    name: "phi3",
    classes: &[Class {
        name: "Phi3ForCausalLM",
        defaults: &[DEFAULTS],
        facts: FACTS,
    }],
    tensor_metadata: &[Rule::With(config::attention_factor)],
    metadata: &[&[
        config::CONTEXT_LENGTH,
        Rule::With(original_context),
        config::EMBEDDING_LENGTH,
        config::FEED_FORWARD_LENGTH,
        config::BLOCK_COUNT,
        config::HEAD_COUNT,
        config::HEAD_COUNT_KV,
        config::RMS_EPSILON,
        Rule::With(config::partial_dimensions),
        Rule::With(config::rope_base),
        Rule::FileType,
        Rule::With(window),
    ]],
    tokenizer: TokenizerHabit::PLAIN,
    text_part: None,
    tensors: &[decoder::ROWS, ROWS],
    choices: Choices {
        rope_style: Some(RopeStyle::NeoX),
        scales_queries: true,
        ..LLAMA_CHOICES
    },
};

const DEFAULTS: &[(&str, Fallback)] = &[
    ("vocab_size", Fallback::Integer(32064)),
    ("hidden_size", Fallback::Integer(3072)),
    ("intermediate_size", Fallback::Integer(8192)),
    ("num_hidden_layers", Fallback::Integer(32)),
    ("num_attention_heads", Fallback::Integer(32)),
    ALL_HEADS,
    ("max_position_embeddings", Fallback::Integer(4096)),
    ("original_max_position_embeddings", Fallback::Integer(4096)),
    ("rms_norm_eps", Fallback::Float(1e-5)),
    ("rope_theta", Fallback::Float(10000.0)),
    ("partial_rotary_factor", Fallback::Float(1.0)),
    ("tie_word_embeddings", Fallback::Bool(false)),
];

/// Queries, keys and values in one matrix, gate and up in another.
const ROWS: &[TensorRow] = &[
    computed(Slot::RopeFactorsLong, config::long_factors),
    computed(Slot::RopeFactorsShort, config::short_factors),
    row(Slot::AttnQkv, "model.layers.{}.self_attn.qkv_proj.weight"),
    row(Slot::AttnOutput, "model.layers.{}.self_attn.o_proj.weight"),
    row(Slot::FfnGateUp, "model.layers.{}.mlp.gate_up_proj.weight"),
    row(Slot::FfnDown, "model.layers.{}.mlp.down_proj.weight"),
];

/// What the configuration may say that becomes no metadata. The window does, but the reference's runtime ignores it.
const FACTS: &[Fact] = &[SILU, NO_ATTENTION_BIAS, NO_WINDOW];

/// Where the divisors for long contexts begin.
fn original_context(config: &Config, entries: &mut Entries<'_>) -> Result<(), ModelError> {
    let original = config::original_context(config)?;
    entries.set("rope.scaling.original_context_length", original);
    Ok(())
}

/// The window; 0 tells the models that have none.
fn window(config: &Config, entries: &mut Entries<'_>) -> Result<(), ModelError> {
    let window = config.integer("sliding_window")?.unwrap_or(0);
    entries.set("attention.sliding_window", window);
    Ok(())
}
