//! 8-bit activations.

use std::arch::x86_64::*;

use crate::activations::{ActivationGroup, GROUP};
use crate::plain::scale_of;

/// Rounds to 8-bit codes, ties to even: the same bits as the plain twin.
pub(super) fn quantize(x: &[f32], groups: &mut [ActivationGroup]) {
    for (x, group) in x.as_chunks::<GROUP>().0.iter().zip(groups) {
        // SAFETY: whoever has this kernel has it from `avx2::kernels`, so the CPU has AVX2.
        unsafe { quantize_group(x, group) }
    }
}

#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn quantize_group(x: &[f32; GROUP], group: &mut ActivationGroup) {
    // SAFETY: loads and stores stay inside the 32 elements and codes.
    unsafe {
        let load = |index: usize| _mm256_loadu_ps(x.as_ptr().add(8 * index));
        let x = [load(0), load(1), load(2), load(3)];
        let size = |x| _mm256_castps_si256(_mm256_andnot_ps(_mm256_set1_ps(-0.0), x));
        // Compared as integers, NaN is the largest of all: it must not vanish.
        let largest = _mm256_max_epi32(
            _mm256_max_epi32(size(x[0]), size(x[1])),
            _mm256_max_epi32(size(x[2]), size(x[3])),
        );
        let largest = _mm_max_epi32(
            _mm256_castsi256_si128(largest),
            _mm256_extracti128_si256::<1>(largest),
        );
        let largest = _mm_max_epi32(largest, _mm_shuffle_epi32::<0b01_00_11_10>(largest));
        let largest = _mm_max_epi32(largest, _mm_shuffle_epi32::<0b10_11_00_01>(largest));
        let (scale, inverse) = scale_of(f32::from_bits(_mm_cvtsi128_si32(largest) as u32));
        group.scale = scale;
        if inverse == 0.0 {
            group.codes = [0; GROUP];
            group.sums = [0; 2];
            group.scaled_sum = scale * 0.0;
            return;
        }
        let round = |x| _mm256_cvtps_epi32(_mm256_mul_ps(x, _mm256_set1_ps(inverse)));
        // Each pack works inside 128-bit halves; the permutation puts the groups of four back in order.
        let low = _mm256_packs_epi32(round(x[0]), round(x[1]));
        let high = _mm256_packs_epi32(round(x[2]), round(x[3]));
        let codes = _mm256_permutevar8x32_epi32(
            _mm256_packs_epi16(low, high),
            _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7),
        );
        _mm256_storeu_si256(group.codes.as_mut_ptr().cast(), codes);
        // Distances from -128 add up without sign; each sum of eight goes to 64 bits.
        let sums = _mm256_sad_epu8(
            _mm256_xor_si256(codes, _mm256_set1_epi8(-128)),
            _mm256_setzero_si256(),
        );
        let sums = _mm256_add_epi64(sums, _mm256_unpackhi_epi64(sums, sums));
        let first = _mm_cvtsi128_si32(_mm256_castsi256_si128(sums)) - 16 * 128;
        let second = _mm_cvtsi128_si32(_mm256_extracti128_si256::<1>(sums)) - 16 * 128;
        group.sums = [first as i16, second as i16];
        group.scaled_sum = scale * (first + second) as f32;
    }
}
