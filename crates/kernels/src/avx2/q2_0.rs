//! Q2_0: see `gristmill_quant::block::BlockQ2_0` for the layout.

use std::arch::x86_64::*;

use crate::table::TypeKernels;
use crate::x86::panel::{self, BlockRows, Coarse, Unpack, groups_of};
use crate::x86::unpack::{half_floats, shift, store_codes, store_floats, transpose};

pub(super) const KERNELS: TypeKernels = panel::kernels::<Rows>(gristmill_quant::Q2_0)
    .with_encoder(super::encode::rows::<gristmill_quant::block::BlockQ2_0>);

/// Eight rows of blocks.
struct Rows;

impl Unpack for Rows {
    type Block = gristmill_quant::block::BlockQ2_0;
    type Group = Coarse<8, 1, false>;

    #[inline(always)]
    unsafe fn unpack(rows: &BlockRows, out: *mut Self::Group) {
        // SAFETY: all offsets are inside the block; the caller has the instruction set and room for the groups.
        unsafe {
            let groups = groups_of::<Self, 2>(out);
            let (quants, d) = (transpose(rows, 2), half_floats(rows, 0));
            for (index, group) in groups.iter_mut().enumerate() {
                for k in 0..8 {
                    let quants = quants[2 * index + k / 4];
                    store_codes(&mut group.codes[k], four_codes(quants, k % 4));
                }
                store_floats(&mut group.scale, d);
            }
        }
    }
}

/// The four codes in one byte of each lane.
#[inline(always)]
unsafe fn four_codes(quants: __m256i, byte: usize) -> __m256i {
    // SAFETY: registers only.
    unsafe {
        let x = _mm256_srl_epi32(quants, shift(8 * byte));
        let x = _mm256_and_si256(x, _mm256_set1_epi32(0xff));
        // Code n, at bit 2n, comes to bit 8n when moved up by 6n.
        let x = _mm256_or_si256(x, _mm256_slli_epi32::<12>(x));
        let x = _mm256_or_si256(x, _mm256_slli_epi32::<6>(x));
        _mm256_and_si256(x, _mm256_set1_epi8(3))
    }
}
