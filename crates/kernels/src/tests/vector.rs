use super::{Random, tables};
use crate::vector::VectorKernels;

const LENGTHS: [usize; 10] = [1, 2, 7, 8, 9, 31, 64, 100, 576, 1536];

fn inputs(len: usize) -> (Vec<f32>, Vec<f32>) {
    let mut random = Random::new(len as u64);
    let x = random.floats(len).into_iter().map(|x| x * 12.0).collect();
    (x, random.floats(len))
}

fn assert_close(found: &[f32], expected: &[f64], tolerance: f64, what: &str) {
    for (index, (&found, &expected)) in found.iter().zip(expected).enumerate() {
        let error = (f64::from(found) - expected).abs();
        assert!(
            error <= tolerance * expected.abs().max(1e-3),
            "{what}[{index}]: {found} {expected}"
        );
    }
}

/// Applies `op` in place for every table and length and compares with `expected`, computed in f64.
fn check(
    name: &str,
    tolerance: f64,
    op: impl Fn(&VectorKernels, &mut [f32], &[f32]),
    expected: impl Fn(&[f64], &[f64]) -> Vec<f64>,
) {
    for kernels in tables() {
        for len in LENGTHS {
            let (x, y) = inputs(len);
            let wide = |x: &[f32]| x.iter().map(|&x| f64::from(x)).collect::<Vec<_>>();
            let mut out = x.clone();
            op(&kernels.vector, &mut out, &y);
            assert_close(
                &out,
                &expected(&wide(&x), &wide(&y)),
                tolerance,
                &format!("{name} {} {len}", kernels.isa),
            );
        }
    }
}

fn map(x: &[f64], f: impl Fn(f64) -> f64) -> Vec<f64> {
    x.iter().map(|&x| f(x)).collect()
}

fn zip(x: &[f64], y: &[f64], f: impl Fn(f64, f64) -> f64) -> Vec<f64> {
    x.iter().zip(y).map(|(&x, &y)| f(x, y)).collect()
}

fn silu(x: f64) -> f64 {
    x / (1.0 + (-x).exp())
}

fn gelu(x: f64) -> f64 {
    0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x)).tanh())
}

#[test]
fn elementwise_operations() {
    check(
        "add",
        1e-6,
        |k, x, y| (k.add)(x, y),
        |x, y| zip(x, y, |x, y| x + y),
    );
    check(
        "mul",
        1e-7,
        |k, x, y| (k.mul)(x, y),
        |x, y| zip(x, y, |x, y| x * y),
    );
    check(
        "scale",
        1e-7,
        |k, x, _| (k.scale)(x, 0.25),
        |x, _| map(x, |x| x * 0.25),
    );
    check(
        "add_scaled",
        2e-6,
        |k, x, y| (k.add_scaled)(x, -0.5, y),
        |x, y| zip(x, y, |x, y| x - 0.5 * y),
    );
    check("silu", 1e-6, |k, x, _| (k.silu)(x), |x, _| map(x, silu));
    check(
        "silu_mul",
        1e-6,
        |k, x, y| (k.silu_mul)(x, y),
        |x, y| zip(x, y, |x, y| silu(x) * y),
    );
    check(
        "softcap",
        1e-6,
        |k, x, _| (k.softcap)(x, 5.0),
        |x, _| map(x, |x| 5.0 * (x / 5.0).tanh()),
    );
}

#[test]
fn gelu_keeps_full_precision_relative_to_its_input() {
    for kernels in tables() {
        let x: Vec<f32> = (-8000..8000).map(|x| x as f32 / 1000.0).collect();
        let mut out = x.clone();
        (kernels.vector.gelu_tanh)(&mut out);
        let mut product = x.clone();
        (kernels.vector.gelu_tanh_mul)(&mut product, &vec![2.0; x.len()]);
        for ((&x, out), product) in x.iter().zip(out).zip(product) {
            assert!(
                (f64::from(out) - gelu(f64::from(x))).abs() <= 2e-7 * f64::from(x.abs()).max(1e-3),
                "{x}"
            );
            assert_eq!(product, 2.0 * out);
        }
    }
}

#[test]
fn activations_survive_extremes() {
    for kernels in tables() {
        let x = [
            0.0,
            -0.0,
            88.0,
            -88.0,
            104.0,
            -104.0,
            1e30,
            -1e30,
            f32::INFINITY,
            1e-30,
            -1e-40,
        ];
        let mut out = x;
        (kernels.vector.silu)(&mut out);
        let expected = [
            0.0,
            0.0,
            88.0,
            -0.0,
            104.0,
            -0.0,
            1e30,
            -0.0,
            f32::INFINITY,
            5e-31,
            -5e-41,
        ];
        for (out, expected) in out.iter().zip(expected) {
            assert!(
                (out - expected).abs() <= 1e-6 * expected.abs() + 1e-35 || *out == expected,
                "{out} {expected}"
            );
        }
        let mut out = x;
        (kernels.vector.gelu_tanh)(&mut out);
        assert!(
            out[2] == 88.0
                && out[3] == 0.0
                && out[6] == 1e30
                && out[7] == 0.0
                && out[8] == f32::INFINITY,
            "{out:?}"
        );
        let mut bad = [f32::NAN; 9];
        (kernels.vector.silu)(&mut bad);
        assert!(bad.iter().all(|x| x.is_nan()));
        let mut bad = [f32::NAN; 9];
        (kernels.vector.gelu_tanh)(&mut bad);
        assert!(bad.iter().all(|x| x.is_nan()));
    }
}

#[test]
fn norms_and_softmax() {
    let rms =
        |x: &[f64]| 1.0 / (x.iter().map(|x| x * x).sum::<f64>() / x.len() as f64 + 1e-5).sqrt();
    check(
        "rms_norm",
        1e-6,
        |k, x, y| (k.rms_norm)(x, Some(y), 1e-5),
        |x, y| zip(x, y, |value, y| value * rms(x) * y),
    );
    check(
        "rms_norm",
        1e-6,
        |k, x, _| (k.rms_norm)(x, None, 1e-5),
        |x, _| map(x, |value| value * rms(x)),
    );
    let center = |x: &[f64]| map(x, |value| value - x.iter().sum::<f64>() / x.len() as f64);
    check(
        "layer_norm",
        2e-4,
        |k, x, y| (k.layer_norm)(x, y, Some(y), 1e-5),
        |x, y| {
            let x = center(x);
            zip(&x, y, |value, y| value * rms(&x) * y + y)
        },
    );
    check(
        "softmax",
        3e-6,
        |k, x, _| (k.softmax)(x),
        |x, _| {
            let largest = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let sum: f64 = x.iter().map(|x| (x - largest).exp()).sum();
            map(x, |x| (x - largest).exp() / sum)
        },
    );
}

#[test]
fn dot_and_half_floats() {
    for kernels in tables() {
        for len in LENGTHS {
            let (x, y) = inputs(len);
            let exact: f64 = x
                .iter()
                .zip(&y)
                .map(|(&x, &y)| f64::from(x) * f64::from(y))
                .sum();
            let size: f64 = x
                .iter()
                .zip(&y)
                .map(|(&x, &y)| f64::from((x * y).abs()))
                .sum();
            assert!((f64::from((kernels.vector.dot)(&x, &y)) - exact).abs() <= 1e-6 * size);
        }
        let all: Vec<u8> = (0..=u16::MAX)
            .filter(|x| x & 0x7c00 != 0x7c00)
            .flat_map(u16::to_le_bytes)
            .collect();
        let mut wide = vec![0.0; all.len() / 2];
        (kernels.vector.f16_to_f32)(&all, &mut wide);
        let mut narrow = vec![0; all.len()];
        (kernels.vector.f32_to_f16)(&wide, &mut narrow);
        assert_eq!(all, narrow);
        let x: Vec<f32> = (0..100_003_u32)
            .map(|x| f32::from_bits(x.wrapping_mul(0x9e37_79b9)))
            .filter(|x| !x.is_nan())
            .collect();
        let mut narrow = vec![0; 2 * x.len()];
        (kernels.vector.f32_to_f16)(&x, &mut narrow);
        let expected: Vec<u8> = x
            .iter()
            .flat_map(|&x| gristmill_quant::f32_to_f16(x).to_le_bytes())
            .collect();
        assert_eq!(narrow, expected);
    }
}

#[test]
fn rope_rotates_pairs() {
    for kernels in tables() {
        for n_pairs in [1, 3, 4, 8, 13, 32] {
            let (x, angles) = (
                Random::new(5).floats(2 * n_pairs),
                Random::new(6).floats(n_pairs),
            );
            let (cos, sin): (Vec<f32>, Vec<f32>) =
                angles.iter().map(|a| (a.cos(), a.sin())).unzip();
            let (mut normal, mut neox) = (x.clone(), x.clone());
            (kernels.vector.rope_normal)(&mut normal, &cos, &sin);
            (kernels.vector.rope_neox)(&mut neox, &cos, &sin);
            for pair in 0..n_pairs {
                let rotate =
                    |a: f32, b: f32| (a * cos[pair] - b * sin[pair], a * sin[pair] + b * cos[pair]);
                let close = |found: (f32, f32), expected: (f32, f32)| {
                    assert!(
                        (found.0 - expected.0).abs() < 3e-7 && (found.1 - expected.1).abs() < 3e-7
                    );
                };
                close(
                    (normal[2 * pair], normal[2 * pair + 1]),
                    rotate(x[2 * pair], x[2 * pair + 1]),
                );
                close(
                    (neox[pair], neox[pair + n_pairs]),
                    rotate(x[pair], x[pair + n_pairs]),
                );
            }
        }
    }
}
