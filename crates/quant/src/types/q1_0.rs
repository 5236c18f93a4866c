//! Q1_0: 1.125 bits per weight, signs under one scale.

use bytemuck::{Pod, Zeroable};

use crate::codec::{Block, Dot, Encode, dot_i32};
use crate::half_float::Half;
use crate::lanes::Lanes;
use crate::policy::{OwnRecipe, Policy, Readers};
use crate::registry::{Format, TensorType};
use crate::types::Q8_0;
use crate::types::q8_0::BlockQ8_0;

/// 128 elements in 18 bytes.
///
/// ```text
/// 0      2          18
/// | d    | qs[16]   |
///
/// bit i  set: +d, clear: -d
/// ```
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockQ1_0 {
    /// Scale.
    pub d: Half,
    /// One sign bit per element.
    pub qs: [u8; 16],
}

const _: () = assert!(size_of::<BlockQ1_0>() == 18);

/// Q1_0: 1.125 bits per weight, signs under one scale.
pub const Q1_0: TensorType = TensorType(&FORMAT);

static FORMAT: Format = Format {
    activation: Some(Q8_0),
    policy: Policy {
        readers: Readers::Newest,
        recipe: Some(OwnRecipe {
            file_type: 40,
            name: "Q1_0",
            help: "1.1 bits: signs only, for models trained that way",
        }),
        ..Policy::NONE
    },
    ..Format::full::<BlockQ1_0>(41, "q1_0", &[(0, 2, 1)])
};

impl BlockQ1_0 {
    /// Whether element `i` is positive.
    #[inline(always)]
    fn is_positive(&self, i: usize) -> bool {
        self.qs[i / 8] >> (i % 8) & 1 == 1
    }
}

impl Block for BlockQ1_0 {
    const LEN: usize = 128;

    fn decode(&self, out: &mut [f32]) {
        let d = self.d.to_f32();
        for (i, out) in out.iter_mut().enumerate() {
            *out = if self.is_positive(i) { d } else { -d };
        }
    }

    fn is_finite(&self) -> bool {
        self.d.is_finite()
    }
}

impl Encode for BlockQ1_0 {
    /// The scale is the mean magnitude.
    const TAKES_IMPORTANCE: bool = false;

    #[inline(always)]
    fn encode_row<L: Lanes>(x: &[f32], _importance: Option<&[f32]>, blocks: &mut [Self]) {
        for (x, block) in x.chunks_exact(128).zip(blocks) {
            let sum = x.iter().fold(0.0f32, |sum, x| sum + x.abs());
            *block = BlockQ1_0 {
                d: Half::from_f32(sum / 128.0),
                qs: std::array::from_fn(|i| {
                    (0..8).fold(0, |bits, j| bits | u8::from(x[8 * i + j] >= 0.0) << j)
                }),
            };
        }
    }
}

impl Dot for BlockQ1_0 {
    /// Four of them to a block.
    type With = [BlockQ8_0; 4];

    fn dot(&self, with: &[BlockQ8_0; 4]) -> f64 {
        let products = with.iter().enumerate().map(|(j, y)| {
            let signs = (32 * j..).map(|i| if self.is_positive(i) { 1 } else { -1 });
            f64::from(y.d.to_f32()) * f64::from(dot_i32(signs, &y.qs))
        });
        f64::from(self.d.to_f32()) * products.sum::<f64>()
    }
}
