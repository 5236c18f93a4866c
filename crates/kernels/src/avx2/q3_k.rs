//! Q3_K: see `gristmill_quant::block::BlockQ3K` for the layout.

use std::arch::x86_64::*;

use crate::split::RowTile;
use crate::table::{Product, ProductKernel};
use crate::x86::panel::{
    self, BlockRows, Fine, Unpack, half_floats, high_bytes, high_nibbles, low_nibbles, shift,
    store_codes, store_floats, store_words, transpose, transpose_32,
};

pub(super) const PRODUCT: ProductKernel = ProductKernel {
    ty: gristmill_quant::Q3_K,
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
    type Group = Fine<4, false>;
    const GROUPS: usize = 8;
    const BLOCK_BYTES: usize = size_of::<gristmill_quant::block::BlockQ3K>();

    #[inline(always)]
    unsafe fn unpack(rows: &BlockRows, out: *mut Self::Group) {
        // SAFETY: all offsets are inside the block; the caller has the instruction set and room for the groups.
        unsafe {
            let groups = &mut *out.cast::<[Self::Group; 8]>();
            let high = transpose_32(rows, 0);
            for half in 0..2 {
                let quants = transpose_32(rows, 32 + 32 * half);
                for k in 0..8 {
                    for quarter in 0..4 {
                        let low = _mm256_and_si256(
                            _mm256_srl_epi16(quants[k], shift(2 * quarter)),
                            _mm256_set1_epi8(3),
                        );
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
                let (scale, first) = (scales[index / 2], 2 * (index % 2) as i32);
                store_words(
                    &mut group.scales[0],
                    _mm256_srai_epi16::<8>(high_bytes(scale, first, first)),
                );
                store_words(
                    &mut group.scales[1],
                    _mm256_srai_epi16::<8>(high_bytes(scale, first + 1, first + 1)),
                );
                // Times the 4 that codes are above their values.
                store_words(
                    &mut group.shifts,
                    _mm256_srai_epi16::<6>(high_bytes(scale, first, first + 1)),
                );
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
