//! Q5_K: see `gristmill_quant::block::BlockQ5K` for the layout.

use std::arch::x86_64::*;

use crate::table::TypeKernels;
use crate::x86::panel::{self, BlockRows, Coarse, Unpack, groups_of};
use crate::x86::unpack::{
    high_nibbles, low_nibbles, shift, six_bit_scales, store_codes, store_floats, transpose,
    transpose_32,
};

pub(super) const KERNELS: TypeKernels = panel::kernels::<Rows>(gristmill_quant::Q5_K)
    .with_encoder(super::encode::rows::<gristmill_quant::block::BlockQ5K>);

/// Eight rows of blocks.
struct Rows;

impl Unpack for Rows {
    type Block = gristmill_quant::block::BlockQ5K;
    type Group = Coarse<4, 0, true>;

    #[inline(always)]
    unsafe fn unpack(rows: &BlockRows, out: *mut Self::Group) {
        // SAFETY: all offsets are inside the block; the caller has the instruction set and room for the groups.
        unsafe {
            let groups = groups_of::<Self, 8>(out);
            let high = transpose_32(rows, 16);
            for pair in 0..4 {
                let quants = transpose_32(rows, 48 + 32 * pair);
                for k in 0..8 {
                    let fifth = [
                        fifth_bit(high[k], 2 * pair),
                        fifth_bit(high[k], 2 * pair + 1),
                    ];
                    store_codes(
                        &mut groups[2 * pair].codes[k],
                        _mm256_or_si256(low_nibbles(quants[k]), fifth[0]),
                    );
                    store_codes(
                        &mut groups[2 * pair + 1].codes[k],
                        _mm256_or_si256(high_nibbles(quants[k]), fifth[1]),
                    );
                }
            }
            let (scales, mins) = six_bit_scales(transpose(rows, 0));
            for index in 0..8 {
                store_floats(&mut groups[index].scale, scales[index]);
                store_floats(&mut groups[index].min, mins[index]);
            }
        }
    }
}

/// Bit `index` of each byte, moved to bit 4.
#[inline(always)]
unsafe fn fifth_bit(high: __m256i, index: usize) -> __m256i {
    // SAFETY: registers only.
    unsafe {
        let bit = _mm256_and_si256(_mm256_srl_epi16(high, shift(index)), _mm256_set1_epi8(1));
        _mm256_slli_epi16::<4>(bit)
    }
}
