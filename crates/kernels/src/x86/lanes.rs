//! Small pieces that kernels share: partial loads, sums over lanes, half floats, exp and tanh.
//!
//! The functions are inlined into callers that enable the instruction set.

use std::arch::x86_64::*;

/// f32 lanes of one register.
pub(crate) const LANES: usize = 8;

/// Loads `len` < 8 values, the other lanes zero.
///
/// # Safety
/// AVX2; `len` values at `x`.
#[inline(always)]
pub(crate) unsafe fn load_part(x: *const f32, len: usize) -> __m256 {
    // SAFETY: the mask keeps the load inside the caller's values.
    unsafe { _mm256_maskload_ps(x, part_mask(len)) }
}

/// Stores the first `len` < 8 lanes.
///
/// # Safety
/// AVX2; room for `len` values at `x`.
#[inline(always)]
pub(crate) unsafe fn store_part(x: *mut f32, len: usize, value: __m256) {
    // SAFETY: the mask keeps the store inside the caller's values.
    unsafe { _mm256_maskstore_ps(x, part_mask(len), value) }
}

#[inline(always)]
unsafe fn part_mask(len: usize) -> __m256i {
    // SAFETY: registers only; callers have AVX2.
    unsafe {
        _mm256_cmpgt_epi32(
            _mm256_set1_epi32(len as i32),
            _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7),
        )
    }
}

/// Sum of the lanes: ((0 + 4) + (2 + 6)) + ((1 + 5) + (3 + 7)).
///
/// # Safety
/// AVX2.
#[inline(always)]
pub(crate) unsafe fn sum_lanes(x: __m256) -> f32 {
    // SAFETY: registers only; callers have AVX2.
    unsafe {
        let x = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps::<1>(x));
        let x = _mm_add_ps(x, _mm_movehl_ps(x, x));
        _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)))
    }
}

/// Largest lane; NaN where a lane is NaN is not promised.
///
/// # Safety
/// AVX2.
#[inline(always)]
pub(crate) unsafe fn max_lanes(x: __m256) -> f32 {
    // SAFETY: registers only; callers have AVX2.
    unsafe {
        let x = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps::<1>(x));
        let x = _mm_max_ps(x, _mm_movehl_ps(x, x));
        _mm_cvtss_f32(_mm_max_ss(x, _mm_movehdup_ps(x)))
    }
}

/// e^x to about 1 ulp; 0 below -103.97, infinity above 88.72, NaN stays.
///
/// x = k ln 2 + r with |r| <= ln 2 / 2, e^r by a polynomial, 2^k in two factors so that subnormal results come out right.
///
/// # Safety
/// AVX2, FMA.
#[inline(always)]
pub(crate) unsafe fn exp(x: __m256) -> __m256 {
    // SAFETY: registers only; callers have AVX2 and FMA.
    unsafe {
        // min and max return their second operand when one is NaN.
        let x = _mm256_max_ps(
            _mm256_set1_ps(-110.0),
            _mm256_min_ps(_mm256_set1_ps(100.0), x),
        );
        let k = _mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(
            _mm256_mul_ps(x, _mm256_set1_ps(std::f32::consts::LOG2_E)),
        );
        // ln 2 in two parts: the first has few bits, so that k * part is exact.
        let r = _mm256_fnmadd_ps(k, _mm256_set1_ps(0.693_359_4), x);
        let r = _mm256_fnmadd_ps(k, _mm256_set1_ps(-2.121_944_4e-4), r);
        let mut p = _mm256_set1_ps(1.0 / 5040.0);
        for coefficient in [
            1.0 / 720.0,
            1.0 / 120.0,
            1.0 / 24.0,
            1.0 / 6.0,
            0.5,
            1.0,
            1.0,
        ] {
            p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(coefficient));
        }
        let k = _mm256_cvtps_epi32(k);
        let half = _mm256_srai_epi32::<1>(k);
        let power = |k| {
            _mm256_castsi256_ps(_mm256_slli_epi32::<23>(_mm256_add_epi32(
                k,
                _mm256_set1_epi32(127),
            )))
        };
        _mm256_mul_ps(
            _mm256_mul_ps(p, power(half)),
            power(_mm256_sub_epi32(k, half)),
        )
    }
}

/// tanh(x) to about 2 ulp; NaN stays.
///
/// Small arguments by an odd polynomial (where 1 - 2 / (e^2x + 1) would cancel), others through [`exp`].
///
/// # Safety
/// AVX2, FMA.
#[inline(always)]
pub(crate) unsafe fn tanh(x: __m256) -> __m256 {
    // SAFETY: registers only; callers have AVX2 and FMA.
    unsafe {
        let sign = _mm256_and_ps(x, _mm256_set1_ps(-0.0));
        let size = _mm256_andnot_ps(_mm256_set1_ps(-0.0), x);
        let one = _mm256_set1_ps(1.0);
        let power = exp(_mm256_add_ps(size, size));
        let large = _mm256_sub_ps(
            one,
            _mm256_div_ps(_mm256_set1_ps(2.0), _mm256_add_ps(power, one)),
        );
        let square = _mm256_mul_ps(size, size);
        // The Taylor series of tanh(x) / x - 1 in x^2.
        let mut p = _mm256_set1_ps((-929_569.0_f64 / 638_512_875.0 * 1.0) as f32);
        for coefficient in [
            21_844.0 / 6_081_075.0,
            -1_382.0 / 155_925.0,
            62.0 / 2_835.0,
            -17.0 / 315.0,
            2.0 / 15.0,
            -1.0 / 3.0_f64,
        ] {
            p = _mm256_fmadd_ps(p, square, _mm256_set1_ps(coefficient as f32));
        }
        let small = _mm256_fmadd_ps(_mm256_mul_ps(p, square), size, size);
        let is_small = _mm256_cmp_ps::<_CMP_LT_OQ>(size, _mm256_set1_ps(0.4));
        _mm256_or_ps(_mm256_blendv_ps(large, small, is_small), sign)
    }
}

/// Widens 8 little-endian f16.
///
/// # Safety
/// AVX2, F16C; 16 bytes at `x`.
#[inline(always)]
pub(crate) unsafe fn load_f16(x: *const u8) -> __m256 {
    // SAFETY: 16 bytes are there; the load needs no alignment.
    unsafe { _mm256_cvtph_ps(_mm_loadu_si128(x.cast())) }
}
