//! Q8_0: 8.5 bits per weight, signed bytes under one scale; also the activation layout of the 4- and 5-bit types.

use bytemuck::{Pod, Zeroable};

use crate::codec::{Block, Dot, Encode, dot_i32};
use crate::half_float::Half;
use crate::lanes::{Lanes, map_levels};
use crate::levels::{largest_magnitude, reciprocal, round_away};
use crate::policy::{BySize, Policy};
use crate::registry::{Format, TensorType};

/// 32 elements in 34 bytes.
///
/// ```text
/// 0      2          34
/// | d    | qs[32]   |
///
/// value q * d
/// ```
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockQ8_0 {
    /// Scale.
    pub d: Half,
    /// Levels -127..=127.
    pub qs: [i8; 32],
}

const _: () = assert!(size_of::<BlockQ8_0>() == 34);

/// Q8_0: 8.5 bits per weight, signed bytes under one scale.
pub const Q8_0: TensorType = TensorType(&FORMAT);

static FORMAT: Format = Format {
    activation: Some(TensorType(&FORMAT)),
    policy: Policy {
        for_cache: true,
        by_size: BySize::AnyRows,
        ..Policy::NONE
    },
    ..Format::full::<BlockQ8_0>(8, "q8_0", &[(0, 2, 1)])
};

/// Scale and levels of 32 values; a level is rounded half away from zero.
#[inline(always)]
pub(crate) fn byte_levels<L: Lanes>(x: &[f32; 32]) -> (f32, [i8; 32]) {
    let d = largest_magnitude(x) / 127.0;
    let inverse = L::splat(reciprocal(d));
    let levels = map_levels(x, |x: L| round_away(x * inverse));
    (d, levels.map(|level| level as i8))
}

impl Block for BlockQ8_0 {
    const LEN: usize = 32;

    #[inline(always)]
    fn decode(&self, out: &mut [f32]) {
        let d = self.d.to_f32();
        for (out, &q) in out.iter_mut().zip(&self.qs) {
            *out = f32::from(q) * d;
        }
    }

    fn is_finite(&self) -> bool {
        self.d.is_finite()
    }
}

impl Encode for BlockQ8_0 {
    const TAKES_IMPORTANCE: bool = false;

    #[inline(always)]
    fn encode_row<L: Lanes>(x: &[f32], _importance: Option<&[f32]>, blocks: &mut [Self]) {
        for (x, block) in x.as_chunks().0.iter().zip(blocks) {
            let (d, qs) = byte_levels::<L>(x);
            *block = BlockQ8_0 {
                d: Half::from_f32(d),
                qs,
            };
        }
    }
}

impl Dot for BlockQ8_0 {
    type With = BlockQ8_0;

    fn dot(&self, with: &BlockQ8_0) -> f64 {
        let levels = self.qs.iter().map(|&q| i32::from(q));
        f64::from(self.d.to_f32())
            * f64::from(with.d.to_f32())
            * f64::from(dot_i32(levels, &with.qs))
    }
}
