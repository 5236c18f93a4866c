//! Rotation as somebody asks for it, in place of what the file says.

use super::{Hyperparameters, RopeScaling};
use gristmill_compute::Yarn;

/// What replaces the file's own rotation; nothing keeps it. Windowed layers keep theirs, as in the reference.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RopeOverrides {
    /// How positions are stretched.
    pub scaling: Option<RopeScalingKind>,
    /// Base of the frequencies.
    pub freq_base: Option<f32>,
    /// Factor on the frequencies, 1 over the stretch.
    pub freq_scale: Option<f32>,
    /// Context length before the stretch.
    pub original_context: Option<usize>,
    /// YaRN's weight of the extrapolated angles; above 0 the stretch is YaRN's, of whichever kind it is.
    pub extrapolation_factor: Option<f32>,
    /// YaRN's factor on sine and cosine.
    pub magnitude: Option<f32>,
    /// Rotations within the original context above which YaRN keeps frequencies.
    pub beta_fast: Option<f32>,
    /// Rotations within the original context below which YaRN divides them.
    pub beta_slow: Option<f32>,
}

/// A kind of stretch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RopeScalingKind {
    /// None.
    None,
    /// All frequencies are divided.
    Linear,
    /// Low frequencies are divided, high ones kept.
    Yarn,
}

/// Rotations above and below which YaRN does only one thing, where nobody says.
const BETAS: (f32, f32) = (32.0, 1.0);

impl Hyperparameters {
    /// Replaces the rotation, and with YaRN the context length that its stretch leads to. Numbers must be finite, those
    /// that are divided by above 0.
    pub fn override_rope(&mut self, asked: &RopeOverrides) {
        if *asked == RopeOverrides::default() {
            return;
        }
        let rope = &mut self.rope;
        let (of_file, factor) = match rope.scaling {
            RopeScaling::None => (RopeScalingKind::None, 1.0),
            RopeScaling::Linear { factor } => (RopeScalingKind::Linear, factor),
            RopeScaling::Yarn { factor, .. } => (RopeScalingKind::Yarn, factor),
        };
        // A file that stretches nothing is of the linear kind, with a factor of 1.
        let kind = asked.scaling.unwrap_or(match of_file {
            RopeScalingKind::None => RopeScalingKind::Linear,
            kind => kind,
        });
        let factor = match (kind, asked.freq_scale) {
            (RopeScalingKind::None, _) => 1.0,
            (_, Some(scale)) => 1.0 / scale,
            (_, None) => factor,
        };
        let (extrapolation, betas, magnitude) = match (kind, rope.scaling) {
            (
                RopeScalingKind::Yarn,
                RopeScaling::Yarn {
                    extrapolation_factor,
                    beta_fast,
                    beta_slow,
                    magnitude,
                    ..
                },
            ) => {
                // The file's magnitude belongs to its factor.
                let magnitude = asked.freq_scale.is_none().then_some(magnitude);
                (extrapolation_factor, (beta_fast, beta_slow), magnitude)
            }
            (RopeScalingKind::Yarn, _) => (1.0, BETAS, None),
            _ => (0.0, BETAS, None),
        };
        let extrapolation_factor = asked.extrapolation_factor.unwrap_or(extrapolation);
        rope.freq_base = asked.freq_base.unwrap_or(rope.freq_base);
        rope.original_context = asked.original_context.unwrap_or(rope.original_context);
        if extrapolation_factor > 0.0 {
            let usual = Yarn::magnitude(factor);
            rope.scaling = RopeScaling::Yarn {
                factor,
                extrapolation_factor,
                beta_fast: asked.beta_fast.unwrap_or(betas.0),
                beta_slow: asked.beta_slow.unwrap_or(betas.1),
                magnitude: asked.magnitude.or(magnitude).unwrap_or(usual),
            };
        } else {
            rope.scaling = match factor {
                1.0 => RopeScaling::None,
                factor => RopeScaling::Linear { factor },
            };
            rope.attention_factor *= asked.magnitude.unwrap_or(1.0);
        }
        if kind == RopeScalingKind::Yarn && asked.freq_scale.is_some() {
            let stretched = rope.original_context as f64 * f64::from(factor);
            self.n_context_train = stretched.clamp(1.0, f64::from(u32::MAX)) as usize;
        }
    }
}
