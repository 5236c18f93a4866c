//! bfloat16, the upper half of a binary32.

use bytemuck::{Pod, Zeroable};

use crate::codec::{Block, Dot, Encode};
use crate::half_float::{bf16_to_f32, f32_to_bf16};
use crate::lanes::Lanes;
use crate::policy::{BySize, OwnRecipe, Policy};
use crate::registry::{Format, TensorType};

/// One element in two bytes, low byte first.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(transparent)]
pub struct BlockBf16(pub [u8; 2]);

const _: () = assert!(size_of::<BlockBf16>() == 2);

/// bfloat16, the upper half of a binary32.
pub const BF16: TensorType = TensorType(&FORMAT);

static FORMAT: Format = Format {
    activation: Some(TensorType(&FORMAT)),
    policy: Policy {
        for_cache: true,
        by_size: BySize::AnyRows,
        recipe: Some(OwnRecipe {
            file_type: 32,
            name: "BF16",
            help: "16 bits with the range of F32",
        }),
        ..Policy::NONE
    },
    ..Format::full::<BlockBf16>(30, "bf16", &[(0, 2, 1)])
};

impl BlockBf16 {
    fn bits(self) -> u16 {
        u16::from_le_bytes(self.0)
    }
}

impl Block for BlockBf16 {
    const LEN: usize = 1;

    #[inline(always)]
    fn decode(&self, out: &mut [f32]) {
        out[0] = bf16_to_f32(self.bits());
    }

    fn is_finite(&self) -> bool {
        self.bits() & 0x7f80 != 0x7f80
    }
}

impl Encode for BlockBf16 {
    const TAKES_IMPORTANCE: bool = false;

    #[inline(always)]
    fn encode_row<L: Lanes>(x: &[f32], _importance: Option<&[f32]>, blocks: &mut [Self]) {
        for (x, block) in x.iter().zip(blocks) {
            *block = BlockBf16(f32_to_bf16(*x).to_le_bytes());
        }
    }
}

impl Dot for BlockBf16 {
    type With = BlockBf16;

    fn dot(&self, with: &BlockBf16) -> f64 {
        f64::from(bf16_to_f32(self.bits())) * f64::from(bf16_to_f32(with.bits()))
    }
}
