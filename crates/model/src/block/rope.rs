//! Rotary embeddings: parameters of a layer, and the tensor that Llama 3's scaling becomes.

use crate::config::{Config, rope_number};
use crate::hyperparameters::RopeScaling;
use crate::{Hyperparameters, ModelError};
use gristmill_compute::{Rope, Tensor, Yarn};
use std::f64::consts::TAU;

/// The rotation of a layer. `divisors` is `rope_freqs`, `[n_rot / 2]`; windowed layers do without.
pub(crate) fn of_layer(hparams: &Hyperparameters, layer: usize, divisors: Option<&Tensor>) -> Rope {
    let parameters = hparams.rope_of(layer);
    let (freq_scale, yarn) = match parameters.scaling {
        RopeScaling::None => (1.0, None),
        RopeScaling::Linear { factor } => (1.0 / factor, None),
        RopeScaling::Yarn { factor, original_context, extrapolation_factor, beta_fast, beta_slow, magnitude } => {
            let yarn = Yarn { ext_factor: extrapolation_factor, attn_factor: magnitude, beta_fast, beta_slow, original_context };
            (1.0 / factor, Some(yarn))
        }
    };
    Rope {
        style: hparams.architecture.choices.rope_style,
        n_dims: hparams.n_rot,
        freq_base: parameters.freq_base,
        freq_scale,
        yarn,
        factors: divisors.filter(|_| hparams.window_of(layer).is_none()).copied(),
        attn_factor: parameters.attention_factor,
    }
}

/// Divisors of the frequencies under Llama 3's scaling: 1 for short wavelengths, `factor` for long ones, in between
/// a blend that is linear in the number of rotations within the original context.
pub(crate) fn llama3_divisors(config: &Config, _: &Hyperparameters) -> Result<Option<Vec<f32>>, ModelError> {
    let rope = config.rope();
    let kind = rope.get("rope_type").and_then(|kind| kind.as_str());
    if !kind.is_some_and(|kind| kind.eq_ignore_ascii_case("llama3")) {
        return Ok(None);
    }
    let number = |key, default| rope_number(rope, key).map(|value| value.unwrap_or(default));
    let base = number("rope_theta", 10000.0)?;
    let factor = number("factor", 8.0)?;
    let low = number("low_freq_factor", 1.0)?;
    let high = number("high_freq_factor", 4.0)?;
    let context = number("original_max_position_embeddings", 8192.0)?;
    let n_dims = config.head_length()?;
    let divisor = |dim: u32| {
        // The frequency is rounded to f32 and the wavelength computed from it, as in the reference.
        let exponent = dim as f32 / n_dims as f32;
        let frequency = 1.0 / (base as f32).powf(exponent);
        let wavelength = f64::from(TAU as f32 / frequency);
        if wavelength < context / high {
            1.0
        } else if wavelength > context / low {
            factor as f32
        } else {
            let share = ((context / wavelength - low) / (high - low)) as f32;
            1.0 / ((1.0 - share) / factor as f32 + share)
        }
    };
    Ok(Some((0..n_dims).step_by(2).map(divisor).collect()))
}
