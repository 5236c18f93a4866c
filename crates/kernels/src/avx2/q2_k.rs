//! Q2_K: see `gristmill_quant::block::BlockQ2K` for the layout.

use std::arch::x86_64::*;

use crate::split::RowTile;
use crate::table::{Product, ProductKernel};
use crate::x86::panel::{
    self, BlockRows, Fine, Unpack, half_floats, high_bytes, high_nibbles, low_nibbles, shift,
    store_codes, store_floats, store_words, transpose, transpose_32,
};

pub(super) const PRODUCT: ProductKernel = ProductKernel {
    ty: gristmill_quant::Q2_K,
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
    type Group = Fine<4, true>;
    const GROUPS: usize = 8;
    const BLOCK_BYTES: usize = size_of::<gristmill_quant::block::BlockQ2K>();

    #[inline(always)]
    unsafe fn unpack(rows: &BlockRows, out: *mut Self::Group) {
        // SAFETY: all offsets are inside the block; the caller has the instruction set and room for the groups.
        unsafe {
            let groups = &mut *out.cast::<[Self::Group; 8]>();
            for half in 0..2 {
                let quants = transpose_32(rows, 16 + 32 * half);
                for k in 0..8 {
                    for quarter in 0..4 {
                        let codes = _mm256_and_si256(
                            _mm256_srl_epi16(quants[k], shift(2 * quarter)),
                            _mm256_set1_epi8(3),
                        );
                        store_codes(&mut groups[4 * half + quarter].codes[k], codes);
                    }
                }
            }
            let (scales, d, d_min) = (
                transpose(rows, 0),
                half_floats(rows, 80),
                half_floats(rows, 82),
            );
            for (index, group) in groups.iter_mut().enumerate() {
                let (scale, min) = (
                    low_nibbles(scales[index / 2]),
                    high_nibbles(scales[index / 2]),
                );
                let first = 2 * (index % 2) as i32;
                store_words(
                    &mut group.scales[0],
                    _mm256_srai_epi16::<8>(high_bytes(scale, first, first)),
                );
                store_words(
                    &mut group.scales[1],
                    _mm256_srai_epi16::<8>(high_bytes(scale, first + 1, first + 1)),
                );
                store_words(
                    &mut group.shifts,
                    _mm256_srai_epi16::<8>(high_bytes(min, first, first + 1)),
                );
                store_floats(&mut group.d, d);
                store_floats(&mut group.d_min, d_min);
            }
        }
    }
}
