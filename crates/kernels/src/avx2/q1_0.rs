//! Q1_0: see `gristmill_quant::block::BlockQ1_0` for the layout.

use std::arch::x86_64::*;

use crate::table::TypeKernels;
use crate::x86::panel::{self, BlockRows, Coarse, Unpack, groups_of};
use crate::x86::unpack::{fifth_bits, half_floats, store_codes, store_floats, transpose};

pub(super) const KERNELS: TypeKernels = panel::kernels::<Rows>(gristmill_quant::Q1_0)
    .with_encoder(super::encode::rows::<gristmill_quant::block::BlockQ1_0>);

/// Eight rows of blocks.
struct Rows;

impl Unpack for Rows {
    type Block = gristmill_quant::block::BlockQ1_0;
    type Group = Coarse<8, 1, false>;

    #[inline(always)]
    unsafe fn unpack(rows: &BlockRows, out: *mut Self::Group) {
        // SAFETY: all offsets are inside the block; the caller has the instruction set and room for the groups.
        unsafe {
            let groups = groups_of::<Self, 4>(out);
            let (signs, d) = (transpose(rows, 2), half_floats(rows, 0));
            for (group, signs) in groups.iter_mut().zip(signs) {
                for k in 0..8 {
                    // 2 for d, 0 for -d.
                    let codes = _mm256_srli_epi16::<3>(fifth_bits(signs, k));
                    store_codes(&mut group.codes[k], codes);
                }
                store_floats(&mut group.scale, d);
            }
        }
    }
}
