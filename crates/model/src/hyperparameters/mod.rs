//! The facts of one model, read from metadata and validated: what passes here cannot overflow later.

mod keys;
mod pooling;
mod rope_overrides;

use crate::ModelError;
use crate::arch::{self, Architecture, AttentionScale, Norm};
use crate::tensors::Slot;
use gristmill_gguf::Metadata;
use keys::Keys;
pub use pooling::Pooling;

pub use rope_overrides::{RopeOverrides, RopeScalingKind};

/// Most layers a model may have, as in the reference.
pub const MAX_LAYERS: usize = 512;
const MAX_HEADS: usize = 1 << 12;
const MAX_HEAD_LENGTH: usize = 1 << 14;
const MAX_WIDTH: usize = 1 << 22;
const MAX_EXPERTS: usize = 1 << 10;
const MAX_VOCABULARY: usize = 1 << 26;
const MAX_TOKEN_TYPES: usize = 1 << 16;

/// The facts of one model.
#[derive(Clone, Debug)]
pub struct Hyperparameters {
    /// Its architecture, with the choices all models of it share.
    pub architecture: &'static Architecture,
    /// Number of tokens, rows of the embedding matrix.
    pub n_vocab: usize,
    /// Context length of the training, in tokens.
    pub n_context_train: usize,
    /// Width of the residual stream.
    pub n_embd: usize,
    /// Length of a query or key head.
    pub key_length: usize,
    /// Length of a value head.
    pub value_length: usize,
    /// Leading dimensions of a head that are rotated.
    pub n_rot: usize,
    /// Added to the mean square or variance in norms.
    pub norm_epsilon: f32,
    /// Factor on query-key products.
    pub attention_scale: f32,
    /// Factor on the token embeddings; 1 leaves them.
    pub embedding_scale: f32,
    /// Factor on what attention and the feed-forward part add to the residual stream; 1 leaves it.
    pub residual_scale: f32,
    /// Factor on the logits; 1 leaves them.
    pub logit_scale: f32,
    /// Scores of attention become `cap * tanh(score / cap)`.
    pub attention_softcap: Option<f32>,
    /// Logits become `cap * tanh(logits / cap)`.
    pub final_softcap: Option<f32>,
    /// Whether a token sees no later one.
    pub causal: bool,
    /// How the rows of a sequence become one, where the model says it.
    pub pooling: Option<Pooling>,
    /// Rows of the embeddings of token types.
    pub n_token_types: usize,
    /// Results of a classifier.
    pub n_labels: usize,
    /// Whether a classifier's results have names.
    pub has_labels: bool,
    /// Positions a windowed layer looks back to, itself included.
    pub window: Option<usize>,
    /// Whether queries and keys are rotated.
    pub rotates: bool,
    /// Rotation in layers with full attention.
    pub rope: RopeParameters,
    /// Rotation in windowed layers.
    pub window_rope: RopeParameters,
    /// The experts that the feed-forward part is divided among.
    pub experts: Option<ExpertHyperparameters>,
    /// Each layer's own facts.
    pub layers: Vec<LayerHyperparameters>,
}

/// What may differ from layer to layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LayerHyperparameters {
    /// Query heads.
    pub n_head: usize,
    /// Key and value heads; divides `n_head`.
    pub n_head_kv: usize,
    /// Width of the feed-forward part.
    pub n_ff: usize,
    /// Whether attention is limited to the window.
    pub windowed: bool,
}

/// The experts of a layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ExpertHyperparameters {
    /// Their number.
    pub n_experts: usize,
    /// How many a token takes.
    pub n_used: usize,
    /// Width of each one's feed-forward part; none where it is the layer's `n_ff`.
    pub n_ff: Option<usize>,
    /// Whether the weights of a token's experts are divided by their sum.
    pub normalized: bool,
    /// Factor on the weights.
    pub scale: f32,
}

/// How positions become angles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RopeParameters {
    /// Base of the geometric series of frequencies.
    pub freq_base: f32,
    /// How the positions are stretched beyond the original context.
    pub scaling: RopeScaling,
    /// Factor on sine and cosine, `rope.scaling.attn_factor`.
    pub attention_factor: f32,
    /// Context length before it was stretched; that of the training where none is stated.
    pub original_context: usize,
}

/// How positions are stretched.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RopeScaling {
    /// Not at all.
    None,
    /// All frequencies are divided.
    Linear {
        /// The divisor.
        factor: f32,
    },
    /// YaRN: low frequencies are divided, high ones kept.
    Yarn {
        /// The divisor of low frequencies.
        factor: f32,
        /// Weight of the extrapolated angles.
        extrapolation_factor: f32,
        /// Rotations within the original context above which frequencies are kept.
        beta_fast: f32,
        /// Rotations within the original context below which frequencies are divided.
        beta_slow: f32,
        /// Factor on sine and cosine, `0.1 ln(factor) + 1` where the model does not say.
        magnitude: f32,
    },
}

impl Hyperparameters {
    /// Reads and validates the hyperparameters of a model file.
    ///
    /// # Errors
    /// Metadata of something other than a model, an unknown architecture, a missing key, a key of another type or
    /// a value out of range, each naming the key.
    pub fn from_metadata(metadata: &Metadata) -> Result<Self, ModelError> {
        let architecture = architecture_of(metadata)?;
        let keys = Keys {
            metadata,
            prefix: architecture.name,
        };
        let n_layers = keys.required("block_count", MAX_LAYERS)?;
        let n_embd = keys.required("embedding_length", MAX_WIDTH)?;
        let window = keys.window(architecture)?;
        let layers = keys.layers(n_layers, window.is_some(), architecture)?;
        let experts = keys.experts(&layers, architecture)?;
        let n_head = layers[0].n_head;
        let (key_length, value_length) = keys.head_lengths(n_embd, n_head)?;
        let n_rot = keys.rotated(key_length, architecture)?;
        let rope = keys.rope()?;
        let norm_epsilon = match architecture.choices.norm {
            Norm::Rms => "attention.layer_norm_rms_epsilon",
            Norm::Layer => "attention.layer_norm_epsilon",
        };
        let attention_scale = match architecture.choices.attention_scale {
            AttentionScale::WidthAt { n_layers: wide } if wide == n_layers => n_embd / n_head,
            AttentionScale::WidthAt { .. } | AttentionScale::KeyLength => key_length,
        };
        let n_labels = keys.labels()?;
        Ok(Self {
            architecture,
            n_vocab: keys.vocabulary()?,
            n_context_train: keys.required("context_length", u32::MAX as usize)?,
            n_embd,
            key_length,
            value_length,
            n_rot,
            norm_epsilon: keys.required_float(norm_epsilon, 0.0..=1.0)?,
            attention_scale: keys
                .float("attention.scale", f32::MIN_POSITIVE..=f32::MAX)?
                .unwrap_or(1.0 / (attention_scale as f32).sqrt()),
            embedding_scale: if architecture.choices.scaled_embeddings {
                (n_embd as f32).sqrt()
            } else {
                keys.multiplier("embedding_scale", architecture)?
            },
            residual_scale: keys.multiplier("residual_scale", architecture)?,
            // The reference divides by it.
            logit_scale: 1.0 / keys.multiplier("logit_scale", architecture)?,
            attention_softcap: match architecture.choices.attention_softcap {
                Some(default) => keys.softcap("attn_logit_softcapping", Some(default))?,
                None => None,
            },
            final_softcap: keys.softcap(
                "final_logit_softcapping",
                architecture.choices.final_softcap,
            )?,
            causal: keys.causal()?,
            pooling: keys.pooling()?,
            n_token_types: keys.token_types()?,
            n_labels: n_labels.unwrap_or(1),
            has_labels: n_labels.is_some(),
            window,
            rotates: keys.rotates(architecture)?,
            rope,
            window_rope: keys.window_rope(&rope, architecture)?,
            experts,
            layers,
        })
    }

    /// Number of layers.
    pub fn n_layers(&self) -> usize {
        self.layers.len()
    }

    /// The most positions that the model has a place for; none where every position has one.
    pub fn max_positions(&self) -> Option<usize> {
        let has_table = self.architecture.has(Slot::PositionEmbd);
        has_table.then_some(self.n_context_train)
    }

    /// The rotation of a layer.
    pub fn rope_of(&self, layer: usize) -> &RopeParameters {
        match self.layers.get(layer) {
            Some(layer) if layer.windowed => &self.window_rope,
            _ => &self.rope,
        }
    }

    /// The window of a layer, if it has one.
    pub fn window_of(&self, layer: usize) -> Option<usize> {
        self.layers
            .get(layer)
            .filter(|layer| layer.windowed)
            .and(self.window)
    }
}

fn architecture_of(metadata: &Metadata) -> Result<&'static Architecture, ModelError> {
    // It only describes: a value that is no text tells nothing, and is no reason to refuse the file.
    let kind = metadata.str("general.type").ok().flatten();
    let kind = kind.unwrap_or("model");
    let name = metadata.required_str("general.architecture")?;
    let (kind, remedy) = match (kind, name) {
        ("adapter", _) => (
            "an adapter",
            "give the base model and load this file beside it",
        ),
        ("imatrix", _) => ("an importance matrix", "give it to quantize with --imatrix"),
        ("mmproj", _) | (_, "clip") => (
            "a multimodal projector",
            "give the text model and load this file beside it",
        ),
        _ => return arch::architecture(name).ok_or_else(|| arch::unknown(name, arch::names())),
    };
    Err(ModelError::NotAModel { kind, remedy })
}
