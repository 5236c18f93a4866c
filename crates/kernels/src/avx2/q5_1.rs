//! Q5_1: see `gristmill_quant::block::BlockQ5_1` for the layout.

use std::arch::x86_64::*;

use crate::table::ProductKernel;
use crate::x86::panel::{self, BlockRows, Coarse, Unpack};
use crate::x86::unpack::{
    fifth_bits, half_float_pairs, high_nibbles, low_nibbles, store_codes, store_floats, transpose,
};

pub(super) const PRODUCT: ProductKernel = panel::kernel::<Rows>(gristmill_quant::Q5_1);

/// Eight rows of blocks.
struct Rows;

impl Unpack for Rows {
    type Group = Coarse<4, 0, true>;
    const GROUPS: usize = 1;
    const BLOCK_BYTES: usize = size_of::<gristmill_quant::block::BlockQ5_1>();

    #[inline(always)]
    unsafe fn unpack(rows: &BlockRows, out: *mut Self::Group) {
        // SAFETY: all offsets are inside the block; the caller has the instruction set and room for the groups.
        unsafe {
            let group = &mut *out;
            let ([d_m, high, ..], quants) = (transpose(rows, 0), transpose(rows, 8));
            for k in 0..4 {
                store_codes(
                    &mut group.codes[k],
                    _mm256_or_si256(low_nibbles(quants[k]), fifth_bits(high, k)),
                );
                store_codes(
                    &mut group.codes[k + 4],
                    _mm256_or_si256(high_nibbles(quants[k]), fifth_bits(high, k + 4)),
                );
            }
            let (d, m) = half_float_pairs(d_m);
            store_floats(&mut group.scale, d);
            store_floats(&mut group.min, m);
        }
    }
}
