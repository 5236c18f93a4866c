//! Q6_K: see `gristmill_quant::block::BlockQ6K` for the layout.

use std::arch::x86_64::*;

use crate::table::TypeKernels;
use crate::x86::panel::{self, BlockRows, Fine, Unpack, groups_of};
use crate::x86::unpack::{
    half_floats, high_nibbles, low_nibbles, store_codes, store_floats, transpose, transpose_32,
};

pub(super) const KERNELS: TypeKernels = panel::kernels::<Rows>(gristmill_quant::Q6_K)
    .with_encoder(super::encode::rows::<gristmill_quant::block::BlockQ6K>);

/// Eight rows of blocks.
struct Rows;

impl Unpack for Rows {
    type Block = gristmill_quant::block::BlockQ6K;
    type Group = Fine<2, false>;

    #[inline(always)]
    unsafe fn unpack(rows: &BlockRows, out: *mut Self::Group) {
        // SAFETY: all offsets are inside the block; the caller has the instruction set and room for the groups.
        unsafe {
            let groups = groups_of::<Self, 8>(out);
            for half in 0..2 {
                let low = [
                    transpose_32(rows, 64 * half),
                    transpose_32(rows, 64 * half + 32),
                ];
                let high = transpose_32(rows, 128 + 32 * half);
                let bits = _mm256_set1_epi8(0x30);
                for k in 0..8 {
                    // Two bits of each byte, moved to bits 4 and 5.
                    let tops = [
                        _mm256_slli_epi16::<4>(high[k]),
                        _mm256_slli_epi16::<2>(high[k]),
                        high[k],
                        _mm256_srli_epi16::<2>(high[k]),
                    ];
                    for quarter in 0..4 {
                        let source = low[quarter % 2][k];
                        let nibbles = if quarter < 2 {
                            low_nibbles(source)
                        } else {
                            high_nibbles(source)
                        };
                        let codes = _mm256_or_si256(nibbles, _mm256_and_si256(tops[quarter], bits));
                        store_codes(&mut groups[4 * half + quarter].codes[k], codes);
                    }
                }
            }
            let (scales, d) = (transpose(rows, 192), half_floats(rows, 208));
            for (index, group) in groups.iter_mut().enumerate() {
                group.set_scales(index, &scales);
                // Times the 32 that codes are above their values.
                group.set_shifts::<3>(index, &scales);
                store_floats(&mut group.d, d);
            }
        }
    }
}
