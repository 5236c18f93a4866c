//! Q2_K: see `gristmill_quant::block::BlockQ2K` for the layout.

use crate::table::TypeKernels;
use crate::x86::panel::{self, BlockRows, Fine, Unpack, groups_of};
use crate::x86::unpack::{
    half_floats, high_nibbles, low_nibbles, store_codes, store_floats, transpose, transpose_32,
    two_bits,
};

pub(super) const KERNELS: TypeKernels = panel::kernels::<Rows>(gristmill_quant::Q2_K)
    .with_encoder(super::encode::rows::<gristmill_quant::block::BlockQ2K>);

/// Eight rows of blocks.
struct Rows;

impl Unpack for Rows {
    type Block = gristmill_quant::block::BlockQ2K;
    type Group = Fine<4, true>;

    #[inline(always)]
    unsafe fn unpack(rows: &BlockRows, out: *mut Self::Group) {
        // SAFETY: all offsets are inside the block; the caller has the instruction set and room for the groups.
        unsafe {
            let groups = groups_of::<Self, 8>(out);
            for half in 0..2 {
                let quants = transpose_32(rows, 16 + 32 * half);
                for k in 0..8 {
                    for quarter in 0..4 {
                        let codes = two_bits(quants[k], quarter);
                        store_codes(&mut groups[4 * half + quarter].codes[k], codes);
                    }
                }
            }
            let (scales, d, d_min) = (
                transpose(rows, 0),
                half_floats(rows, 80),
                half_floats(rows, 82),
            );
            let (mut low, mut high) = (scales, scales);
            for index in 0..4 {
                low[index] = low_nibbles(scales[index]);
                high[index] = high_nibbles(scales[index]);
            }
            for (index, group) in groups.iter_mut().enumerate() {
                group.set_scales(index, &low);
                group.set_shifts::<8>(index, &high);
                store_floats(&mut group.d, d);
                store_floats(&mut group.d_min, d_min);
            }
        }
    }
}
