//! NVFP4: see `gristmill_quant::block::BlockNvfp4` for the layout.

use std::arch::x86_64::*;

use crate::table::TypeKernels;
use crate::x86::panel::{self, BlockRows, Halves, Unpack, groups_of};
use crate::x86::unpack::{
    E2M1_OFFSET, e2m1_codes, shift, store_codes, store_floats, transpose, transpose_32,
};

pub(super) const KERNELS: TypeKernels = panel::kernels::<Rows>(gristmill_quant::NVFP4)
    .with_encoder(super::encode::rows::<gristmill_quant::block::BlockNvfp4>);

/// Eight rows of blocks.
struct Rows;

impl Unpack for Rows {
    type Block = gristmill_quant::block::BlockNvfp4;
    type Group = Halves<E2M1_OFFSET>;

    #[inline(always)]
    unsafe fn unpack(rows: &BlockRows, out: *mut Self::Group) {
        // SAFETY: all offsets are inside the block; the caller has the instruction set and room for the groups.
        unsafe {
            let groups = groups_of::<Self, 2>(out);
            let (scales, quants) = (transpose(rows, 0)[0], transpose_32(rows, 4));
            for quarter in 0..4 {
                let (group, half) = (&mut groups[quarter / 2], quarter % 2);
                for k in 0..2 {
                    let (low, high) = e2m1_codes(quants[2 * quarter + k]);
                    store_codes(&mut group.codes[4 * half + k], low);
                    store_codes(&mut group.codes[4 * half + k + 2], high);
                }
                let scale = half_ue4m3(_mm256_srl_epi32(scales, shift(8 * quarter)));
                store_floats(&mut group.scales[half], scale);
            }
        }
    }
}

/// Halves of the UE4M3 numbers in the low bytes of the lanes.
#[inline(always)]
unsafe fn half_ue4m3(x: __m256i) -> __m256 {
    // SAFETY: registers only.
    unsafe {
        let is_nan = _mm256_cmpeq_epi32(
            _mm256_and_si256(x, _mm256_set1_epi32(0xff)),
            _mm256_set1_epi32(0x7f),
        );
        // Read as binary32 the exponent is 120 too small; one exact product mends normal and subnormal alike.
        let bits = _mm256_slli_epi32::<20>(_mm256_and_si256(x, _mm256_set1_epi32(0x7f)));
        let bits = _mm256_castsi256_ps(_mm256_andnot_si256(is_nan, bits));
        _mm256_mul_ps(bits, _mm256_set1_ps(f32::from_bits((127 + 119) << 23)))
    }
}
