//! Q5_1: see `gristmill_quant::block::BlockQ5_1` for the layout.

use crate::table::TypeKernels;
use crate::x86::panel::{self, BlockRows, Coarse, Unpack};
use crate::x86::unpack::{half_float_pairs, store_five_bit_codes, store_floats, transpose};

pub(super) const KERNELS: TypeKernels = panel::kernels::<Rows>(gristmill_quant::Q5_1)
    .with_encoder(super::encode::rows::<gristmill_quant::block::BlockQ5_1>)
    .with_decoder(super::encode::decode::<gristmill_quant::block::BlockQ5_1>);

/// Eight rows of blocks.
struct Rows;

impl Unpack for Rows {
    type Block = gristmill_quant::block::BlockQ5_1;
    type Group = Coarse<4, 0, true>;

    #[inline(always)]
    unsafe fn unpack(rows: &BlockRows, out: *mut Self::Group) {
        // SAFETY: all offsets are inside the block; the caller has the instruction set and room for the groups.
        unsafe {
            let group = &mut *out;
            let ([d_m, high, ..], quants) = (transpose(rows, 0), transpose(rows, 8));
            store_five_bit_codes(&mut group.codes, &quants, high);
            let (d, m) = half_float_pairs(d_m);
            store_floats(&mut group.scale, d);
            store_floats(&mut group.min, m);
        }
    }
}
