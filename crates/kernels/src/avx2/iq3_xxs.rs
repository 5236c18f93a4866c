//! IQ3_XXS: see `gristmill_quant::block::BlockIq3Xxs` for the layout.

use std::array::from_fn;

use gristmill_quant::block::{BlockIq3Xxs, IQ3_XXS_POINTS};

use crate::table::TypeKernels;
use crate::x86::grid::{GridBlock, GridRows, Part, even_negative};
use crate::x86::panel::{self, Coarse};

pub(super) const KERNELS: TypeKernels =
    panel::kernels::<GridRows<BlockIq3Xxs>>(gristmill_quant::IQ3_XXS)
        .with_encoder(super::encode::rows::<BlockIq3Xxs>);

impl GridBlock for BlockIq3Xxs {
    type Group = Coarse<1, 62, false>;
    const BASE: u8 = 62;

    #[inline(always)]
    fn part(&self, j: usize) -> Part {
        let signs = self.signs_and_scale(j);
        let point = |k: usize| IQ3_XXS_POINTS[usize::from(self.qs[8 * j + k])];
        Part {
            values: from_fn(|i| point(2 * i) | point(2 * i + 1) << 32),
            negative: from_fn(|i| even_negative(signs >> (7 * i))),
        }
    }

    #[inline(always)]
    fn set_scales(&self, lane: usize, groups: &mut [Self::Group; 8]) {
        let d = self.d.to_f32();
        for (j, group) in groups.iter_mut().enumerate() {
            let scale = self.signs_and_scale(j) >> 28;
            group.scale[lane] = d * (0.5 + scale as f32) * 0.5;
        }
    }
}
