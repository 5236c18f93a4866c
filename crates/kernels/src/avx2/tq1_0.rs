//! TQ1_0: see `gristmill_quant::block::BlockTq1_0` for the layout.

use std::arch::x86_64::*;

use crate::table::TypeKernels;
use crate::x86::panel::{self, BlockRows, Coarse, Unpack, groups_of};
use crate::x86::unpack::{half_floats, store_codes, store_floats, transpose, transpose_32, words};

pub(super) const KERNELS: TypeKernels = panel::kernels::<Rows>(gristmill_quant::TQ1_0)
    .with_encoder(super::encode::rows::<gristmill_quant::block::BlockTq1_0>);

/// Eight rows of blocks.
struct Rows;

impl Unpack for Rows {
    type Block = gristmill_quant::block::BlockTq1_0;
    type Group = Coarse<8, 1, false>;

    #[inline(always)]
    unsafe fn unpack(rows: &BlockRows, out: *mut Self::Group) {
        // SAFETY: all offsets are inside the block; the caller has the instruction set and room for the groups.
        unsafe {
            let groups = groups_of::<Self, 8>(out);
            for (k, mut quants) in transpose_32(rows, 0).into_iter().enumerate() {
                for group in &mut groups[..5] {
                    store_codes(&mut group.codes[k], next_digits(&mut quants));
                }
            }
            for (k, mut quants) in transpose(rows, 32).into_iter().enumerate() {
                for n in 0..5 {
                    let codes = &mut groups[5 + n / 2].codes[n % 2 * 4 + k];
                    store_codes(codes, next_digits(&mut quants));
                }
            }
            let mut last = words(rows, 48);
            for k in 4..8 {
                store_codes(&mut groups[7].codes[k], next_digits(&mut last));
            }
            let d = half_floats(rows, 52);
            for group in groups {
                store_floats(&mut group.scale, d);
            }
        }
    }
}

/// The first digit 0..=2 of each byte, which then begins with the next one.
#[inline(always)]
unsafe fn next_digits(x: &mut __m256i) -> __m256i {
    // SAFETY: registers only.
    unsafe {
        // 3 * x / 256 is at least 1 from 86 on, and 2 from 171 on.
        let from = |least: u8| {
            let larger = _mm256_max_epu8(*x, _mm256_set1_epi8(least as i8));
            _mm256_cmpeq_epi8(larger, *x)
        };
        let digits = _mm256_add_epi8(from(86), from(171));
        *x = _mm256_add_epi8(*x, _mm256_add_epi8(*x, *x));
        _mm256_sub_epi8(_mm256_setzero_si256(), digits)
    }
}
