//! IQ2_XS: see `gristmill_quant::block::BlockIq2Xs` for the layout.

use std::array::from_fn;

use gristmill_quant::block::{BlockIq2Xs, IQ2_XS_POINTS};

use crate::table::TypeKernels;
use crate::x86::grid::{GridBlock, GridRows, Part, even_negative, set_odd_scales};
use crate::x86::panel::{self, Fine};

pub(super) const KERNELS: TypeKernels =
    panel::kernels::<GridRows<BlockIq2Xs>>(gristmill_quant::IQ2_XS)
        .with_encoder(super::encode::rows::<BlockIq2Xs>);

impl GridBlock for BlockIq2Xs {
    type Group = Fine<1, false>;
    const BASE: u8 = 43;

    #[inline(always)]
    fn part(&self, j: usize) -> Part {
        let words: [u16; 4] = from_fn(|i| u16::from_le_bytes(self.qs[4 * j + i]));
        Part {
            values: words.map(|word| IQ2_XS_POINTS[usize::from(word % 512)]),
            negative: words.map(|word| even_negative(u32::from(word >> 9))),
        }
    }

    #[inline(always)]
    fn set_scales(&self, lane: usize, groups: &mut [Self::Group; 8]) {
        set_odd_scales(groups, lane, self.d, self.scales, Self::BASE);
    }
}
