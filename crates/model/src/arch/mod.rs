//! The registry of architectures: one file each, one line each.

mod bert;
mod gemma2;
mod gemma3;
mod gpt2;
mod granite;
mod llama;
mod olmo2;
mod phi3;
mod qwen2;
mod qwen3;
mod qwen3moe;
mod starcoder2;

use crate::ModelError;
use crate::config::{Fact, Fallback, Rule};
use crate::tensors::{Slot, Source, TensorRow};
use gristmill_compute::{Activation, RopeStyle};

/// Every architecture, in alphabetical order.
pub static ARCHITECTURES: &[&Architecture] = &[
    &bert::BERT,
    &gemma2::GEMMA2,
    &gemma3::GEMMA3,
    &gpt2::GPT2,
    &granite::GRANITE,
    &llama::LLAMA,
    &olmo2::OLMO2,
    &phi3::PHI3,
    &qwen2::QWEN2,
    &qwen3::QWEN3,
    &qwen3moe::QWEN3MOE,
    &starcoder2::STARCODER2,
];

/// An architecture, as data.
pub struct Architecture {
    /// `general.architecture`, the prefix of its keys.
    pub name: &'static str,
    /// The Hugging Face classes that convert to it.
    pub classes: &'static [Class],
    /// Entries that belong to computed tensors: conversion writes them right behind the architecture's name.
    pub tensor_metadata: &'static [Rule],
    /// Entries that conversion writes behind what describes the model, in groups.
    pub metadata: &'static [&'static [Rule]],
    /// What its tokenizer entries need beyond the tokenizer's files.
    pub tokenizer: TokenizerHabit,
    /// What its checkpoints may have around the names of the text model.
    pub text_part: Option<TextPart>,
    /// The tensor table, in groups.
    pub tensors: &'static [&'static [TensorRow]],
    /// What its graph does where architectures differ.
    pub choices: Choices,
}

/// Tokenizer entries that conversion writes beyond those of the tokenizer's files.
#[derive(Clone, Copy, Debug, Default)]
pub struct TokenizerHabit {
    /// Whether `add_space_prefix` is written as `tokenizer_config.json` says.
    pub space_prefix_as_configured: bool,
    /// Whether `add_space_prefix` is false for SentencePiece.
    pub no_space_prefix: bool,
    /// Entries that vocabularies of some sizes need, by number of tokens. Keys are below `tokenizer.ggml.`.
    pub by_size: &'static [(usize, &'static [(&'static str, HabitValue)])],
}

/// The value of an entry that a [`TokenizerHabit`] writes.
#[derive(Clone, Copy, Debug)]
pub enum HabitValue {
    /// A token.
    Id(u32),
    /// A truth value.
    Bool(bool),
}

impl TokenizerHabit {
    /// Nothing beyond the tokenizer's files.
    pub const PLAIN: Self = Self {
        space_prefix_as_configured: false,
        no_space_prefix: false,
        by_size: &[],
    };
}

/// Names in checkpoints that hold more than the text model, or whose names have a prefix in some generations only.
#[derive(Clone, Copy, Debug)]
pub struct TextPart {
    /// What names of the text model may have more than its table says.
    pub infix: &'static str,
    /// What names of other parts begin with.
    pub other_prefixes: &'static [&'static str],
}

/// A Hugging Face model class.
pub struct Class {
    /// Its name in `architectures` of `config.json`.
    pub name: &'static str,
    /// What its configuration means where `config.json` is silent, in groups.
    pub defaults: &'static [&'static [(&'static str, Fallback)]],
    /// What its configuration may say that becomes no metadata.
    pub facts: &'static [Fact],
}

/// What a graph does where architectures differ.
#[derive(Clone, Copy, Debug)]
pub struct Choices {
    /// Which dimensions of a head are rotated together; none where positions are not told by rotation.
    pub rope_style: Option<RopeStyle>,
    /// Whether heads must be rotated whole.
    pub rotates_whole_heads: bool,
    /// Which norms the blocks have.
    pub norm: Norm,
    /// Activation of the feed-forward part: of its gate, where it has one.
    pub activation: Activation,
    /// Whether embeddings are multiplied by the root of their width.
    pub scaled_embeddings: bool,
    /// Where the scale of attention comes from.
    pub attention_scale: AttentionScale,
    /// Whether llama.cpp scales the queries in place of the scores.
    pub scales_queries: bool,
    /// Whether metadata may turn rotation off.
    pub rotation_can_be_off: bool,
    /// Whether metadata may scale embeddings, what joins the residual stream, and logits.
    pub multipliers: bool,
    /// The cap of attention's scores where the metadata has none; without one here, scores are never capped.
    pub attention_softcap: Option<f32>,
    /// The cap of logits where the metadata has none.
    pub final_softcap: Option<f32>,
    /// Whether the scores of a classifier are shares of 1.
    pub scores_are_shares: bool,
    /// Experts, where the architecture may have them.
    pub experts: Option<ExpertChoice>,
    /// Sliding windows, where the architecture has them. Others ignore a window in the metadata.
    pub window: Option<WindowChoice>,
}

/// A kind of norm. Its epsilon has a key of its own in the metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Norm {
    /// By the root of the mean square; `attention.layer_norm_rms_epsilon`.
    Rms,
    /// By mean and variance, with a bias where there is one; `attention.layer_norm_epsilon`.
    Layer,
}

/// Where the scale of query-key products comes from, unless `attention.scale` gives it.
#[derive(Clone, Copy, Debug)]
pub enum AttentionScale {
    /// `1 / sqrt(key_length)`
    KeyLength,
    /// `1 / sqrt(n_embd / n_head)` in the model of this many layers, else as `KeyLength`.
    WidthAt {
        /// Layers of that model.
        n_layers: usize,
    },
}

/// Sliding windows, where the metadata does not say.
#[derive(Clone, Copy, Debug)]
pub struct WindowChoice {
    /// Every layer is windowed but each `pattern`-th.
    pub pattern: usize,
    /// Positions that windowed layers look back to; without a number here there are none.
    pub length: Option<usize>,
    /// RoPE base of windowed layers; without a number here it is that of all layers.
    pub freq_base: Option<f32>,
    /// Whether the rotation of windowed layers is stretched as that of others.
    pub stretched: bool,
}

/// What experts do.
#[derive(Clone, Copy, Debug)]
pub struct ExpertChoice {
    /// Whether every model of the architecture has them.
    pub always: bool,
    /// Whether their width is not that of the layer.
    pub own_width: bool,
    /// Whether the weights of a token's experts are divided by their sum.
    pub normalized: bool,
}

/// The choices of Llama, which most others share.
const LLAMA_CHOICES: Choices = Choices {
    rope_style: Some(RopeStyle::Normal),
    rotates_whole_heads: false,
    norm: Norm::Rms,
    activation: Activation::Silu,
    scaled_embeddings: false,
    attention_scale: AttentionScale::KeyLength,
    scales_queries: false,
    rotation_can_be_off: false,
    multipliers: false,
    attention_softcap: None,
    final_softcap: None,
    scores_are_shares: false,
    experts: None,
    window: None,
};

impl Class {
    /// Whether its configuration has a meaning of its own where this key is missing: then the key is a name of its own.
    pub(crate) fn knows(&self, key: &str) -> bool {
        let mut lines = self.defaults.iter().copied().flatten();
        lines.any(|(known, _)| *known == key)
    }
}

impl Architecture {
    /// Its entries, those of computed tensors first.
    pub(crate) fn rules(&self) -> impl Iterator<Item = &'static Rule> {
        let own = self.metadata.iter().copied().flatten();
        self.tensor_metadata.iter().chain(own)
    }

    /// Whether its tensor table has this slot.
    pub fn has(&self, slot: Slot) -> bool {
        self.tensors
            .iter()
            .copied()
            .flatten()
            .any(|row| row.slot == slot)
    }

    /// Whether its table names this tensor of a checkpoint, be it in this model or not.
    pub fn names(&self, name: &str) -> bool {
        let mut rows = self.tensors.iter().copied().flatten();
        rows.any(|row| matches!(row.source, Source::Checkpoint(known) if known == name))
    }

    /// The layer that a checkpoint's tensor is of by its name, be it one of the table or not.
    pub fn layer_of(&self, name: &str) -> Option<usize> {
        let mut rows = self.tensors.iter().copied().flatten();
        rows.find_map(|row| {
            let pattern = match row.source {
                Source::Checkpoint(pattern) => pattern,
                Source::Experts(source) => source.apart,
                Source::Computed(_) => return None,
            };
            let (start, _) = pattern.split_once("{}")?;
            let (layer, _) = name.strip_prefix(start)?.split_once('.')?;
            layer.parse().ok()
        })
    }
}

impl std::fmt::Debug for Class {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Class")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Architecture {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Architecture")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// The architecture of this `general.architecture`.
pub fn architecture(name: &str) -> Option<&'static Architecture> {
    ARCHITECTURES
        .iter()
        .copied()
        .find(|architecture| architecture.name == name)
}

/// The architecture and class of this Hugging Face class name.
pub fn architecture_of_config(class: &str) -> Option<(&'static Architecture, &'static Class)> {
    ARCHITECTURES.iter().find_map(|architecture| {
        architecture
            .classes
            .iter()
            .find(|known| known.name == class)
            .map(|class| (*architecture, class))
    })
}

/// All names of architectures.
pub fn names() -> Vec<&'static str> {
    ARCHITECTURES
        .iter()
        .map(|architecture| architecture.name)
        .collect()
}

/// All names of Hugging Face classes.
pub fn class_names() -> Vec<&'static str> {
    ARCHITECTURES
        .iter()
        .flat_map(|architecture| architecture.classes)
        .map(|class| class.name)
        .collect()
}

/// The error for a name that is not among `supported`.
pub(crate) fn unknown(name: &str, supported: Vec<&'static str>) -> ModelError {
    ModelError::UnknownArchitecture {
        name: name.to_owned(),
        supported: supported.join(", "),
    }
}
