//! IQ1_M: see `gristmill_quant::block::BlockIq1M` for the layout.

use std::array::from_fn;

use gristmill_quant::block::{BlockIq1M, Half, IQ1_POINTS};

use crate::table::TypeKernels;
use crate::x86::grid::{GridBlock, GridRows, Part, set_half_scales};
use crate::x86::panel::{self, Fine};

pub(super) const KERNELS: TypeKernels =
    panel::kernels::<GridRows<BlockIq1M>>(gristmill_quant::IQ1_M)
        .with_encoder(super::encode::rows::<BlockIq1M>);

/// Moves eight elements up by an eighth; without, they are as much below the grid.
const UP: u64 = 0x0202_0202_0202_0202;

impl GridBlock for BlockIq1M {
    type Group = Fine<4, false>;
    const BASE: u8 = 0;

    #[inline(always)]
    fn part(&self, j: usize) -> Part {
        let value = |i: usize| {
            let k = 4 * j + i;
            let high = self.qh[k / 2] >> (4 * (k % 2)) & 15;
            let shift = if high >> 3 == 0 { UP } else { 0 };
            IQ1_POINTS[usize::from(self.qs[k]) | usize::from(high & 7) << 8] + shift
        };
        Part {
            values: from_fn(value),
            negative: [0; 4],
        }
    }

    #[inline(always)]
    fn set_scales(&self, lane: usize, groups: &mut [Self::Group; 8]) {
        let words: [u16; 4] =
            from_fn(|i| u16::from_le_bytes([self.scales[2 * i], self.scales[2 * i + 1]]));
        let bits = (0..4).fold(0, |bits, i| bits | words[i] >> 12 << (4 * i));
        let d = Half(bits.to_le_bytes()).to_f32() * 0.125;
        for (j, group) in groups.iter_mut().enumerate() {
            let scales = words[j / 2] >> (6 * (j % 2));
            let scales = [scales & 7, scales >> 3 & 7].map(|scale| 2 * scale as i16 + 1);
            set_half_scales(group, lane, scales, 9);
            group.d[lane] = d;
        }
    }
}
