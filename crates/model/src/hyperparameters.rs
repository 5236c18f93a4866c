//! The facts of one model, read from metadata and validated: what passes here cannot overflow later.

use crate::ModelError;
use crate::arch::{self, Architecture, AttentionScale};
use gristmill_compute::Yarn;
use gristmill_gguf::{Metadata, Value};
use std::fmt::Display;

/// Most layers a model may have, as in the reference.
pub const MAX_LAYERS: usize = 512;
const MAX_HEADS: usize = 1 << 12;
const MAX_HEAD_LENGTH: usize = 1 << 14;
const MAX_WIDTH: usize = 1 << 22;
const MAX_VOCABULARY: usize = 1 << 26;

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
    /// Added to the mean square in RMS norms.
    pub norm_epsilon: f32,
    /// Factor on query-key products.
    pub attention_scale: f32,
    /// Factor on the token embeddings; 1 leaves them.
    pub embedding_scale: f32,
    /// Logits become `cap * tanh(logits / cap)`.
    pub final_softcap: Option<f32>,
    /// Positions a windowed layer looks back to, itself included.
    pub window: Option<usize>,
    /// Rotation in layers with full attention.
    pub rope: RopeParameters,
    /// Rotation in windowed layers.
    pub window_rope: RopeParameters,
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

/// How positions become angles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RopeParameters {
    /// Base of the geometric series of frequencies.
    pub freq_base: f32,
    /// How the positions are stretched beyond the original context.
    pub scaling: RopeScaling,
    /// Factor on sine and cosine, `rope.scaling.attn_factor`.
    pub attention_factor: f32,
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
        /// Context length before the stretch.
        original_context: usize,
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
        let window = match architecture.choices.window {
            Some(_) => keys
                .optional("attention.sliding_window", u32::MAX as usize)?
                .filter(|&window| window > 0),
            None => None,
        };
        let layers = keys.layers(n_layers, window.is_some(), architecture)?;
        let n_head = layers[0].n_head;
        let (key_length, value_length) = keys.head_lengths(n_embd, n_head)?;
        let n_rot = keys.rotated(key_length, architecture)?;
        let rope = keys.rope()?;
        let attention_scale = match architecture.choices.attention_scale {
            AttentionScale::WidthAt { n_layers: wide } if wide == n_layers => n_embd / n_head,
            AttentionScale::WidthAt { .. } | AttentionScale::KeyLength => key_length,
        };
        Ok(Self {
            architecture,
            n_vocab: keys.vocabulary()?,
            n_context_train: keys.required("context_length", u32::MAX as usize)?,
            n_embd,
            key_length,
            value_length,
            n_rot,
            norm_epsilon: keys.required_float("attention.layer_norm_rms_epsilon", 0.0..=1.0)?,
            attention_scale: keys
                .float("attention.scale", f32::MIN_POSITIVE..=f32::MAX)?
                .unwrap_or(1.0 / (attention_scale as f32).sqrt()),
            embedding_scale: if architecture.choices.scaled_embeddings {
                (n_embd as f32).sqrt()
            } else {
                1.0
            },
            final_softcap: keys
                .float("final_logit_softcapping", 0.0..=f32::MAX)?
                .filter(|&cap| cap > 0.0),
            window,
            rope,
            window_rope: match architecture.choices.window {
                Some(choice) => RopeParameters {
                    freq_base: keys
                        .float("rope.freq_base_swa", 1.0..=f32::MAX)?
                        .unwrap_or(choice.freq_base),
                    scaling: RopeScaling::None,
                    attention_factor: 1.0,
                },
                None => rope,
            },
            layers,
        })
    }

    /// Number of layers.
    pub fn n_layers(&self) -> usize {
        self.layers.len()
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
    let kind = metadata.str("general.type")?.unwrap_or("model");
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

/// Reads keys below an architecture's prefix.
struct Keys<'a> {
    metadata: &'a Metadata,
    prefix: &'static str,
}

impl Keys<'_> {
    fn key(&self, suffix: &str) -> String {
        format!("{}.{suffix}", self.prefix)
    }

    fn refused(&self, suffix: &str, value: impl Display, reason: impl Into<String>) -> ModelError {
        ModelError::Hyperparameter {
            key: self.key(suffix),
            value: value.to_string(),
            reason: reason.into(),
        }
    }

    fn checked(
        &self,
        suffix: &str,
        value: u32,
        range: std::ops::RangeInclusive<usize>,
    ) -> Result<usize, ModelError> {
        usize::try_from(value)
            .ok()
            .filter(|value| range.contains(value))
            .ok_or_else(|| {
                self.refused(
                    suffix,
                    value,
                    format!("must be from {} to {}", range.start(), range.end()),
                )
            })
    }

    fn required(&self, suffix: &str, max: usize) -> Result<usize, ModelError> {
        let value = self.metadata.required_u32(&self.key(suffix))?;
        self.checked(suffix, value, 1..=max)
    }

    fn optional(&self, suffix: &str, max: usize) -> Result<Option<usize>, ModelError> {
        let value = self.metadata.u32(&self.key(suffix))?;
        value
            .map(|value| self.checked(suffix, value, 0..=max))
            .transpose()
    }

    fn float(
        &self,
        suffix: &str,
        range: std::ops::RangeInclusive<f32>,
    ) -> Result<Option<f32>, ModelError> {
        let Some(value) = self.metadata.f32(&self.key(suffix))? else {
            return Ok(None);
        };
        if range.contains(&value) {
            return Ok(Some(value));
        }
        Err(self.refused(
            suffix,
            value,
            format!("must be from {:e} to {:e}", range.start(), range.end()),
        ))
    }

    fn required_float(
        &self,
        suffix: &str,
        range: std::ops::RangeInclusive<f32>,
    ) -> Result<f32, ModelError> {
        let missing = || gristmill_gguf::Error::MissingKey {
            key: self.key(suffix),
        };
        Ok(self.float(suffix, range)?.ok_or_else(missing)?)
    }

    /// A number for each layer, from a scalar or an array.
    fn per_layer(
        &self,
        suffix: &str,
        n_layers: usize,
        max: usize,
    ) -> Result<Option<Vec<usize>>, ModelError> {
        let key = self.key(suffix);
        let values = match self.metadata.get(&key) {
            None => return Ok(None),
            Some(Value::Array(_)) => self.metadata.u32s(&key)?.unwrap_or_default(),
            Some(_) => vec![self.metadata.required_u32(&key)?; n_layers],
        };
        if values.len() != n_layers {
            let reason = format!("the model has {n_layers} layers");
            return Err(self.refused(suffix, format!("an array of {}", values.len()), reason));
        }
        let checked = values
            .into_iter()
            .map(|value| self.checked(suffix, value, 1..=max));
        checked.collect::<Result<_, _>>().map(Some)
    }

    fn layers(
        &self,
        n_layers: usize,
        has_window: bool,
        architecture: &Architecture,
    ) -> Result<Vec<LayerHyperparameters>, ModelError> {
        let missing = |suffix| gristmill_gguf::Error::MissingKey {
            key: self.key(suffix),
        };
        let (head_count, width) = ("attention.head_count", "feed_forward_length");
        let n_head = self
            .per_layer(head_count, n_layers, MAX_HEADS)?
            .ok_or_else(|| missing(head_count))?;
        let n_ff = self
            .per_layer(width, n_layers, MAX_WIDTH)?
            .ok_or_else(|| missing(width))?;
        let kv = "attention.head_count_kv";
        let n_head_kv = self
            .per_layer(kv, n_layers, MAX_HEADS)?
            .unwrap_or_else(|| n_head.clone());
        let windowed = if has_window {
            self.windowed(n_layers, architecture)?
        } else {
            vec![false; n_layers]
        };
        if let Some(layer) =
            (0..n_layers).find(|&layer| !n_head[layer].is_multiple_of(n_head_kv[layer]))
        {
            let reason = format!(
                "layer {layer} has {} heads, which it must divide",
                n_head[layer]
            );
            return Err(self.refused(kv, n_head_kv[layer], reason));
        }
        let layers = (0..n_layers).map(|layer| LayerHyperparameters {
            n_head: n_head[layer],
            n_head_kv: n_head_kv[layer],
            n_ff: n_ff[layer],
            windowed: windowed[layer],
        });
        Ok(layers.collect())
    }

    /// Which layers are windowed: stated one by one, or all but every n-th.
    fn windowed(
        &self,
        n_layers: usize,
        architecture: &Architecture,
    ) -> Result<Vec<bool>, ModelError> {
        let suffix = "attention.sliding_window_pattern";
        let key = self.key(suffix);
        if let Some(Value::Array(_)) = self.metadata.get(&key) {
            let layers = self.metadata.bools(&key)?.unwrap_or_default();
            if layers.len() != n_layers {
                let reason = format!("the model has {n_layers} layers");
                return Err(self.refused(suffix, format!("an array of {}", layers.len()), reason));
            }
            return Ok(layers);
        }
        let default = architecture
            .choices
            .window
            .map_or(1, |choice| choice.pattern);
        let pattern = self.optional(suffix, u32::MAX as usize)?.unwrap_or(default);
        Ok((0..n_layers)
            .map(|layer| pattern == 0 || layer % pattern < pattern - 1)
            .collect())
    }

    fn head_lengths(&self, n_embd: usize, n_head: usize) -> Result<(usize, usize), ModelError> {
        let length = |suffix| match self.optional(suffix, MAX_HEAD_LENGTH)? {
            Some(0) => Err(self.refused(suffix, 0, "must not be 0")),
            Some(length) => Ok(length),
            None if !n_embd.is_multiple_of(n_head) => {
                let reason = format!(
                    "is not divisible by {n_head} heads, and {} is missing",
                    self.key(suffix)
                );
                Err(self.refused("embedding_length", n_embd, reason))
            }
            None => Ok(n_embd / n_head),
        };
        Ok((
            length("attention.key_length")?,
            length("attention.value_length")?,
        ))
    }

    fn rotated(&self, key_length: usize, architecture: &Architecture) -> Result<usize, ModelError> {
        let suffix = "rope.dimension_count";
        let n_rot = self
            .optional(suffix, MAX_HEAD_LENGTH)?
            .unwrap_or(key_length);
        if architecture.choices.rotates_whole_heads && n_rot != key_length {
            return Err(self.refused(
                suffix,
                n_rot,
                format!("must equal the head length {key_length}"),
            ));
        }
        if n_rot == 0 || !n_rot.is_multiple_of(2) || n_rot > key_length {
            return Err(self.refused(
                suffix,
                n_rot,
                format!("must be even and from 2 to the head length {key_length}"),
            ));
        }
        Ok(n_rot)
    }

    fn rope(&self) -> Result<RopeParameters, ModelError> {
        let factor = match self.float("rope.scaling.factor", 0.0..=f32::MAX)? {
            Some(factor) => Some(factor),
            None => self.float("rope.scale_linear", 0.0..=f32::MAX)?,
        };
        // The reference writes 0 for "not stretched".
        let factor = factor.filter(|&factor| factor > 0.0).unwrap_or(1.0);
        let suffix = "rope.scaling.type";
        let scaling = match self.metadata.str(&self.key(suffix))?.unwrap_or("linear") {
            "none" => RopeScaling::None,
            "linear" if factor == 1.0 => RopeScaling::None,
            "linear" => RopeScaling::Linear { factor },
            "yarn" => self.yarn(factor)?,
            other => {
                return Err(self.refused(
                    suffix,
                    format!("`{other}`"),
                    "must be none, linear or yarn",
                ));
            }
        };
        Ok(RopeParameters {
            freq_base: self
                .float("rope.freq_base", 1.0..=f32::MAX)?
                .unwrap_or(10000.0),
            scaling,
            attention_factor: self
                .float("rope.scaling.attn_factor", 0.0..=f32::MAX)?
                .unwrap_or(1.0),
        })
    }

    fn yarn(&self, factor: f32) -> Result<RopeScaling, ModelError> {
        let context = self.required("context_length", u32::MAX as usize)?;
        let original = self.optional("rope.scaling.original_context_length", u32::MAX as usize)?;
        Ok(RopeScaling::Yarn {
            factor,
            original_context: original.filter(|&length| length > 0).unwrap_or(context),
            extrapolation_factor: self
                .float("rope.scaling.yarn_ext_factor", 0.0..=f32::MAX)?
                .unwrap_or(1.0),
            beta_fast: self
                .float("rope.scaling.yarn_beta_fast", f32::MIN_POSITIVE..=f32::MAX)?
                .unwrap_or(32.0),
            beta_slow: self
                .float("rope.scaling.yarn_beta_slow", f32::MIN_POSITIVE..=f32::MAX)?
                .unwrap_or(1.0),
            magnitude: self
                .float("rope.scaling.yarn_attn_factor", 0.0..=f32::MAX)?
                .unwrap_or_else(|| Yarn::magnitude(factor)),
        })
    }

    /// Number of tokens: those that are listed; the stated number only counts for a model without a vocabulary.
    fn vocabulary(&self) -> Result<usize, ModelError> {
        let tokens = "tokenizer.ggml.tokens";
        match self.metadata.array(tokens)? {
            Some(list) if (1..=MAX_VOCABULARY).contains(&list.len()) => Ok(list.len()),
            Some(list) => Err(ModelError::Hyperparameter {
                key: tokens.to_owned(),
                value: format!("an array of {}", list.len()),
                reason: format!("must have from 1 to {MAX_VOCABULARY} tokens"),
            }),
            None => self.required("vocab_size", MAX_VOCABULARY),
        }
    }
}
