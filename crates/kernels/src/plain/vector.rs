//! Vector operations.

use gristmill_quant::{f16_to_f32 as widen, f32_to_f16 as narrow};

use crate::vector::VectorKernels;

pub(crate) const KERNELS: VectorKernels = VectorKernels {
    dot: dot_f32,
    add,
    mul,
    scale,
    add_scaled,
    rms_norm,
    layer_norm,
    softmax,
    silu,
    silu_mul,
    gelu_tanh,
    gelu_tanh_mul,
    softcap,
    rope_normal,
    rope_neox,
    f32_to_f16,
    f16_to_f32,
};

/// Partial sums that run beside each other.
const LANES: usize = 8;

/// Sums `terms` in [`LANES`] interleaved partial sums.
fn reduce(len: usize, term: impl Fn(usize) -> f32) -> f32 {
    let mut lanes = [0.0_f32; LANES];
    for start in (0..len - len % LANES).step_by(LANES) {
        for (lane, sum) in lanes.iter_mut().enumerate() {
            *sum += term(start + lane);
        }
    }
    for index in len - len % LANES..len {
        lanes[index % LANES] += term(index);
    }
    let [a, b, c, d, e, f, g, h] = lanes;
    ((a + e) + (c + g)) + ((b + f) + (d + h))
}

pub(crate) fn dot_f32(x: &[f32], y: &[f32]) -> f32 {
    let y = &y[..x.len()];
    reduce(x.len(), |index| x[index] * y[index])
}

pub(crate) fn add(x: &mut [f32], y: &[f32]) {
    x.iter_mut().zip(y).for_each(|(x, y)| *x += y);
}

pub(crate) fn mul(x: &mut [f32], y: &[f32]) {
    x.iter_mut().zip(y).for_each(|(x, y)| *x *= y);
}

pub(crate) fn scale(x: &mut [f32], factor: f32) {
    x.iter_mut().for_each(|x| *x *= factor);
}

fn add_scaled(x: &mut [f32], factor: f32, y: &[f32]) {
    x.iter_mut().zip(y).for_each(|(x, y)| *x += factor * y);
}

fn rms_norm(x: &mut [f32], weight: Option<&[f32]>, eps: f32) {
    let mean_square = reduce(x.len(), |index| x[index] * x[index]) / x.len() as f32;
    scale(x, 1.0 / (mean_square + eps).sqrt());
    if let Some(weight) = weight {
        mul(x, weight);
    }
}

fn layer_norm(x: &mut [f32], weight: &[f32], bias: Option<&[f32]>, eps: f32) {
    let mean = reduce(x.len(), |index| x[index]) / x.len() as f32;
    x.iter_mut().for_each(|x| *x -= mean);
    rms_norm(x, Some(weight), eps);
    if let Some(bias) = bias {
        add(x, bias);
    }
}

fn softmax(x: &mut [f32]) {
    let largest = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    x.iter_mut().for_each(|x| *x = (*x - largest).exp());
    let sum = reduce(x.len(), |index| x[index]);
    scale(x, 1.0 / sum);
}

fn silu_of(x: f32) -> f32 {
    x / (1.0 + (-x).exp())
}

fn silu(x: &mut [f32]) {
    x.iter_mut().for_each(|x| *x = silu_of(*x));
}

fn silu_mul(gate: &mut [f32], up: &[f32]) {
    gate.iter_mut()
        .zip(up)
        .for_each(|(gate, up)| *gate = silu_of(*gate) * up);
}

/// sqrt(2 / pi).
pub(crate) const SQRT_2_OVER_PI: f32 = 0.797_884_6;
/// The factor of the cube in the tanh form of GELU.
pub(crate) const GELU_CUBIC: f32 = 0.044_715;

fn gelu_tanh_of(x: f32) -> f32 {
    0.5 * x * (1.0 + (SQRT_2_OVER_PI * x * (1.0 + GELU_CUBIC * x * x)).tanh())
}

fn gelu_tanh(x: &mut [f32]) {
    x.iter_mut().for_each(|x| *x = gelu_tanh_of(*x));
}

fn gelu_tanh_mul(gate: &mut [f32], up: &[f32]) {
    gate.iter_mut()
        .zip(up)
        .for_each(|(gate, up)| *gate = gelu_tanh_of(*gate) * up);
}

fn softcap(x: &mut [f32], cap: f32) {
    x.iter_mut().for_each(|x| *x = cap * (*x / cap).tanh());
}

#[inline(always)]
pub(crate) fn rope_normal(x: &mut [f32], cos: &[f32], sin: &[f32]) {
    for ((pair, cos), sin) in x.as_chunks_mut::<2>().0.iter_mut().zip(cos).zip(sin) {
        let [a, b] = *pair;
        *pair = [a * cos - b * sin, a * sin + b * cos];
    }
}

#[inline(always)]
pub(crate) fn rope_neox(x: &mut [f32], cos: &[f32], sin: &[f32]) {
    let (first, second) = x.split_at_mut(cos.len());
    for (((first, second), cos), sin) in first.iter_mut().zip(second).zip(cos).zip(sin) {
        let (a, b) = (*first, *second);
        (*first, *second) = (a * cos - b * sin, a * sin + b * cos);
    }
}

fn f32_to_f16(x: &[f32], out: &mut [u8]) {
    for (x, out) in x.iter().zip(out.as_chunks_mut::<2>().0) {
        *out = narrow(*x).to_le_bytes();
    }
}

fn f16_to_f32(x: &[u8], out: &mut [f32]) {
    for (x, out) in x.as_chunks::<2>().0.iter().zip(out) {
        *out = widen(u16::from_le_bytes(*x));
    }
}
