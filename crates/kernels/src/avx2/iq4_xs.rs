//! IQ4_XS: see `gristmill_quant::block::BlockIq4Xs` for the layout.

use std::arch::x86_64::*;

use crate::table::TypeKernels;
use crate::x86::panel::{self, BlockRows, Bytes, Unpack, groups_of};
use crate::x86::unpack::{half_float_pairs, nonlinear_codes, shift, store_floats, transpose};

pub(super) const KERNELS: TypeKernels = panel::kernels::<Rows>(gristmill_quant::IQ4_XS)
    .with_encoder(super::encode::rows::<gristmill_quant::block::BlockIq4Xs>);

/// Eight rows of blocks.
struct Rows;

impl Unpack for Rows {
    type Block = gristmill_quant::block::BlockIq4Xs;
    type Group = Bytes;

    #[inline(always)]
    unsafe fn unpack(rows: &BlockRows, out: *mut Self::Group) {
        // SAFETY: all offsets are inside the block; the caller has the instruction set and room for the groups.
        unsafe {
            let groups = groups_of::<Self, 8>(out);
            let [d_high, low, ..] = transpose(rows, 0);
            let (d, _) = half_float_pairs(d_high);
            for (index, group) in groups.iter_mut().enumerate() {
                nonlinear_codes(&transpose(rows, 8 + 16 * index), &mut group.codes);
                let low = _mm256_and_si256(
                    _mm256_srl_epi32(low, shift(4 * index)),
                    _mm256_set1_epi32(15),
                );
                let high = _mm256_and_si256(
                    _mm256_srl_epi32(d_high, shift(16 + 2 * index)),
                    _mm256_set1_epi32(3),
                );
                let scale = _mm256_or_si256(low, _mm256_slli_epi32::<4>(high));
                let scale = _mm256_cvtepi32_ps(_mm256_sub_epi32(scale, _mm256_set1_epi32(32)));
                store_floats(&mut group.scale, _mm256_mul_ps(d, scale));
            }
        }
    }
}
