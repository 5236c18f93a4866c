//! IEEE 754 binary16.

use bytemuck::{Pod, Zeroable};

use crate::codec::{Block, Dot, Encode};
use crate::half_float::{f16_to_f32, f32_to_f16};
use crate::lanes::Lanes;
use crate::policy::{OwnRecipe, Policy};
use crate::registry::{Format, TensorType};

/// One element in two bytes, low byte first.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(transparent)]
pub struct BlockF16(pub [u8; 2]);

const _: () = assert!(size_of::<BlockF16>() == 2);

/// IEEE 754 binary16.
pub const F16: TensorType = TensorType(&FORMAT);

static FORMAT: Format = Format {
    activation: Some(TensorType(&FORMAT)),
    // Not open to a choice by size: whether it holds every value only the whole tensor tells.
    policy: Policy {
        for_cache: true,
        recipe: Some(OwnRecipe {
            file_type: 1,
            name: "F16",
            help: "16 bits: largest magnitude 65504",
        }),
        ..Policy::NONE
    },
    ..Format::full::<BlockF16>(1, "f16", &[(0, 2, 1)])
};

impl BlockF16 {
    fn bits(self) -> u16 {
        u16::from_le_bytes(self.0)
    }
}

impl Block for BlockF16 {
    const LEN: usize = 1;

    fn decode(&self, out: &mut [f32]) {
        out[0] = f16_to_f32(self.bits());
    }

    fn is_finite(&self) -> bool {
        self.bits() & 0x7c00 != 0x7c00
    }
}

impl Encode for BlockF16 {
    const TAKES_IMPORTANCE: bool = false;

    #[inline(always)]
    fn encode_row<L: Lanes>(x: &[f32], _importance: Option<&[f32]>, blocks: &mut [Self]) {
        for (x, block) in x.iter().zip(blocks) {
            *block = BlockF16(f32_to_f16(*x).to_le_bytes());
        }
    }
}

impl Dot for BlockF16 {
    type With = BlockF16;

    fn dot(&self, with: &BlockF16) -> f64 {
        f64::from(f16_to_f32(self.bits())) * f64::from(f16_to_f32(with.bits()))
    }
}
