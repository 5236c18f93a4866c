//! Reading and checking single keys.

use super::{
    ExpertHyperparameters, LayerHyperparameters, MAX_EXPERTS, MAX_HEAD_LENGTH, MAX_HEADS,
    MAX_TOKEN_TYPES, MAX_VOCABULARY, MAX_WIDTH, Pooling, RopeParameters, RopeScaling,
};
use crate::ModelError;
use crate::arch::Architecture;
use gristmill_compute::Yarn;
use gristmill_gguf::{Metadata, Value};
use std::fmt::Display;
use std::ops::RangeInclusive;

/// Reads keys below an architecture's prefix.
pub(super) struct Keys<'a> {
    pub metadata: &'a Metadata,
    pub prefix: &'static str,
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
        range: RangeInclusive<usize>,
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

    pub fn required(&self, suffix: &str, max: usize) -> Result<usize, ModelError> {
        let value = self.metadata.required_u32(&self.key(suffix))?;
        self.checked(suffix, value, 1..=max)
    }

    pub fn optional(&self, suffix: &str, max: usize) -> Result<Option<usize>, ModelError> {
        let value = self.metadata.u32(&self.key(suffix))?;
        value
            .map(|value| self.checked(suffix, value, 0..=max))
            .transpose()
    }

    pub fn float(
        &self,
        suffix: &str,
        range: RangeInclusive<f32>,
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

    pub fn required_float(
        &self,
        suffix: &str,
        range: RangeInclusive<f32>,
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

    pub fn layers(
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

    /// How rows are pooled, where something is said.
    pub fn pooling(&self) -> Result<Option<Pooling>, ModelError> {
        let last = Pooling::ALL.len() - 1;
        let number = self.optional("pooling_type", last)?;
        Ok(number.and_then(|number| Some(Pooling::ALL.get(number)?.1)))
    }

    /// Rows of the embeddings of token types.
    pub fn token_types(&self) -> Result<usize, ModelError> {
        let key = "tokenizer.ggml.token_type_count";
        match self.metadata.u32(key)?.map(|n| n as usize) {
            None => Ok(1),
            Some(n) if (1..=MAX_TOKEN_TYPES).contains(&n) => Ok(n),
            Some(n) => Err(ModelError::Hyperparameter {
                key: key.to_owned(),
                value: n.to_string(),
                reason: format!("must be from 1 to {MAX_TOKEN_TYPES}"),
            }),
        }
    }

    /// Number of names of a classifier's results, where there are some.
    pub fn labels(&self) -> Result<Option<usize>, ModelError> {
        let suffix = "classifier.output_labels";
        let labels = self.metadata.strings(&self.key(suffix))?;
        let n_labels = labels.map(|labels| labels.len()).filter(|&n| n > 0);
        match n_labels {
            Some(n) if n > MAX_VOCABULARY => {
                let reason = format!("at most {MAX_VOCABULARY} are possible");
                Err(self.refused(suffix, format!("an array of {n}"), reason))
            }
            n_labels => Ok(n_labels),
        }
    }

    /// Whether attention is causal, as it is where nothing is said.
    pub fn causal(&self) -> Result<bool, ModelError> {
        Ok(self.metadata.bool_or(&self.key("attention.causal"), true)?)
    }

    /// The experts, where the feed-forward part is divided among such.
    pub fn experts(
        &self,
        layers: &[LayerHyperparameters],
        architecture: &Architecture,
    ) -> Result<Option<ExpertHyperparameters>, ModelError> {
        let suffix = "expert_count";
        let stated = self.metadata.u32(&self.key(suffix))?.unwrap_or(0);
        let Some(choice) = architecture.choices.experts else {
            // Its tensors would have other names and shapes.
            return match stated {
                0 => Ok(None),
                n_experts => Err(ModelError::Experts {
                    key: self.key(suffix),
                    n_experts,
                }),
            };
        };
        if stated == 0 && !choice.always {
            return Ok(None);
        }
        let n_experts = self.required(suffix, MAX_EXPERTS)?;
        let n_used = self.required("expert_used_count", n_experts)?;
        let n_ff = match choice.own_width {
            false => None,
            true => {
                let suffix = "expert_feed_forward_length";
                let stated = self.optional(suffix, MAX_WIDTH)?.filter(|&width| width > 0);
                // Without a width of their own they share the layer's.
                let shared = layers.first().map_or(0, |layer| layer.n_ff / n_used);
                let n_ff = stated.unwrap_or(shared);
                if n_ff == 0 {
                    return Err(self.refused(suffix, n_ff, "must not be 0"));
                }
                Some(n_ff)
            }
        };
        let scale = self.float("expert_weights_scale", 0.0..=f32::MAX)?;
        Ok(Some(ExpertHyperparameters {
            n_experts,
            n_used,
            n_ff,
            normalized: choice.normalized,
            // 0 stands for none, as in the reference.
            scale: scale.filter(|&scale| scale > 0.0).unwrap_or(1.0),
        }))
    }

    pub fn head_lengths(&self, n_embd: usize, n_head: usize) -> Result<(usize, usize), ModelError> {
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

    pub fn rotated(
        &self,
        key_length: usize,
        architecture: &Architecture,
    ) -> Result<usize, ModelError> {
        if architecture.choices.rope_style.is_none() {
            // Nothing is rotated.
            return Ok(key_length);
        }
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

    /// A factor that the metadata may state; 0 stands for none, as in the reference.
    pub fn multiplier(&self, suffix: &str, architecture: &Architecture) -> Result<f32, ModelError> {
        if !architecture.choices.multipliers {
            return Ok(1.0);
        }
        let factor = self.float(suffix, 0.0..=f32::MAX)?;
        let factor = factor.filter(|&factor| factor > 0.0).unwrap_or(1.0);
        match (1.0 / factor).is_finite() {
            true => Ok(factor),
            false => Err(self.refused(suffix, factor, "too small to divide by")),
        }
    }

    /// A cap of scores or logits; 0 stands for none.
    pub fn softcap(&self, suffix: &str, default: Option<f32>) -> Result<Option<f32>, ModelError> {
        let cap = self.float(suffix, 0.0..=f32::MAX)?.or(default);
        Ok(cap.filter(|&cap| cap > 0.0))
    }

    /// The window, where the architecture has one.
    pub fn window(&self, architecture: &Architecture) -> Result<Option<usize>, ModelError> {
        let Some(choice) = architecture.choices.window else {
            return Ok(None);
        };
        let window = self.optional("attention.sliding_window", u32::MAX as usize)?;
        Ok(window.or(choice.length).filter(|&window| window > 0))
    }

    /// Whether queries and keys are rotated.
    pub fn rotates(&self, architecture: &Architecture) -> Result<bool, ModelError> {
        if !architecture.choices.rotation_can_be_off {
            return Ok(true);
        }
        let key = self.key("rope.scaling.finetuned");
        Ok(self.metadata.bool_or(&key, true)?)
    }

    /// The rotation of windowed layers, from that of others.
    pub fn window_rope(
        &self,
        rope: &RopeParameters,
        architecture: &Architecture,
    ) -> Result<RopeParameters, ModelError> {
        let Some(choice) = architecture.choices.window else {
            return Ok(*rope);
        };
        let stated = self.float("rope.freq_base_swa", 1.0..=f32::MAX)?;
        let freq_base = stated.or(choice.freq_base).unwrap_or(rope.freq_base);
        Ok(match choice.stretched {
            true => RopeParameters { freq_base, ..*rope },
            false => RopeParameters {
                freq_base,
                scaling: RopeScaling::None,
                attention_factor: 1.0,
                ..*rope
            },
        })
    }

    pub fn rope(&self) -> Result<RopeParameters, ModelError> {
        let (suffix, factor) = match self.float("rope.scaling.factor", 0.0..=f32::MAX)? {
            Some(factor) => ("rope.scaling.factor", Some(factor)),
            None => (
                "rope.scale_linear",
                self.float("rope.scale_linear", 0.0..=f32::MAX)?,
            ),
        };
        // The reference writes 0 for "not stretched".
        let factor = factor.filter(|&factor| factor > 0.0).unwrap_or(1.0);
        if !(1.0 / factor).is_finite() {
            return Err(self.refused(suffix, factor, "too small to divide by"));
        }
        let suffix = "rope.scaling.type";
        let scaling = match self.metadata.str(&self.key(suffix))?.unwrap_or("linear") {
            "none" => RopeScaling::None,
            "linear" | "longrope" if factor == 1.0 => RopeScaling::None,
            "linear" | "longrope" => RopeScaling::Linear { factor },
            "yarn" => self.yarn(factor)?,
            other => {
                return Err(self.refused(
                    suffix,
                    format!("`{other}`"),
                    "must be none, linear, yarn or longrope",
                ));
            }
        };
        let context = self.required("context_length", u32::MAX as usize)?;
        let original = self.optional("rope.scaling.original_context_length", u32::MAX as usize)?;
        Ok(RopeParameters {
            freq_base: self
                .float("rope.freq_base", 1.0..=f32::MAX)?
                .unwrap_or(10000.0),
            original_context: original.filter(|&length| length > 0).unwrap_or(context),
            scaling,
            attention_factor: self
                .float("rope.scaling.attn_factor", 0.0..=f32::MAX)?
                .unwrap_or(1.0),
        })
    }

    fn yarn(&self, factor: f32) -> Result<RopeScaling, ModelError> {
        let extrapolation = self.float("rope.scaling.yarn_ext_factor", 0.0..=f32::MAX)?;
        let extrapolation_factor = extrapolation.unwrap_or(1.0);
        Ok(RopeScaling::Yarn {
            factor,
            extrapolation_factor,
            beta_fast: self
                .float("rope.scaling.yarn_beta_fast", f32::MIN_POSITIVE..=f32::MAX)?
                .unwrap_or(32.0),
            beta_slow: self
                .float("rope.scaling.yarn_beta_slow", f32::MIN_POSITIVE..=f32::MAX)?
                .unwrap_or(1.0),
            magnitude: self
                .float("rope.scaling.yarn_attn_factor", 0.0..=f32::MAX)?
                // Without extrapolation nothing is made up for, as in the reference.
                .unwrap_or_else(|| match extrapolation_factor {
                    0.0 => 1.0,
                    _ => Yarn::magnitude(factor),
                }),
        })
    }

    /// Number of tokens: those that are listed; the stated number only counts for a model without a vocabulary.
    pub fn vocabulary(&self) -> Result<usize, ModelError> {
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
