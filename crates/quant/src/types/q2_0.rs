//! Q2_0: 2.25 bits per weight, 2-bit levels under one scale.

use bytemuck::{Pod, Zeroable};

use crate::codec::{Block, Dot, Encode, dot_i32};
use crate::half_float::Half;
use crate::lanes::{Lanes, map_levels};
use crate::levels::{largest_magnitude, reciprocal, round_away};
use crate::policy::{Policy, Readers};
use crate::registry::{Format, TensorType};
use crate::types::q8_0::BlockQ8_0;
use crate::types::{Q4_0, Q8_0};

/// 64 elements in 18 bytes.
///
/// ```text
/// 0      2          18
/// | d    | qs[16]   |
///
/// qs[i]  elements 4i..4i+3, low bits first; value (q - 1) * d
/// ```
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockQ2_0 {
    /// Scale.
    pub d: Half,
    /// Four levels per byte.
    pub qs: [u8; 16],
}

const _: () = assert!(size_of::<BlockQ2_0>() == 18);

/// Q2_0: 2.25 bits per weight, 2-bit levels under one scale.
pub const Q2_0: TensorType = TensorType(&FORMAT);

static FORMAT: Format = Format {
    activation: Some(Q8_0),
    policy: Policy {
        fallback: Some(Q4_0),
        readers: Readers::Newest,
        ..Policy::NONE
    },
    ..Format::full::<BlockQ2_0>(42, "q2_0", &[(0, 2, 1)])
};

impl BlockQ2_0 {
    /// Values -1..=2.
    #[inline(always)]
    fn levels(&self) -> [i8; 64] {
        std::array::from_fn(|i| (self.qs[i / 4] >> (2 * (i % 4)) & 3) as i8 - 1)
    }
}

impl Block for BlockQ2_0 {
    const LEN: usize = 64;

    fn decode(&self, out: &mut [f32]) {
        let d = self.d.to_f32();
        for (out, level) in out.iter_mut().zip(self.levels()) {
            *out = f32::from(level) * d;
        }
    }

    fn is_finite(&self) -> bool {
        self.d.is_finite()
    }
}

impl Encode for BlockQ2_0 {
    /// The scale is the largest magnitude, so that level 2 never occurs.
    const TAKES_IMPORTANCE: bool = false;

    #[inline(always)]
    fn encode_row<L: Lanes>(x: &[f32], _importance: Option<&[f32]>, blocks: &mut [Self]) {
        for (x, block) in x.as_chunks::<64>().0.iter().zip(blocks) {
            let d = largest_magnitude(x);
            let inverse = L::splat(reciprocal(d));
            let level = |x: L| L::clamp_ints(L::add_int(round_away(x * inverse), 1), 0, 3);
            let levels = map_levels(x, level);
            *block = BlockQ2_0 {
                d: Half::from_f32(d),
                qs: std::array::from_fn(|i| {
                    (0..4).fold(0, |byte, j| byte | levels[4 * i + j] << (2 * j))
                }),
            };
        }
    }
}

impl Dot for BlockQ2_0 {
    /// Two of them to a block.
    type With = [BlockQ8_0; 2];

    fn dot(&self, with: &[BlockQ8_0; 2]) -> f64 {
        let levels = self.levels();
        let products = with.iter().zip(levels.chunks_exact(32)).map(|(y, levels)| {
            let sum = dot_i32(levels.iter().map(|&level| i32::from(level)), &y.qs);
            f64::from(y.d.to_f32()) * f64::from(sum)
        });
        f64::from(self.d.to_f32()) * products.sum::<f64>()
    }
}
