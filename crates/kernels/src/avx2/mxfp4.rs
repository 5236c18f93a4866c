//! MXFP4: see `gristmill_quant::block::BlockMxfp4` for the layout.

use std::arch::x86_64::*;

use crate::table::TypeKernels;
use crate::x86::panel::{self, BlockRows, Coarse, Unpack};
use crate::x86::unpack::{E2M1_OFFSET, bytes, e2m1_codes, store_codes, store_floats, transpose};

pub(super) const KERNELS: TypeKernels = panel::kernels::<Rows>(gristmill_quant::MXFP4)
    .with_encoder(super::encode::rows::<gristmill_quant::block::BlockMxfp4>);

/// Eight rows of blocks.
struct Rows;

impl Unpack for Rows {
    type Block = gristmill_quant::block::BlockMxfp4;
    type Group = Coarse<4, E2M1_OFFSET, false>;

    #[inline(always)]
    unsafe fn unpack(rows: &BlockRows, out: *mut Self::Group) {
        // SAFETY: all offsets are inside the block; the caller has the instruction set and room for the groups.
        unsafe {
            let group = &mut *out;
            let quants = transpose(rows, 1);
            for k in 0..4 {
                let (low, high) = e2m1_codes(quants[k]);
                store_codes(&mut group.codes[k], low);
                store_codes(&mut group.codes[k + 4], high);
            }
            store_floats(&mut group.scale, half_scales(bytes(rows, 0)));
        }
    }
}

/// Two to the power of e - 128, where e is 0 or 1 with a subnormal result.
#[inline(always)]
unsafe fn half_scales(e: __m256i) -> __m256 {
    // SAFETY: registers only.
    unsafe {
        let normal = _mm256_slli_epi32::<23>(_mm256_sub_epi32(e, _mm256_set1_epi32(1)));
        let subnormal = _mm256_sllv_epi32(_mm256_set1_epi32(0x0020_0000), e);
        let is_normal = _mm256_cmpgt_epi32(e, _mm256_set1_epi32(1));
        _mm256_castsi256_ps(_mm256_blendv_epi8(subnormal, normal, is_normal))
    }
}
