//! IQ1_S: see `gristmill_quant::block::BlockIq1S` for the layout.

use std::array::from_fn;

use gristmill_quant::block::{BlockIq1S, IQ1_POINTS};

use crate::table::TypeKernels;
use crate::x86::grid::{GridBlock, GridRows, Part};
use crate::x86::panel::{self, Coarse};

pub(super) const KERNELS: TypeKernels =
    panel::kernels::<GridRows<BlockIq1S>>(gristmill_quant::IQ1_S)
        .with_encoder(super::encode::rows::<BlockIq1S>);

/// Moves eight elements up by an eighth; without, they are as much below the grid.
const UP: u64 = 0x0202_0202_0202_0202;

impl GridBlock for BlockIq1S {
    type Group = Coarse<4, 9, false>;
    const BASE: u8 = 0;

    #[inline(always)]
    fn part(&self, j: usize) -> Part {
        let high = u16::from_le_bytes(self.qh[j]);
        let shift = if high >> 15 == 0 { UP } else { 0 };
        let index =
            |i: usize| usize::from(self.qs[4 * j + i]) | usize::from(high >> (3 * i) & 7) << 8;
        Part {
            values: from_fn(|i| IQ1_POINTS[index(i)] + shift),
            negative: [0; 4],
        }
    }

    #[inline(always)]
    fn set_scales(&self, lane: usize, groups: &mut [Self::Group; 8]) {
        let d = self.d.to_f32();
        for (group, high) in groups.iter_mut().zip(self.qh) {
            let scale = high[1] >> 4 & 7;
            group.scale[lane] = d * f32::from(2 * scale + 1) * 0.125;
        }
    }
}
