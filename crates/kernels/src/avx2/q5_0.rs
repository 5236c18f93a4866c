//! Q5_0: see `gristmill_quant::block::BlockQ5_0` for the layout.

use crate::table::TypeKernels;
use crate::x86::panel::{self, BlockRows, Coarse, Unpack};
use crate::x86::unpack::{half_floats, store_five_bit_codes, store_floats, transpose};

pub(super) const KERNELS: TypeKernels = panel::kernels::<Rows>(gristmill_quant::Q5_0)
    .with_encoder(super::encode::rows::<gristmill_quant::block::BlockQ5_0>)
    .with_decoder(super::encode::decode::<gristmill_quant::block::BlockQ5_0>);

/// Eight rows of blocks.
struct Rows;

impl Unpack for Rows {
    type Block = gristmill_quant::block::BlockQ5_0;
    type Group = Coarse<4, 16, false>;

    #[inline(always)]
    unsafe fn unpack(rows: &BlockRows, out: *mut Self::Group) {
        // SAFETY: all offsets are inside the block; the caller has the instruction set and room for the groups.
        unsafe {
            let group = &mut *out;
            let (quants, high) = (transpose(rows, 6), transpose(rows, 2)[0]);
            store_five_bit_codes(&mut group.codes, &quants, high);
            store_floats(&mut group.scale, half_floats(rows, 0));
        }
    }
}
