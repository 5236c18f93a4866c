//! Encoders: the searches of `quant`, compiled for AVX2 and run on its registers.
//!
//! No fused multiply-add: the bytes are those of the plain encoders.

use std::arch::x86_64::*;
use std::ops::{Add, BitAnd, Div, Mul, Neg, Sub};

use gristmill_quant::encoding::{
    Block, Encode, LANES, Lanes, LevelTable, decode_blocks, encode_rows,
};

/// The encoder of a type: its search on the registers of this instruction set.
pub(super) fn rows<B: Encode>(
    x: &[f32],
    row_len: usize,
    importance: Option<&[f32]>,
    out: &mut [u8],
) {
    #[target_feature(enable = "avx2")]
    fn inner<B: Encode>(x: &[f32], row_len: usize, importance: Option<&[f32]>, out: &mut [u8]) {
        encode_rows::<F32x8, B>(x, row_len, importance, out);
    }
    // SAFETY: whoever has this encoder has it from `avx2::kernels`, so the CPU has AVX2.
    unsafe { inner::<B>(x, row_len, importance, out) }
}

/// The decoder of a type.
pub(super) fn decode<B: Block>(bytes: &[u8], out: &mut [f32]) {
    #[target_feature(enable = "avx2")]
    fn inner<B: Block>(bytes: &[u8], out: &mut [f32]) {
        decode_blocks::<B>(bytes, out);
    }
    // SAFETY: as in `rows`.
    unsafe { inner::<B>(bytes, out) }
}

/// Eight floats in a register. Values of this type exist only inside the encoders above, hence only where the CPU
/// has AVX2: that is the reason for every `unsafe` block of its methods.
#[derive(Clone, Copy)]
struct F32x8(__m256);

/// Eight truth values: all bits set or none.
#[derive(Clone, Copy)]
struct Mask(__m256);

/// Wraps an expression of AVX2 intrinsics.
macro_rules! avx2 {
    ($expression:expr) => {
        // SAFETY: see `F32x8`.
        unsafe { $expression }
    };
}

impl Lanes for F32x8 {
    type Ints = __m256i;
    type Mask = Mask;

    #[inline(always)]
    fn load(x: [f32; LANES]) -> Self {
        F32x8(avx2!(_mm256_loadu_ps(x.as_ptr())))
    }

    #[inline(always)]
    fn store(self) -> [f32; LANES] {
        let mut x = [0.0; LANES];
        avx2!(_mm256_storeu_ps(x.as_mut_ptr(), self.0));
        x
    }

    #[inline(always)]
    fn splat(x: f32) -> Self {
        F32x8(avx2!(_mm256_set1_ps(x)))
    }

    #[inline(always)]
    fn abs(self) -> Self {
        F32x8(avx2!(_mm256_andnot_ps(_mm256_set1_ps(-0.0), self.0)))
    }

    #[inline(always)]
    fn sqrt(self) -> Self {
        F32x8(avx2!(_mm256_sqrt_ps(self.0)))
    }

    #[inline(always)]
    fn greater(self, other: Self) -> Mask {
        Mask(avx2!(_mm256_cmp_ps::<_CMP_GT_OQ>(self.0, other.0)))
    }

    #[inline(always)]
    fn equal(self, other: Self) -> Mask {
        Mask(avx2!(_mm256_cmp_ps::<_CMP_EQ_OQ>(self.0, other.0)))
    }

    #[inline(always)]
    fn nearest(self) -> __m256i {
        avx2!({
            let bits = _mm256_castps_si256(_mm256_add_ps(self.0, _mm256_set1_ps(12_582_912.0)));
            let low = _mm256_and_si256(bits, _mm256_set1_epi32(0x007f_ffff));
            _mm256_sub_epi32(low, _mm256_set1_epi32(0x0040_0000))
        })
    }

    #[inline(always)]
    fn truncate(self) -> __m256i {
        avx2!(_mm256_cvttps_epi32(self.0))
    }

    /// Four comparisons, each with the middle of what the ones before left. A comparison gives 0 or -1, so the index
    /// grows downwards from 0; permutations look at its low three bits.
    #[inline(always)]
    fn nearest_level(self, table: &LevelTable) -> (__m256i, Self) {
        let (middles, values) = (&table.middles, &table.values);
        let downwards = |first: usize, step: usize, x: &[f32]| {
            std::array::from_fn(|at| x[first + (8 - at) % 8 * step % x.len()])
        };
        avx2!({
            // Not below: true for NaN.
            let reached = |middle| _mm256_cmp_ps::<_CMP_NLT_UQ>(self.0, middle);
            let entry = |x: [f32; LANES], index| _mm256_permutevar8x32_ps(Self::load(x).0, index);
            let next = |index, bit| {
                _mm256_add_epi32(_mm256_add_epi32(index, index), _mm256_castps_si256(bit))
            };
            let upper = reached(_mm256_set1_ps(middles[7]));
            let middle = _mm256_blendv_ps(
                _mm256_set1_ps(middles[3]),
                _mm256_set1_ps(middles[11]),
                upper,
            );
            let index = next(_mm256_castps_si256(upper), reached(middle));
            let index = next(index, reached(entry(downwards(1, 4, middles), index)));
            let index = next(index, reached(entry(downwards(0, 2, middles), index)));
            let value = _mm256_blendv_ps(
                entry(downwards(0, 1, &values[..8]), index),
                entry(downwards(0, 1, &values[8..]), index),
                upper,
            );
            (
                _mm256_sub_epi32(_mm256_setzero_si256(), index),
                F32x8(value),
            )
        })
    }

    #[inline(always)]
    fn splat_int(n: i32) -> __m256i {
        avx2!(_mm256_set1_epi32(n))
    }

    #[inline(always)]
    fn load_ints(ints: [i32; LANES]) -> __m256i {
        avx2!(_mm256_loadu_si256(ints.as_ptr().cast()))
    }

    #[inline(always)]
    fn load_short(ints: &[u16; LANES]) -> __m256i {
        avx2!(_mm256_cvtepu16_epi32(_mm_loadu_si128(ints.as_ptr().cast())))
    }

    #[inline(always)]
    fn store_ints(ints: __m256i) -> [i32; LANES] {
        let mut x = [0; LANES];
        avx2!(_mm256_storeu_si256(x.as_mut_ptr().cast(), ints));
        x
    }

    #[inline(always)]
    fn from_ints(ints: __m256i) -> Self {
        F32x8(avx2!(_mm256_cvtepi32_ps(ints)))
    }

    #[inline(always)]
    fn add_int(ints: __m256i, n: i32) -> __m256i {
        avx2!(_mm256_add_epi32(ints, _mm256_set1_epi32(n)))
    }

    #[inline(always)]
    fn and_int(ints: __m256i, n: i32) -> __m256i {
        avx2!(_mm256_and_si256(ints, _mm256_set1_epi32(n)))
    }

    #[inline(always)]
    fn or_ints(a: __m256i, b: __m256i) -> __m256i {
        avx2!(_mm256_or_si256(a, b))
    }

    #[inline(always)]
    fn shift_left(ints: __m256i, n: u32) -> __m256i {
        avx2!(_mm256_sllv_epi32(ints, _mm256_set1_epi32(n as i32)))
    }

    #[inline(always)]
    fn shift_right(ints: __m256i, n: u32) -> __m256i {
        avx2!(_mm256_srlv_epi32(ints, _mm256_set1_epi32(n as i32)))
    }

    #[inline(always)]
    fn clamp_ints(ints: __m256i, min: i32, max: i32) -> __m256i {
        avx2!(_mm256_max_epi32(
            _mm256_min_epi32(ints, _mm256_set1_epi32(max)),
            _mm256_set1_epi32(min)
        ))
    }

    #[inline(always)]
    fn differ_ints(a: __m256i, b: __m256i) -> Mask {
        avx2!({
            let equal = _mm256_cmpeq_epi32(a, b);
            Mask(_mm256_castsi256_ps(_mm256_xor_si256(
                equal,
                _mm256_set1_epi32(-1),
            )))
        })
    }

    #[inline(always)]
    fn look_up(self, ints: __m256i) -> Self {
        F32x8(avx2!(_mm256_permutevar8x32_ps(self.0, ints)))
    }

    #[inline(always)]
    fn smallest(self) -> f32 {
        avx2!({
            let halves = _mm_min_ps(
                _mm256_castps256_ps128(self.0),
                _mm256_extractf128_ps::<1>(self.0),
            );
            let pairs = _mm_min_ps(halves, _mm_movehl_ps(halves, halves));
            _mm_cvtss_f32(_mm_min_ss(pairs, _mm_movehdup_ps(pairs)))
        })
    }

    #[inline(always)]
    fn bits(mask: Mask) -> u32 {
        avx2!(_mm256_movemask_ps(mask.0)) as u32
    }

    #[inline(always)]
    fn any(mask: Mask) -> bool {
        avx2!(_mm256_movemask_ps(mask.0)) != 0
    }

    #[inline(always)]
    fn choose(mask: Mask, yes: Self, no: Self) -> Self {
        F32x8(avx2!(_mm256_blendv_ps(no.0, yes.0, mask.0)))
    }

    #[inline(always)]
    fn choose_ints(mask: Mask, yes: __m256i, no: __m256i) -> __m256i {
        avx2!(_mm256_blendv_epi8(no, yes, _mm256_castps_si256(mask.0)))
    }
}

impl BitAnd for Mask {
    type Output = Self;
    #[inline(always)]
    fn bitand(self, other: Self) -> Self {
        Mask(avx2!(_mm256_and_ps(self.0, other.0)))
    }
}

impl Add for F32x8 {
    type Output = Self;
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        F32x8(avx2!(_mm256_add_ps(self.0, other.0)))
    }
}

impl Sub for F32x8 {
    type Output = Self;
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        F32x8(avx2!(_mm256_sub_ps(self.0, other.0)))
    }
}

impl Mul for F32x8 {
    type Output = Self;
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        F32x8(avx2!(_mm256_mul_ps(self.0, other.0)))
    }
}

impl Div for F32x8 {
    type Output = Self;
    #[inline(always)]
    fn div(self, other: Self) -> Self {
        F32x8(avx2!(_mm256_div_ps(self.0, other.0)))
    }
}

impl Neg for F32x8 {
    type Output = Self;
    #[inline(always)]
    fn neg(self) -> Self {
        F32x8(avx2!(_mm256_xor_ps(_mm256_set1_ps(-0.0), self.0)))
    }
}
