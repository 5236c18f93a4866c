//! Q8_0: see `gristmill_quant::block::BlockQ8_0` for the layout.

use std::arch::x86_64::*;

use crate::table::TypeKernels;
use crate::x86::panel::{self, BlockRows, Bytes, Unpack};
use crate::x86::unpack::{
    half_floats, high_nibbles, low_nibbles, store_codes, store_floats, transpose_32,
};

pub(super) const KERNELS: TypeKernels = panel::kernels::<Rows>(gristmill_quant::Q8_0)
    .with_encoder(super::encode::rows::<gristmill_quant::block::BlockQ8_0>)
    .with_decoder(super::encode::decode::<gristmill_quant::block::BlockQ8_0>);

/// Eight rows of blocks.
struct Rows;

impl Unpack for Rows {
    type Block = gristmill_quant::block::BlockQ8_0;
    type Group = Bytes;

    #[inline(always)]
    unsafe fn unpack(rows: &BlockRows, out: *mut Self::Group) {
        // SAFETY: all offsets are inside the block; the caller has the instruction set and room for the groups.
        unsafe {
            let group = &mut *out;
            let quants = transpose_32(rows, 2);
            for k in 0..8 {
                let shifted = _mm256_xor_si256(quants[k], _mm256_set1_epi8(-128));
                store_codes(&mut group.codes[k], low_nibbles(shifted));
                store_codes(&mut group.codes[k + 8], high_nibbles(shifted));
            }
            store_floats(&mut group.scale, half_floats(rows, 0));
        }
    }
}
