//! Rotary embeddings: parameters of a layer, and the tensor that Llama 3's scaling becomes.

use crate::config::{Config, rope_number};
use crate::hyperparameters::RopeScaling;
use crate::{Hyperparameters, ModelError, Weights};
use gristmill_compute::{Rope, Tensor, Yarn};
use serde_json::Value;
use std::f32::consts::TAU;

/// Divisors of the frequencies, `[n_rot / 2]`: those for any context, else those for a context of this length.
pub(crate) fn divisors<'a>(
    hparams: &Hyperparameters,
    weights: &'a Weights,
    n_ctx: usize,
) -> Option<&'a Tensor> {
    let by_length = match n_ctx > hparams.rope.original_context {
        true => &weights.rope_factors_long,
        false => &weights.rope_factors_short,
    };
    weights.rope_freqs.as_ref().or(by_length.as_ref())
}

/// The rotation of a layer, where the model has one. Windowed layers do without `divisors`.
pub(crate) fn of_layer(
    hparams: &Hyperparameters,
    layer: usize,
    divisors: Option<&Tensor>,
) -> Option<Rope> {
    let style = hparams.architecture.choices.rope_style?;
    if !hparams.rotates {
        return None;
    }
    let parameters = hparams.rope_of(layer);
    let (freq_scale, yarn) = match parameters.scaling {
        RopeScaling::None => (1.0, None),
        RopeScaling::Linear { factor } => (1.0 / factor, None),
        RopeScaling::Yarn {
            factor,
            extrapolation_factor,
            beta_fast,
            beta_slow,
            magnitude,
        } => {
            let yarn = Yarn {
                ext_factor: extrapolation_factor,
                attn_factor: magnitude,
                beta_fast,
                beta_slow,
                original_context: parameters.original_context,
            };
            (1.0 / factor, Some(yarn))
        }
    };
    Some(Rope {
        style,
        n_dims: hparams.n_rot,
        freq_base: parameters.freq_base,
        freq_scale,
        yarn,
        factors: divisors
            .filter(|_| hparams.window_of(layer).is_none())
            .copied(),
        attn_factor: parameters.attention_factor,
    })
}

/// Divisors of the frequencies under Llama 3's scaling: 1 for short wavelengths, `factor` for long ones, in between
/// a blend that is linear in the number of rotations within the original context.
pub(crate) fn llama3_divisors(
    config: &Config,
    _: &Hyperparameters,
) -> Result<Option<Vec<f32>>, ModelError> {
    let rope = config.rope();
    let kind = rope.get("rope_type").and_then(|kind| kind.as_str());
    if !kind.is_some_and(|kind| kind.eq_ignore_ascii_case("llama3")) {
        return Ok(None);
    }
    let number = |key, default, expected, holds: &dyn Fn(f32) -> bool| {
        let wrong = |found| ModelError::Config {
            key: format!("rope_scaling.{key}"),
            expected,
            found,
        };
        if rope.get(key).is_some_and(Value::is_null) {
            return Err(wrong("null".to_owned()));
        }
        let value = rope_number(rope, key)?.unwrap_or(default);
        // All in f32, as in the reference.
        let single = value as f32;
        if single.is_finite() && (1.0 / single).is_finite() && holds(single) {
            return Ok(single);
        }
        Err(wrong(value.to_string()))
    };
    let above_0 = |value| value > 0.0;
    let base = number("rope_theta", 10000.0, "a finite number above 0", &above_0)?;
    let factor = number("factor", 8.0, "a finite number above 0", &above_0)?;
    let low = number("low_freq_factor", 1.0, "a finite number above 0", &above_0)?;
    let high = number(
        "high_freq_factor",
        4.0,
        "a finite number above low_freq_factor",
        &|high| high > low,
    )?;
    let context = number(
        "original_max_position_embeddings",
        8192.0,
        "a number of tokens, at least 1",
        &|context| context >= 1.0,
    )?;
    let n_dims = config.head_length()?;
    let divisor = |dim: u32| {
        let frequency = 1.0 / base.powf(dim as f32 / n_dims as f32);
        let wavelength = TAU / frequency;
        if wavelength < context / high {
            1.0
        } else if wavelength > context / low {
            factor
        } else {
            let share = (context / wavelength - low) / (high - low);
            1.0 / ((1.0 - share) / factor + share)
        }
    };
    Ok(Some((0..n_dims).step_by(2).map(divisor).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each of these would divide by zero, or turn positions backwards or not at all.
    #[test]
    fn llama3_parameters_that_mean_nothing_are_refused_by_key() {
        let good = [
            ("factor", "8.0"),
            ("low_freq_factor", "1.0"),
            ("high_freq_factor", "4.0"),
            ("original_max_position_embeddings", "8192"),
        ];
        let divisors = |key: &str, value: &str| {
            let entries = good.map(|(name, given)| {
                format!("\"{name}\": {}", if name == key { value } else { given })
            });
            let text = format!(
                r#"{{"architectures": ["LlamaForCausalLM"], "head_dim": 16,
                "rope_scaling": {{"rope_type": "llama3", {}}}}}"#,
                entries.join(", ")
            );
            let config = Config::parse(&text).unwrap();
            let mut metadata = gristmill_gguf::Metadata::new();
            metadata.set("general.architecture", "llama");
            config.write_metadata(0, &mut metadata).unwrap();
            let hparams = Hyperparameters::from_metadata(&metadata).unwrap();
            llama3_divisors(&config, &hparams)
        };
        assert!(divisors("factor", "32.0").is_ok());
        for (key, value) in [
            ("factor", "null"),
            ("factor", "0"),
            ("factor", "-8.0"),
            ("factor", "1e300"),
            ("factor", "1e-300"),
            ("low_freq_factor", "0"),
            ("low_freq_factor", "-1"),
            ("high_freq_factor", "1.0"),
            ("high_freq_factor", "0.5"),
            ("high_freq_factor", "1e300"),
            ("original_max_position_embeddings", "0"),
            ("original_max_position_embeddings", "-1"),
        ] {
            let message = divisors(key, value).unwrap_err().to_string();
            let start = format!("config.json: `rope_scaling.{key}` is ");
            assert!(message.starts_with(&start), "{key} {value}: {message}");
        }
    }

    /// Case B30; the right values are recomputed there from the published formula.
    #[test]
    fn llama3_divisors_of_a_small_head() {
        let text = r#"{"architectures": ["LlamaForCausalLM"], "head_dim": 16, "rope_theta": 500000.0,
            "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192}}"#;
        let config = Config::parse(text).unwrap();
        let mut metadata = gristmill_gguf::Metadata::new();
        metadata.set("general.architecture", "llama");
        config.write_metadata(0, &mut metadata).unwrap();
        let hparams = Hyperparameters::from_metadata(&metadata).unwrap();
        let divisors = llama3_divisors(&config, &hparams).unwrap().unwrap();
        let expected = [1.0, 1.0, 1.0, 1.0, 2.69453, 8.0, 8.0, 8.0];
        assert_eq!(divisors.len(), expected.len());
        for (divisor, expected) in divisors.iter().zip(expected) {
            assert!((divisor - expected).abs() < 1e-5, "{divisors:?}");
        }
    }
}
