//! Q4_1: see `gristmill_quant::block::BlockQ4_1` for the layout.

use crate::table::TypeKernels;
use crate::x86::panel::{self, BlockRows, Coarse, Unpack};
use crate::x86::unpack::{
    half_float_pairs, high_nibbles, low_nibbles, store_codes, store_floats, transpose,
};

pub(super) const KERNELS: TypeKernels = panel::kernels::<Rows>(gristmill_quant::Q4_1)
    .with_encoder(super::encode::rows::<gristmill_quant::block::BlockQ4_1>)
    .with_decoder(super::encode::decode::<gristmill_quant::block::BlockQ4_1>);

/// Eight rows of blocks.
struct Rows;

impl Unpack for Rows {
    type Block = gristmill_quant::block::BlockQ4_1;
    type Group = Coarse<8, 0, true>;

    #[inline(always)]
    unsafe fn unpack(rows: &BlockRows, out: *mut Self::Group) {
        // SAFETY: all offsets are inside the block; the caller has the instruction set and room for the groups.
        unsafe {
            let group = &mut *out;
            let quants = transpose(rows, 4);
            for k in 0..4 {
                store_codes(&mut group.codes[k], low_nibbles(quants[k]));
                store_codes(&mut group.codes[k + 4], high_nibbles(quants[k]));
            }
            let (d, m) = half_float_pairs(transpose(rows, 0)[0]);
            store_floats(&mut group.scale, d);
            store_floats(&mut group.min, m);
        }
    }
}
