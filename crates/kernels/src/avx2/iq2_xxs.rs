//! IQ2_XXS: see `gristmill_quant::block::BlockIq2Xxs` for the layout.

use std::array::from_fn;

use gristmill_quant::block::{BlockIq2Xxs, IQ2_XXS_POINTS};

use crate::table::TypeKernels;
use crate::x86::grid::{GridBlock, GridRows, Part, even_negative};
use crate::x86::panel::{self, Coarse};

pub(super) const KERNELS: TypeKernels =
    panel::kernels::<GridRows<BlockIq2Xxs>>(gristmill_quant::IQ2_XXS)
        .with_encoder(super::encode::rows::<BlockIq2Xxs>);

impl GridBlock for BlockIq2Xxs {
    type Group = Coarse<1, 43, false>;
    const BASE: u8 = 43;

    #[inline(always)]
    fn part(&self, j: usize) -> Part {
        let signs = self.signs_and_scale(j);
        Part {
            values: from_fn(|i| IQ2_XXS_POINTS[usize::from(self.qs[4 * j + i / 2][i % 2])]),
            negative: from_fn(|i| even_negative(signs >> (7 * i))),
        }
    }

    #[inline(always)]
    fn set_scales(&self, lane: usize, groups: &mut [Self::Group; 8]) {
        let d = self.d.to_f32();
        for (j, group) in groups.iter_mut().enumerate() {
            let scale = self.signs_and_scale(j) >> 28;
            group.scale[lane] = d * (0.5 + scale as f32) * 0.25;
        }
    }
}
