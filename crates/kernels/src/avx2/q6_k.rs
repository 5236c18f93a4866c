//! Q6_K: see `gristmill_quant::block::BlockQ6K` for the layout.

use std::arch::x86_64::*;

use crate::split::RowTile;
use crate::table::{Product, ProductKernel};
use crate::x86::panel::{
    self, BlockRows, Fine, Unpack, half_floats, high_bytes, high_nibbles, low_nibbles, store_codes,
    store_floats, store_words, transpose, transpose_32,
};

pub(super) const PRODUCT: ProductKernel = ProductKernel {
    ty: gristmill_quant::Q6_K,
    run,
    row_step: panel::ROWS,
};

fn run(product: &Product<'_>, tile: &mut RowTile<'_>) {
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn run(product: &Product<'_>, tile: &mut RowTile<'_>) {
        // SAFETY: this function enables the instruction set; the caller's lengths fit.
        unsafe { panel::product::<Rows>(product, tile) }
    }
    // SAFETY: this table is in use only where the CPU has AVX2, FMA and F16C; `matmul` checked the lengths.
    unsafe { run(product, tile) }
}

/// Eight rows of blocks.
struct Rows;

impl Unpack for Rows {
    type Group = Fine<2, false>;
    const GROUPS: usize = 8;
    const BLOCK_BYTES: usize = size_of::<gristmill_quant::block::BlockQ6K>();

    #[inline(always)]
    unsafe fn unpack(rows: &BlockRows, out: *mut Self::Group) {
        // SAFETY: all offsets are inside the block; the caller has the instruction set and room for the groups.
        unsafe {
            let groups = &mut *out.cast::<[Self::Group; 8]>();
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
                let (scale, first) = (scales[index / 2], 2 * (index % 2) as i32);
                store_words(
                    &mut group.scales[0],
                    _mm256_srai_epi16::<8>(high_bytes(scale, first, first)),
                );
                store_words(
                    &mut group.scales[1],
                    _mm256_srai_epi16::<8>(high_bytes(scale, first + 1, first + 1)),
                );
                // Times the 32 that codes are above their values.
                store_words(
                    &mut group.shifts,
                    _mm256_srai_epi16::<3>(high_bytes(scale, first, first + 1)),
                );
                store_floats(&mut group.d, d);
            }
        }
    }
}
