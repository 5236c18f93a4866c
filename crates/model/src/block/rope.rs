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
    use crate::{RopeOverrides, RopeScalingKind};
    use gristmill_compute::{
        Backend, BatchShape, CpuBackend, Executor, GraphBuilder, Inputs, Plan, Shape,
    };
    use std::sync::Arc;

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
    fn b30_llama3_divisors_of_a_small_head() {
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

    /// Sizes of the model, and of each head.
    const N_CTX: usize = 128;
    const HEAD: usize = 16;
    const POSITIONS: [i32; 3] = [0, 5, 100];

    fn hyperparameters(
        architecture: &str,
        more: &[(&str, gristmill_gguf::Value)],
    ) -> Hyperparameters {
        let mut metadata = gristmill_gguf::Metadata::new();
        metadata.set("general.architecture", architecture);
        let sizes = [
            ("block_count", 1u32),
            ("context_length", N_CTX as u32),
            ("embedding_length", 2 * HEAD as u32),
            ("feed_forward_length", 8),
            ("attention.head_count", 2),
            ("vocab_size", 4),
        ];
        for (key, value) in sizes {
            metadata.set(format!("{architecture}.{key}"), value);
        }
        metadata.set(
            format!("{architecture}.attention.layer_norm_rms_epsilon"),
            1e-6f32,
        );
        for (key, value) in more {
            metadata.set(format!("{architecture}.{key}"), value.clone());
        }
        Hyperparameters::from_metadata(&metadata).unwrap()
    }

    /// Elements of a head before they are rotated.
    fn head() -> Vec<f32> {
        (0..HEAD).map(|index| 1.0 + index as f32 / 10.0).collect()
    }

    /// The head at each position, rotated by the graph. Divisors are for any context, for long and for short ones.
    fn rotated(hparams: &Hyperparameters, n_ctx: usize, divisors: [Option<&[f32]>; 3]) -> Vec<f32> {
        let backend: Arc<dyn Backend> = Arc::new(CpuBackend::new(1));
        let tensor = |values: &[f32], dims: &[usize]| {
            let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
            Tensor {
                device: 0,
                buffer: backend.import(Arc::new(bytes)).unwrap(),
                offset: 0,
                ty: gristmill_quant::F32,
                shape: Shape::new(dims).unwrap(),
            }
        };
        let [any, long, short] = divisors.map(|list| list.map(|list| tensor(list, &[list.len()])));
        let weights = Weights {
            rope_freqs: any,
            rope_factors_long: long,
            rope_factors_short: short,
            ..Weights::default()
        };
        let rope = of_layer(hparams, 0, super::divisors(hparams, &weights, n_ctx)).unwrap();
        let mut graph = GraphBuilder::new(BatchShape {
            n_tokens: POSITIONS.len(),
            ..BatchShape::default()
        });
        let x = graph.embed(&tensor(&head(), &[HEAD, 1]));
        let x = graph.reshape(x, Shape::new(&[HEAD, 1, POSITIONS.len()]).unwrap());
        let x = graph.rope(x, &rope);
        let devices = vec![backend.clone()];
        let plan = Plan::new(&graph.finish(&[x]).unwrap(), &devices).unwrap();
        let mut executor = Executor::new(devices);
        let inputs = Inputs {
            tokens: &[0; POSITIONS.len()],
            positions: &POSITIONS,
            ..Inputs::default()
        };
        executor.run(&plan, &inputs).unwrap();
        executor.output(0).to_vec()
    }

    /// The same in double precision: pairs `(2i, 2i + 1)` or `(i, i + n / 2)` of `n` elements turn by position times
    /// frequency, and are multiplied by a magnitude.
    fn turned(
        n: usize,
        neighbours: bool,
        magnitude: f64,
        frequency: impl Fn(usize) -> f64,
    ) -> Vec<f32> {
        let mut heads = Vec::new();
        for position in POSITIONS {
            let mut x: Vec<f64> = head().into_iter().map(f64::from).collect();
            for pair in 0..n / 2 {
                let (a, b) = match neighbours {
                    true => (2 * pair, 2 * pair + 1),
                    false => (pair, pair + n / 2),
                };
                let (sin, cos) = (f64::from(position) * frequency(pair)).sin_cos();
                let (left, right) = (x[a], x[b]);
                x[a] = magnitude * (left * cos - right * sin);
                x[b] = magnitude * (left * sin + right * cos);
            }
            heads.extend(x.into_iter().map(|x| x as f32));
        }
        heads
    }

    fn assert_close(found: &[f32], expected: &[f32], what: &str) {
        assert_eq!(found.len(), expected.len(), "{what}");
        for (found, expected) in found.iter().zip(expected) {
            // Angles are rounded to f32: 100 radians to 4e-6.
            assert!(
                (found - expected).abs() < 3e-5,
                "{what}: {found} {expected}"
            );
        }
    }

    fn plain(base: f64, n: usize) -> impl Fn(usize) -> f64 {
        move |pair| base.powf(-2.0 * pair as f64 / n as f64)
    }

    /// YaRN by the formulas of its paper: pairs that turn more than `fast` times over the original context keep their
    /// frequency, those that turn less than `slow` times are divided, and between them the share is linear in the pair.
    fn yarn(
        base: f64,
        factor: f64,
        context: f64,
        (fast, slow): (f64, f64),
    ) -> impl Fn(usize) -> f64 {
        let n = HEAD as f64;
        let pair_of = move |turns: f64| {
            n * (context / (turns * std::f64::consts::TAU)).ln() / (2.0 * base.ln())
        };
        let low = pair_of(fast).floor().max(0.0);
        let high = pair_of(slow).ceil().min(n - 1.0);
        move |pair| {
            let divided = ((pair as f64 - low) / (high - low).max(0.001)).clamp(0.0, 1.0);
            plain(base, HEAD)(pair) * (1.0 - divided + divided / factor)
        }
    }

    #[test]
    fn every_kind_of_rotation_follows_its_formula() {
        let none = [None; 3];
        let base = |base: f32| ("rope.freq_base", gristmill_gguf::Value::F32(base));
        let text = |key, text: &str| (key, gristmill_gguf::Value::from(text));
        let float = |key, value: f32| (key, gristmill_gguf::Value::F32(value));
        let length = |key, value: u32| (key, gristmill_gguf::Value::U32(value));
        // Neighbours, and halves.
        let llama = hyperparameters("llama", &[base(500.0)]);
        assert_close(
            &rotated(&llama, N_CTX, none),
            &turned(HEAD, true, 1.0, plain(500.0, HEAD)),
            "normal",
        );
        let qwen2 = hyperparameters("qwen2", &[]);
        assert_close(
            &rotated(&qwen2, N_CTX, none),
            &turned(HEAD, false, 1.0, plain(1e4, HEAD)),
            "NeoX",
        );
        // The first half of each head only.
        let partial = hyperparameters("phi3", &[length("rope.dimension_count", 8)]);
        assert_close(
            &rotated(&partial, N_CTX, none),
            &turned(8, false, 1.0, plain(1e4, 8)),
            "partial",
        );
        let linear = hyperparameters(
            "llama",
            &[
                text("rope.scaling.type", "linear"),
                float("rope.scaling.factor", 4.0),
            ],
        );
        let divided = |pair| plain(1e4, HEAD)(pair) / 4.0;
        assert_close(
            &rotated(&linear, N_CTX, none),
            &turned(HEAD, true, 1.0, divided),
            "linear",
        );
        let stretched = hyperparameters(
            "qwen3",
            &[
                text("rope.scaling.type", "yarn"),
                float("rope.scaling.factor", 4.0),
                length("rope.scaling.original_context_length", 64),
                float("rope.scaling.yarn_beta_fast", 16.0),
            ],
        );
        let magnitude = 0.1 * 4f64.ln() + 1.0;
        let expected = turned(HEAD, false, magnitude, yarn(1e4, 4.0, 64.0, (16.0, 1.0)));
        assert_close(&rotated(&stretched, N_CTX, none), &expected, "YaRN");
        // Llama 3: any context; the divisors themselves have their own test.
        let divisors: Vec<f32> = (1..=8).map(|pair| pair as f32).collect();
        let expected = turned(HEAD, true, 1.0, |pair| {
            plain(500.0, HEAD)(pair) / (pair + 1) as f64
        });
        assert_close(
            &rotated(&llama, N_CTX, [Some(&divisors), None, None]),
            &expected,
            "Llama 3",
        );
        // LongRoPE: by the length of the context.
        let long = hyperparameters(
            "phi3",
            &[
                length("rope.scaling.original_context_length", 32),
                float("rope.scaling.attn_factor", 1.25),
            ],
        );
        let halves = [0.5; 8];
        let lists = [None, Some(&divisors[..]), Some(&halves[..])];
        let expected = turned(HEAD, false, 1.25, |pair| plain(1e4, HEAD)(pair) * 2.0);
        assert_close(&rotated(&long, 32, lists), &expected, "LongRoPE, short");
        let expected = turned(HEAD, false, 1.25, |pair| {
            plain(1e4, HEAD)(pair) / (pair + 1) as f64
        });
        assert_close(&rotated(&long, 33, lists), &expected, "LongRoPE, long");
    }

    #[test]
    fn what_is_asked_for_goes_before_the_file() {
        let none = [None; 3];
        let asked = |file: &[(&str, gristmill_gguf::Value)], asked: RopeOverrides| {
            let mut hparams = hyperparameters("qwen3", file);
            hparams.override_rope(&asked);
            (rotated(&hparams, N_CTX, none), hparams.n_context_train)
        };
        let linear = [("rope.scaling.factor", gristmill_gguf::Value::F32(4.0))];
        let kept = RopeOverrides::default();
        let check = |found: (Vec<f32>, usize), n_context: usize, expected: Vec<f32>, what: &str| {
            assert_close(&found.0, &expected, what);
            assert_eq!(found.1, n_context, "{what}");
        };
        let turn =
            |magnitude, frequency: &dyn Fn(usize) -> f64| turned(HEAD, false, magnitude, frequency);
        check(
            asked(&linear, kept),
            N_CTX,
            turn(1.0, &|pair| plain(1e4, HEAD)(pair) / 4.0),
            "the file's",
        );
        let base = RopeOverrides {
            freq_base: Some(100.0),
            ..kept
        };
        check(
            asked(&linear, base),
            N_CTX,
            turn(1.0, &|pair| plain(100.0, HEAD)(pair) / 4.0),
            "base",
        );
        let scale = RopeOverrides {
            freq_scale: Some(0.5),
            ..kept
        };
        check(
            asked(&linear, scale),
            N_CTX,
            turn(1.0, &|pair| plain(1e4, HEAD)(pair) / 2.0),
            "scale",
        );
        check(
            asked(&[], scale),
            N_CTX,
            turn(1.0, &|pair| plain(1e4, HEAD)(pair) / 2.0),
            "scale of none",
        );
        let none = RopeOverrides {
            scaling: Some(RopeScalingKind::None),
            ..scale
        };
        check(
            asked(&linear, none),
            N_CTX,
            turn(1.0, &plain(1e4, HEAD)),
            "none",
        );
        let magnitude = |factor: f64| 0.1 * factor.ln() + 1.0;
        let yarned = RopeOverrides {
            scaling: Some(RopeScalingKind::Yarn),
            original_context: Some(64),
            ..kept
        };
        let expected = turn(magnitude(4.0), &yarn(1e4, 4.0, 64.0, (32.0, 1.0)));
        check(
            asked(&linear, yarned),
            N_CTX,
            expected,
            "YaRN by the file's factor",
        );
        let all = RopeOverrides {
            freq_scale: Some(0.125),
            beta_fast: Some(8.0),
            beta_slow: Some(2.0),
            ..yarned
        };
        let expected = turn(magnitude(8.0), &yarn(1e4, 8.0, 64.0, (8.0, 2.0)));
        // 64 times 8 positions are what this rotation is for.
        check(asked(&linear, all), 512, expected, "YaRN as asked for");
        let given = RopeOverrides {
            magnitude: Some(1.5),
            ..all
        };
        let expected = turn(1.5, &yarn(1e4, 8.0, 64.0, (8.0, 2.0)));
        check(asked(&linear, given), 512, expected, "its magnitude");
        // Without extrapolation it is linear, and nothing is made up for.
        let flat = RopeOverrides {
            extrapolation_factor: Some(0.0),
            ..all
        };
        check(
            asked(&linear, flat),
            512,
            turn(1.0, &|pair| plain(1e4, HEAD)(pair) / 8.0),
            "no extrapolation",
        );
        let flat = RopeOverrides {
            magnitude: Some(1.5),
            ..flat
        };
        check(
            asked(&linear, flat),
            512,
            turn(1.5, &|pair| plain(1e4, HEAD)(pair) / 8.0),
            "but a magnitude",
        );
    }
}
