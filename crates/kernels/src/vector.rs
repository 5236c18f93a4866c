//! Operations on vectors: each works in place, with a second form where a separate output is usual.
//!
//! All slices of one call have equal lengths (elements beyond the shortest are left alone) unless said otherwise.
//! An element's bits do not depend on its place in the slice.

use gristmill_quant::TensorType;

use crate::KernelError;
use crate::table::kernels;

/// Vector kernels of one instruction set. Where two slices are given, their lengths are equal.
#[derive(Clone, Copy)]
#[expect(
    clippy::type_complexity,
    reason = "the slots are plain function pointers"
)]
pub(crate) struct VectorKernels {
    pub dot: fn(&[f32], &[f32]) -> f32,
    pub add: fn(&mut [f32], &[f32]),
    pub mul: fn(&mut [f32], &[f32]),
    pub scale: fn(&mut [f32], f32),
    pub add_scaled: fn(&mut [f32], f32, &[f32]),
    pub rms_norm: fn(&mut [f32], Option<&[f32]>, f32),
    pub layer_norm: fn(&mut [f32], &[f32], Option<&[f32]>, f32),
    pub softmax: fn(&mut [f32]),
    pub silu: fn(&mut [f32]),
    pub silu_mul: fn(&mut [f32], &[f32]),
    pub gelu_tanh: fn(&mut [f32]),
    pub gelu_tanh_mul: fn(&mut [f32], &[f32]),
    pub softcap: fn(&mut [f32], f32),
    pub rope_normal: fn(&mut [f32], &[f32], &[f32]),
    pub rope_neox: fn(&mut [f32], &[f32], &[f32]),
    pub f32_to_f16: fn(&[f32], &mut [u8]),
    pub f16_to_f32: fn(&[u8], &mut [f32]),
}

/// Cuts both to the shorter length.
fn both<'a>(x: &'a mut [f32], y: &'a [f32]) -> (&'a mut [f32], &'a [f32]) {
    let len = x.len().min(y.len());
    (&mut x[..len], &y[..len])
}

/// Sum of products, in a fixed order of additions.
pub fn dot_f32(x: &[f32], y: &[f32]) -> f32 {
    let len = x.len().min(y.len());
    (kernels().vector.dot)(&x[..len], &y[..len])
}

/// x += y.
pub fn add_assign(x: &mut [f32], y: &[f32]) {
    let (x, y) = both(x, y);
    (kernels().vector.add)(x, y);
}

/// out = x + y.
pub fn add(x: &[f32], y: &[f32], out: &mut [f32]) {
    copy(x, out);
    add_assign(out, y);
}

/// x *= y.
pub fn mul_assign(x: &mut [f32], y: &[f32]) {
    let (x, y) = both(x, y);
    (kernels().vector.mul)(x, y);
}

/// out = x * y.
pub fn mul(x: &[f32], y: &[f32], out: &mut [f32]) {
    copy(x, out);
    mul_assign(out, y);
}

/// x *= factor.
pub fn scale_assign(x: &mut [f32], factor: f32) {
    (kernels().vector.scale)(x, factor);
}

/// x += factor * y.
pub fn add_scaled(x: &mut [f32], factor: f32, y: &[f32]) {
    let (x, y) = both(x, y);
    (kernels().vector.add_scaled)(x, factor, y);
}

/// x *= weight / sqrt(mean(x^2) + eps); without `weight` it counts as 1.
pub fn rms_norm_assign(x: &mut [f32], weight: Option<&[f32]>, eps: f32) {
    (kernels().vector.rms_norm)(x, weight, eps);
}

/// [`rms_norm_assign`] into another slice.
pub fn rms_norm(x: &[f32], weight: Option<&[f32]>, eps: f32, out: &mut [f32]) {
    copy(x, out);
    rms_norm_assign(out, weight, eps);
}

/// x = (x - mean(x)) / sqrt(variance(x) + eps) * weight + bias.
pub fn layer_norm_assign(x: &mut [f32], weight: &[f32], bias: Option<&[f32]>, eps: f32) {
    (kernels().vector.layer_norm)(x, weight, bias, eps);
}

/// [`layer_norm_assign`] into another slice.
pub fn layer_norm(x: &[f32], weight: &[f32], bias: Option<&[f32]>, eps: f32, out: &mut [f32]) {
    copy(x, out);
    layer_norm_assign(out, weight, bias, eps);
}

/// x = exp(x - max(x)) / sum(exp(x - max(x))).
pub fn softmax_assign(x: &mut [f32]) {
    (kernels().vector.softmax)(x);
}

/// x = x * sigmoid(x).
pub fn silu_assign(x: &mut [f32]) {
    (kernels().vector.silu)(x);
}

/// gate = silu(gate) * up.
pub fn silu_mul_assign(gate: &mut [f32], up: &[f32]) {
    let (gate, up) = both(gate, up);
    (kernels().vector.silu_mul)(gate, up);
}

/// out = silu(gate) * up.
pub fn silu_mul(gate: &[f32], up: &[f32], out: &mut [f32]) {
    copy(gate, out);
    silu_mul_assign(out, up);
}

/// x = x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))), in full f32 precision.
pub fn gelu_tanh_assign(x: &mut [f32]) {
    (kernels().vector.gelu_tanh)(x);
}

/// gate = gelu_tanh(gate) * up.
pub fn gelu_tanh_mul_assign(gate: &mut [f32], up: &[f32]) {
    let (gate, up) = both(gate, up);
    (kernels().vector.gelu_tanh_mul)(gate, up);
}

/// out = gelu_tanh(gate) * up.
pub fn gelu_tanh_mul(gate: &[f32], up: &[f32], out: &mut [f32]) {
    copy(gate, out);
    gelu_tanh_mul_assign(out, up);
}

/// x = cap * tanh(x / cap).
pub fn softcap_assign(x: &mut [f32], cap: f32) {
    (kernels().vector.softcap)(x, cap);
}

/// Rotates the pairs `(x[2i], x[2i + 1])` of one head by the angles whose cosines and sines are given.
///
/// `cos` and `sin` have one entry per pair; elements beyond 2 * cos.len() stay as they are.
pub fn rope_normal(x: &mut [f32], cos: &[f32], sin: &[f32]) {
    let pairs = cos.len().min(sin.len()).min(x.len() / 2);
    (kernels().vector.rope_normal)(&mut x[..2 * pairs], &cos[..pairs], &sin[..pairs]);
}

/// Rotates the pairs `(x[i], x[i + cos.len()])` of one head by the angles whose cosines and sines are given.
///
/// `cos` and `sin` have one entry per pair; elements beyond 2 * cos.len() stay as they are.
pub fn rope_neox(x: &mut [f32], cos: &[f32], sin: &[f32]) {
    let pairs = cos.len().min(sin.len()).min(x.len() / 2);
    (kernels().vector.rope_neox)(&mut x[..2 * pairs], &cos[..pairs], &sin[..pairs]);
}

/// Rounds to little-endian f16 (to nearest, ties to even); `out` has two bytes per element.
pub fn f32_to_f16(x: &[f32], out: &mut [u8]) {
    let len = x.len().min(out.len() / 2);
    (kernels().vector.f32_to_f16)(&x[..len], &mut out[..2 * len]);
}

/// Widens little-endian f16; `x` has two bytes per element.
pub fn f16_to_f32(x: &[u8], out: &mut [f32]) {
    let len = out.len().min(x.len() / 2);
    (kernels().vector.f16_to_f32)(&x[..2 * len], &mut out[..len]);
}

/// Decodes one row of any type with a decoder.
///
/// # Errors
/// As [`TensorType::decode`].
pub fn decode_row(ty: TensorType, bytes: &[u8], out: &mut [f32]) -> Result<(), KernelError> {
    if ty == gristmill_quant::F16 && bytes.len() == 2 * out.len() {
        f16_to_f32(bytes, out);
        return Ok(());
    }
    Ok(kernels().decode(ty, bytes, out)?)
}

/// Encodes rows of `row_len` elements, with the same bytes as [`TensorType::encode`].
///
/// # Errors
/// As [`TensorType::encode`].
pub fn encode_rows(
    ty: TensorType,
    x: &[f32],
    row_len: usize,
    importance: Option<&[f32]>,
    out: &mut [u8],
) -> Result<(), KernelError> {
    ty.check_encode(x, row_len, importance, out)?;
    match kernels().of(ty).and_then(|kernels| kernels.encode) {
        Some(encode) => encode(x, row_len, importance, out),
        None => ty.encode(x, row_len, importance, out)?,
    }
    Ok(())
}

fn copy(x: &[f32], out: &mut [f32]) {
    let len = x.len().min(out.len());
    out[..len].copy_from_slice(&x[..len]);
}
