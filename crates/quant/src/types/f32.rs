//! IEEE 754 binary32.

use bytemuck::{Pod, Zeroable};

use crate::codec::{Block, Dot, Encode};
use crate::lanes::Lanes;
use crate::policy::{OwnRecipe, Policy};
use crate::registry::{Format, TensorType};

/// One element in four bytes, low byte first.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(transparent)]
pub struct BlockF32(pub [u8; 4]);

const _: () = assert!(size_of::<BlockF32>() == 4);

/// IEEE 754 binary32.
pub const F32: TensorType = TensorType(&FORMAT);

static FORMAT: Format = Format {
    activation: Some(TensorType(&FORMAT)),
    policy: Policy {
        for_cache: true,
        recipe: Some(OwnRecipe {
            file_type: 0,
            name: "F32",
            help: "32 bits",
        }),
        ..Policy::NONE
    },
    ..Format::full::<BlockF32>(0, "f32", &[(0, 4, 1)])
};

impl Block for BlockF32 {
    const LEN: usize = 1;

    fn decode(&self, out: &mut [f32]) {
        out[0] = f32::from_le_bytes(self.0);
    }

    fn is_finite(&self) -> bool {
        f32::from_le_bytes(self.0).is_finite()
    }
}

impl Encode for BlockF32 {
    const TAKES_IMPORTANCE: bool = false;

    #[inline(always)]
    fn encode_row<L: Lanes>(x: &[f32], _importance: Option<&[f32]>, blocks: &mut [Self]) {
        for (x, block) in x.iter().zip(blocks) {
            *block = BlockF32(x.to_le_bytes());
        }
    }
}

impl Dot for BlockF32 {
    type With = BlockF32;

    fn dot(&self, with: &BlockF32) -> f64 {
        f64::from(f32::from_le_bytes(self.0)) * f64::from(f32::from_le_bytes(with.0))
    }
}
