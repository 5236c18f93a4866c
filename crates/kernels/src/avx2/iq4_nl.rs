//! IQ4_NL: see `gristmill_quant::block::BlockIq4Nl` for the layout.

use crate::table::TypeKernels;
use crate::x86::panel::{self, BlockRows, Bytes, Unpack};
use crate::x86::unpack::{half_floats, nonlinear_codes, store_floats, transpose};

pub(super) const KERNELS: TypeKernels = panel::kernels::<Rows>(gristmill_quant::IQ4_NL)
    .with_encoder(super::encode::rows::<gristmill_quant::block::BlockIq4Nl>);

/// Eight rows of blocks.
struct Rows;

impl Unpack for Rows {
    type Block = gristmill_quant::block::BlockIq4Nl;
    type Group = Bytes;

    #[inline(always)]
    unsafe fn unpack(rows: &BlockRows, out: *mut Self::Group) {
        // SAFETY: all offsets are inside the block; the caller has the instruction set and room for the groups.
        unsafe {
            let group = &mut *out;
            nonlinear_codes(&transpose(rows, 2), &mut group.codes);
            store_floats(&mut group.scale, half_floats(rows, 0));
        }
    }
}
