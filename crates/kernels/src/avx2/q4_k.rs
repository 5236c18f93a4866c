//! Q4_K: see `gristmill_quant::block::BlockQ4K` for the layout.

use crate::table::TypeKernels;
use crate::x86::panel::{self, BlockRows, Coarse, Unpack, groups_of};
use crate::x86::unpack::{
    high_nibbles, low_nibbles, six_bit_scales, store_codes, store_floats, transpose, transpose_32,
};

pub(super) const KERNELS: TypeKernels = panel::kernels::<Rows>(gristmill_quant::Q4_K)
    .with_encoder(super::encode::rows::<gristmill_quant::block::BlockQ4K>);

/// Eight rows of blocks.
struct Rows;

impl Unpack for Rows {
    type Block = gristmill_quant::block::BlockQ4K;
    type Group = Coarse<8, 0, true>;

    #[inline(always)]
    unsafe fn unpack(rows: &BlockRows, out: *mut Self::Group) {
        // SAFETY: all offsets are inside the block; the caller has the instruction set and room for the groups.
        unsafe {
            let groups = groups_of::<Self, 8>(out);
            for pair in 0..4 {
                let quants = transpose_32(rows, 16 + 32 * pair);
                for k in 0..8 {
                    store_codes(&mut groups[2 * pair].codes[k], low_nibbles(quants[k]));
                    store_codes(&mut groups[2 * pair + 1].codes[k], high_nibbles(quants[k]));
                }
            }
            let (scales, mins) = six_bit_scales(transpose(rows, 0));
            for index in 0..8 {
                store_floats(&mut groups[index].scale, scales[index]);
                store_floats(&mut groups[index].min, mins[index]);
            }
        }
    }
}
