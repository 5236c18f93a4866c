//! Vector operations. The tail of a slice goes through the same instructions as its body, so that an element's bits do not
//! depend on its place.

use std::arch::x86_64::*;

use crate::plain;
use crate::vector::VectorKernels;
use crate::x86::lanes::{LANES, exp, load_f16, load_part, max_lanes, store_part, sum_lanes, tanh};

pub(super) const KERNELS: VectorKernels = VectorKernels {
    dot,
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

/// Declares a safe function around a body that is compiled for the instruction set.
macro_rules! kernels {
    ($($(#[$doc:meta])* fn $name:ident($($argument:ident: $ty:ty),*) $(-> $result:ty)? $body:block)*) => {$(
        $(#[$doc])*
        fn $name($($argument: $ty),*) $(-> $result)? {
            #[target_feature(enable = "avx2,fma,f16c")]
            fn inner($($argument: $ty),*) $(-> $result)? $body
            // SAFETY: whoever has this kernel has it from `avx2::kernels`, so the CPU has AVX2, FMA and F16C.
            unsafe { inner($($argument),*) }
        }
    )*};
}

/// x[i] = f(x[i], y[i]) for registers; `y` is as long as `x`, or empty where `f` does not look at it.
#[inline(always)]
fn map(x: &mut [f32], y: &[f32], f: impl Fn(__m256, __m256) -> __m256) {
    let (len, pointer) = (x.len(), x.as_mut_ptr());
    let whole = len - len % LANES;
    let second = if y.len() == len {
        y.as_ptr()
    } else {
        pointer.cast_const()
    };
    // SAFETY: loads and stores stay below `len`; only functions that enable AVX2 call this one, and it is inlined.
    unsafe {
        for start in (0..whole).step_by(LANES) {
            let value = f(
                _mm256_loadu_ps(pointer.add(start)),
                _mm256_loadu_ps(second.add(start)),
            );
            _mm256_storeu_ps(pointer.add(start), value);
        }
        if whole < len {
            let rest = len - whole;
            let value = f(
                load_part(pointer.add(whole), rest),
                load_part(second.add(whole), rest),
            );
            store_part(pointer.add(whole), rest, value);
        }
    }
}

/// Adds up term(x[i], y[i]): lane i of one register takes elements i, i + 8, i + 16 and so on.
#[inline(always)]
fn reduce(x: &[f32], y: &[f32], term: impl Fn(__m256, __m256, __m256) -> __m256) -> f32 {
    let (len, whole) = (x.len(), x.len() - x.len() % LANES);
    debug_assert_eq!(len, y.len());
    // SAFETY: as in `map`.
    unsafe {
        let mut sum = _mm256_setzero_ps();
        for start in (0..whole).step_by(LANES) {
            sum = term(
                _mm256_loadu_ps(x.as_ptr().add(start)),
                _mm256_loadu_ps(y.as_ptr().add(start)),
                sum,
            );
        }
        if whole < len {
            let rest = len - whole;
            sum = term(
                load_part(x.as_ptr().add(whole), rest),
                load_part(y.as_ptr().add(whole), rest),
                sum,
            );
        }
        sum_lanes(sum)
    }
}

#[inline(always)]
fn silu_of(x: __m256) -> __m256 {
    // SAFETY: registers only; inlined into functions that enable AVX2 and FMA.
    unsafe {
        let one = _mm256_set1_ps(1.0);
        _mm256_div_ps(
            x,
            _mm256_add_ps(one, exp(_mm256_xor_ps(x, _mm256_set1_ps(-0.0)))),
        )
    }
}

#[inline(always)]
fn gelu_of(x: __m256) -> __m256 {
    // SAFETY: as in `silu_of`.
    unsafe {
        let one = _mm256_set1_ps(1.0);
        let cube = _mm256_fmadd_ps(_mm256_mul_ps(_mm256_set1_ps(plain::GELU_CUBIC), x), x, one);
        let inner = _mm256_mul_ps(
            _mm256_mul_ps(_mm256_set1_ps(plain::SQRT_2_OVER_PI), x),
            cube,
        );
        _mm256_mul_ps(
            _mm256_mul_ps(_mm256_set1_ps(0.5), x),
            _mm256_add_ps(one, tanh(inner)),
        )
    }
}

/// x *= factor * y, or factor alone without `y`.
#[inline(always)]
fn scale_by(x: &mut [f32], factor: f32, y: Option<&[f32]>) {
    // SAFETY: registers only; inlined into functions that enable AVX2.
    unsafe {
        let factor = _mm256_set1_ps(factor);
        match y {
            Some(y) => {
                let len = x.len().min(y.len());
                map(&mut x[..len], &y[..len], |x, y| {
                    _mm256_mul_ps(_mm256_mul_ps(x, factor), y)
                });
            }
            None => map(x, &[], |x, _| _mm256_mul_ps(x, factor)),
        }
    }
}

#[inline(always)]
fn normalize(x: &mut [f32], weight: Option<&[f32]>, eps: f32) {
    let squares = reduce(x, x, |x, _, sum| multiply_add(x, x, sum));
    scale_by(x, 1.0 / (squares / x.len() as f32 + eps).sqrt(), weight);
}

#[inline(always)]
fn multiply_add(a: __m256, b: __m256, c: __m256) -> __m256 {
    // SAFETY: registers only; inlined into functions that enable FMA.
    unsafe { _mm256_fmadd_ps(a, b, c) }
}

kernels! {
    fn dot(x: &[f32], y: &[f32]) -> f32 {
        reduce(x, y, multiply_add)
    }

    fn add(x: &mut [f32], y: &[f32]) {
        map(x, y, |x, y| _mm256_add_ps(x, y));
    }

    fn mul(x: &mut [f32], y: &[f32]) {
        map(x, y, |x, y| _mm256_mul_ps(x, y));
    }

    fn scale(x: &mut [f32], factor: f32) {
        scale_by(x, factor, None);
    }

    fn add_scaled(x: &mut [f32], factor: f32, y: &[f32]) {
        let factor = _mm256_set1_ps(factor);
        map(x, y, |x, y| _mm256_fmadd_ps(factor, y, x));
    }

    fn rms_norm(x: &mut [f32], weight: Option<&[f32]>, eps: f32) {
        normalize(x, weight, eps);
    }

    fn layer_norm(x: &mut [f32], weight: &[f32], bias: Option<&[f32]>, eps: f32) {
        let mean = _mm256_set1_ps(reduce(x, x, |x, _, sum| _mm256_add_ps(x, sum)) / x.len() as f32);
        map(x, &[], |x, _| _mm256_sub_ps(x, mean));
        normalize(x, Some(weight), eps);
        if let Some(bias) = bias {
            let len = x.len().min(bias.len());
            map(&mut x[..len], &bias[..len], |x, y| _mm256_add_ps(x, y));
        }
    }

    fn softmax(x: &mut [f32]) {
        let first = x.first().copied().unwrap_or(0.0);
        let (body, rest) = x.as_chunks::<LANES>();
        let mut largest = _mm256_set1_ps(first);
        for x in body {
            // SAFETY: a reference to eight floats.
            largest = _mm256_max_ps(largest, unsafe { _mm256_loadu_ps(x.as_ptr()) });
        }
        let largest = rest.iter().copied().fold(max_lanes_of(largest), f32::max);
        let shift = _mm256_set1_ps(largest);
        map(x, &[], |x, _| exp_of(_mm256_sub_ps(x, shift)));
        let sum = reduce(x, x, |x, _, sum| _mm256_add_ps(x, sum));
        scale_by(x, 1.0 / sum, None);
    }

    fn silu(x: &mut [f32]) {
        map(x, &[], |x, _| silu_of(x));
    }

    fn silu_mul(gate: &mut [f32], up: &[f32]) {
        map(gate, up, |gate, up| _mm256_mul_ps(silu_of(gate), up));
    }

    fn gelu_tanh(x: &mut [f32]) {
        map(x, &[], |x, _| gelu_of(x));
    }

    fn gelu_tanh_mul(gate: &mut [f32], up: &[f32]) {
        map(gate, up, |gate, up| _mm256_mul_ps(gelu_of(gate), up));
    }

    fn softcap(x: &mut [f32], cap: f32) {
        let cap = _mm256_set1_ps(cap);
        map(x, &[], |x, _| _mm256_mul_ps(cap, tanh_of(_mm256_div_ps(x, cap))));
    }

    /// The plain body, compiled for wider registers: it has no reductions, so the bits are the same.
    fn rope_normal(x: &mut [f32], cos: &[f32], sin: &[f32]) {
        plain::rope_normal(x, cos, sin);
    }

    /// As `rope_normal`.
    fn rope_neox(x: &mut [f32], cos: &[f32], sin: &[f32]) {
        plain::rope_neox(x, cos, sin);
    }

    fn f32_to_f16(x: &[f32], out: &mut [u8]) {
        let (body, rest) = x.as_chunks::<LANES>();
        let (out, out_rest) = out.split_at_mut(2 * LANES * body.len());
        for (x, out) in body.iter().zip(out.as_chunks_mut::<{ 2 * LANES }>().0) {
            // SAFETY: references to eight floats and 16 bytes.
            unsafe {
                let halves = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(_mm256_loadu_ps(x.as_ptr()));
                _mm_storeu_si128(out.as_mut_ptr().cast(), halves);
            }
        }
        (plain::KERNELS.vector.f32_to_f16)(rest, out_rest);
    }

    fn f16_to_f32(x: &[u8], out: &mut [f32]) {
        let (body, rest) = out.as_chunks_mut::<LANES>();
        let (x, x_rest) = x.split_at(2 * LANES * body.len());
        for (x, out) in x.as_chunks::<{ 2 * LANES }>().0.iter().zip(body) {
            // SAFETY: references to 16 bytes and eight floats.
            unsafe { _mm256_storeu_ps(out.as_mut_ptr(), load_f16(x.as_ptr())) }
        }
        (plain::KERNELS.vector.f16_to_f32)(x_rest, rest);
    }
}

#[inline(always)]
fn max_lanes_of(x: __m256) -> f32 {
    // SAFETY: registers only; inlined into functions that enable AVX2.
    unsafe { max_lanes(x) }
}

#[inline(always)]
fn exp_of(x: __m256) -> __m256 {
    // SAFETY: as in `silu_of`.
    unsafe { exp(x) }
}

#[inline(always)]
fn tanh_of(x: __m256) -> __m256 {
    // SAFETY: as in `silu_of`.
    unsafe { tanh(x) }
}
