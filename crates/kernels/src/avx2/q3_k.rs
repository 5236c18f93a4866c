//! Q3_K: see `gristmill_quant::block::BlockQ3K` for the layout.

use std::arch::x86_64::*;

use crate::table::TypeKernels;
use crate::x86::panel::{self, BlockRows, Fine, Unpack, groups_of};
use crate::x86::unpack::{
    half_floats, high_nibbles, low_nibbles, shift, store_codes, store_floats, transpose,
    transpose_32, two_bits,
};

pub(super) const KERNELS: TypeKernels = panel::kernels::<Rows>(gristmill_quant::Q3_K)
    .with_encoder(super::encode::rows::<gristmill_quant::block::BlockQ3K>);

/// Eight rows of blocks.
struct Rows;

impl Unpack for Rows {
    type Block = gristmill_quant::block::BlockQ3K;
    type Group = Fine<4, false>;

    #[inline(always)]
    unsafe fn unpack(rows: &BlockRows, out: *mut Self::Group) {
        // SAFETY: all offsets are inside the block; the caller has the instruction set and room for the groups.
        unsafe {
            let groups = groups_of::<Self, 8>(out);
            let high = transpose_32(rows, 0);
            for half in 0..2 {
                let quants = transpose_32(rows, 32 + 32 * half);
                for k in 0..8 {
                    for quarter in 0..4 {
                        let low = two_bits(quants[k], quarter);
                        let top = _mm256_and_si256(
                            _mm256_srl_epi16(high[k], shift(4 * half + quarter)),
                            _mm256_set1_epi8(1),
                        );
                        let codes = _mm256_or_si256(low, _mm256_slli_epi16::<2>(top));
                        store_codes(&mut groups[4 * half + quarter].codes[k], codes);
                    }
                }
            }
            let (scales, d) = (scales(transpose(rows, 92)), half_floats(rows, 108));
            for (index, group) in groups.iter_mut().enumerate() {
                group.set_scales(index, &scales);
                // Times the 4 that codes are above their values.
                group.set_shifts::<6>(index, &scales);
                store_floats(&mut group.d, d);
            }
        }
    }
}

/// The 16 scales of each row, four per vector, one per byte, from the words that end with them.
#[inline(always)]
unsafe fn scales([_, a, b, c]: [__m256i; 4]) -> [__m256i; 4] {
    // SAFETY: registers only.
    unsafe {
        let low = [
            low_nibbles(a),
            low_nibbles(b),
            high_nibbles(a),
            high_nibbles(b),
        ];
        let mut scales = low;
        for index in 0..4 {
            let top = _mm256_and_si256(_mm256_srl_epi16(c, shift(2 * index)), _mm256_set1_epi8(3));
            let scale = _mm256_or_si256(low[index], _mm256_slli_epi16::<4>(top));
            scales[index] = _mm256_sub_epi8(scale, _mm256_set1_epi8(32));
        }
        scales
    }
}
