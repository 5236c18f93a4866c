//! TQ2_0: see `gristmill_quant::block::BlockTq2_0` for the layout.

use crate::table::TypeKernels;
use crate::x86::panel::{self, BlockRows, Coarse, Unpack, groups_of};
use crate::x86::unpack::{half_floats, store_codes, store_floats, transpose_32, two_bits};

pub(super) const KERNELS: TypeKernels = panel::kernels::<Rows>(gristmill_quant::TQ2_0)
    .with_encoder(super::encode::rows::<gristmill_quant::block::BlockTq2_0>);

/// Eight rows of blocks.
struct Rows;

impl Unpack for Rows {
    type Block = gristmill_quant::block::BlockTq2_0;
    type Group = Coarse<8, 1, false>;

    #[inline(always)]
    unsafe fn unpack(rows: &BlockRows, out: *mut Self::Group) {
        // SAFETY: all offsets are inside the block; the caller has the instruction set and room for the groups.
        unsafe {
            let groups = groups_of::<Self, 8>(out);
            for half in 0..2 {
                let quants = transpose_32(rows, 32 * half);
                for k in 0..8 {
                    for quarter in 0..4 {
                        let codes = two_bits(quants[k], quarter);
                        store_codes(&mut groups[4 * half + quarter].codes[k], codes);
                    }
                }
            }
            let d = half_floats(rows, 64);
            for group in groups {
                store_floats(&mut group.scale, d);
            }
        }
    }
}
