//! IQ3_S: see `gristmill_quant::block::BlockIq3S` for the layout.

use std::array::from_fn;

use gristmill_quant::block::{BlockIq3S, IQ3_S_POINTS};

use crate::table::TypeKernels;
use crate::x86::grid::{GridBlock, GridRows, Part, negative};
use crate::x86::panel::{self, Coarse};

pub(super) const KERNELS: TypeKernels =
    panel::kernels::<GridRows<BlockIq3S>>(gristmill_quant::IQ3_S)
        .with_encoder(super::encode::rows::<BlockIq3S>);

impl GridBlock for BlockIq3S {
    type Group = Coarse<4, 15, false>;
    const BASE: u8 = 15;

    #[inline(always)]
    fn part(&self, j: usize) -> Part {
        let point = |k: usize| {
            let high = self.qh[j] >> k & 1;
            IQ3_S_POINTS[usize::from(self.qs[8 * j + k]) | usize::from(high) << 8]
        };
        Part {
            values: from_fn(|i| point(2 * i) | point(2 * i + 1) << 32),
            negative: from_fn(|i| negative(self.signs[4 * j + i])),
        }
    }

    #[inline(always)]
    fn set_scales(&self, lane: usize, groups: &mut [Self::Group; 8]) {
        let d = self.d.to_f32();
        for (j, group) in groups.iter_mut().enumerate() {
            let scale = self.scales[j / 2] >> (4 * (j % 2)) & 15;
            group.scale[lane] = d * f32::from(2 * scale + 1);
        }
    }
}
