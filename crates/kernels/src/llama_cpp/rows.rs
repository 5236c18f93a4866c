//! Norms, activation functions and rotation, row by row.

use std::sync::OnceLock;

use gristmill_quant::{f16_to_f32, f32_to_f16};

use super::{Lanes, wide};

/// `out = x / rms(x) * weight`: squares in f32, their sum in f64 one after the other, the rest in f32.
pub fn rms_norm(x: &[f32], weight: Option<&[f32]>, eps: f32, out: &mut [f32]) {
    let sum: f64 = x.iter().fold(0.0, |sum, x| sum + f64::from(x * x));
    let mean = (sum / x.len() as f64) as f32;
    let scale = 1.0 / (mean + eps).sqrt();
    for (out, x) in out.iter_mut().zip(x) {
        *out = x * scale;
    }
    if let Some(weight) = weight {
        out.iter_mut().zip(weight).for_each(|(out, w)| *out *= w);
    }
}

/// `exp` of eight lanes: a polynomial after the power of two is taken out; beyond the range it flushes to 0 or infinity.
#[inline(always)]
pub(super) fn exp_lanes(x: Lanes) -> Lanes {
    x.map(exp)
}

/// One lane of [`exp_lanes`].
#[inline(always)]
fn exp(x: f32) -> f32 {
    // 1.5 * 2^23: adding it rounds to a whole number, which then stands in the lowest bits.
    const MAGIC: f32 = 12_582_912.0;
    let float = f32::from_bits;
    let z = x.mul_add(std::f32::consts::LOG2_E, MAGIC);
    let n = z - MAGIC;
    // ln 2 in two parts, 0x1.62e4p-1 and 0x1.7f7d1cp-20.
    let b = (-n).mul_add(float(0x35bf_be8e), (-n).mul_add(float(0x3f31_7200), x));
    let e = z.to_bits() << 23;
    let k = float(e.wrapping_add(0x3f80_0000));
    let u = b * b;
    // 0x1.0e4020p-7, 0x1.573e2ep-5, 0x1.555e66p-3, 0x1.fffdb6p-2, 0x1.ffffecp-1
    let high = float(0x3c07_2010).mul_add(b, float(0x3d2b_9f17));
    let middle = float(0x3e2a_af33).mul_add(b, float(0x3eff_fedb));
    let j = high.mul_add(u, middle).mul_add(u, float(0x3f7f_fff6) * b);
    let size = n.abs();
    let g = if n <= 0.0 { 0x8200_0000u32 } else { 0 };
    let s1 = float(g.wrapping_add(0x7f00_0000));
    let s2 = float(e.wrapping_sub(g));
    if size > 192.0 {
        s1 * s1
    } else if size > 126.0 {
        s2.mul_add(j, s2) * s1
    } else {
        k.mul_add(j, k)
    }
}

/// `x / (1 + exp(-x))`: registers of eight by [`exp_lanes`], the rest by the platform's function.
#[inline(always)]
fn silu_each(x: &mut [f32]) {
    let (lanes, rest) = x.as_chunks_mut::<8>();
    for x in lanes {
        let powers = exp_lanes(x.map(|x| 0.0 - x));
        x.iter_mut()
            .zip(powers)
            .for_each(|(x, power)| *x /= 1.0 + power);
    }
    rest.iter_mut().for_each(|x| *x /= 1.0 + (-*x).exp());
}

#[inline(always)]
fn multiply(x: &mut [f32], y: &[f32]) {
    x.iter_mut().zip(y).for_each(|(x, y)| *x *= y);
}

wide! {
    /// `x = silu(x)`.
    pub fn silu(x: &mut [f32]) {
        silu_each(x);
    }

    /// `x = silu(x) * y`.
    pub fn silu_mul(x: &mut [f32], y: &[f32]) {
        silu_each(x);
        multiply(x, y);
    }
}

/// `x = gelu(x)`, the form with `tanh`: from a table of 16-bit floats between -10 and 10.
pub fn gelu(x: &mut [f32]) {
    let table = gelu_table();
    for x in x {
        if *x <= -10.0 {
            *x = 0.0;
        } else if *x < 10.0 {
            *x = f16_to_f32(table[usize::from(f32_to_f16(*x))]);
        }
    }
}

/// `x = gelu(x) * y`; 0 where `x` is at most -10.
pub fn gelu_mul(x: &mut [f32], y: &[f32]) {
    let off = x.iter().map(|&x| x <= -10.0).collect::<Vec<_>>();
    gelu(x);
    multiply(x, y);
    for (x, off) in x.iter_mut().zip(off) {
        if off {
            *x = 0.0;
        }
    }
}

/// `gelu` of every 16-bit float.
fn gelu_table() -> &'static [u16] {
    static TABLE: OnceLock<Vec<u16>> = OnceLock::new();
    TABLE.get_or_init(|| {
        (0..=u16::MAX)
            .map(|bits| f32_to_f16(gelu_of(f16_to_f32(bits))))
            .collect()
    })
}

fn gelu_of(x: f32) -> f32 {
    const SQRT_2_OVER_PI: f32 = 0.797_884_6;
    const CUBIC: f32 = 0.044_715;
    let inner = SQRT_2_OVER_PI * x * (CUBIC * x).mul_add(x, 1.0);
    0.5 * x * (1.0 + inner.tanh())
}

/// A pair turned by an angle.
#[inline(always)]
fn turned(x: f32, y: f32, cos: f32, sin: f32) -> (f32, f32) {
    (x.mul_add(cos, -(y * sin)), x.mul_add(sin, y * cos))
}

wide! {
    /// Turns the pairs `(2i, 2i + 1)` of a head.
    pub fn rotate_normal(head: &mut [f32], cosines: &[f32], sines: &[f32]) {
        let angles = cosines.iter().zip(sines);
        for ([x, y], (&cos, &sin)) in head.as_chunks_mut::<2>().0.iter_mut().zip(angles) {
            (*x, *y) = turned(*x, *y, cos, sin);
        }
    }

    /// Turns the pairs `(i, i + n / 2)` of a head, `n / 2` being the number of angles.
    pub fn rotate_neox(head: &mut [f32], cosines: &[f32], sines: &[f32]) {
        let (first, second) = head.split_at_mut(cosines.len());
        let angles = cosines.iter().zip(sines);
        for ((x, y), (&cos, &sin)) in first.iter_mut().zip(second).zip(angles) {
            (*x, *y) = turned(*x, *y, cos, sin);
        }
    }
}
