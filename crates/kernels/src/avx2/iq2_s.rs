//! IQ2_S: see `gristmill_quant::block::BlockIq2S` for the layout.

use std::array::from_fn;

use gristmill_quant::block::{BlockIq2S, IQ2_S_POINTS};

use crate::table::TypeKernels;
use crate::x86::grid::{GridBlock, GridRows, Part, negative, set_odd_scales};
use crate::x86::panel::{self, Fine};

pub(super) const KERNELS: TypeKernels =
    panel::kernels::<GridRows<BlockIq2S>>(gristmill_quant::IQ2_S)
        .with_encoder(super::encode::rows::<BlockIq2S>);

impl GridBlock for BlockIq2S {
    type Group = Fine<1, false>;
    const BASE: u8 = 43;

    #[inline(always)]
    fn part(&self, j: usize) -> Part {
        let index = |i: usize| {
            let high = self.qh[j] >> (2 * i) & 3;
            usize::from(self.qs[4 * j + i]) | usize::from(high) << 8
        };
        Part {
            values: from_fn(|i| IQ2_S_POINTS[index(i)]),
            negative: from_fn(|i| negative(self.qs[32 + 4 * j + i])),
        }
    }

    #[inline(always)]
    fn set_scales(&self, lane: usize, groups: &mut [Self::Group; 8]) {
        set_odd_scales(groups, lane, self.d, self.scales, Self::BASE);
    }
}
