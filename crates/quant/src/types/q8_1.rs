//! Q8_1: signed bytes under one scale, with their sum: the activation layout of Q4_1 and Q5_1.

use bytemuck::{Pod, Zeroable};

use crate::codec::{Block, Codec, Encode};
use crate::half_float::Half;
use crate::lanes::Lanes;
use crate::registry::{Format, TensorType};
use crate::types::q8_0::byte_levels;

/// 32 elements in 36 bytes.
///
/// ```text
/// 0      2      4          36
/// | d    | s    | qs[32]   |
///
/// value q * d; s = d * (sum of q), with d before its rounding to 16 bits
/// ```
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockQ8_1 {
    /// Scale.
    pub d: Half,
    /// Sum of the values.
    pub s: Half,
    /// Levels -127..=127.
    pub qs: [i8; 32],
}

const _: () = assert!(size_of::<BlockQ8_1>() == 36);

/// Q8_1: signed bytes under one scale, with their sum.
pub const Q8_1: TensorType = TensorType(&FORMAT);

static FORMAT: Format = Format {
    codec: Some(Codec::of::<BlockQ8_1>().with_encode::<BlockQ8_1>()),
    ..Format::of::<BlockQ8_1>(9, "q8_1", &[(0, 2, 2)])
};

impl Block for BlockQ8_1 {
    const LEN: usize = 32;

    fn decode(&self, out: &mut [f32]) {
        let d = self.d.to_f32();
        for (out, &q) in out.iter_mut().zip(&self.qs) {
            *out = f32::from(q) * d;
        }
    }

    fn is_finite(&self) -> bool {
        self.d.is_finite() && self.s.is_finite()
    }
}

impl Encode for BlockQ8_1 {
    const TAKES_IMPORTANCE: bool = false;

    #[inline(always)]
    fn encode_row<L: Lanes>(x: &[f32], _importance: Option<&[f32]>, blocks: &mut [Self]) {
        for (x, block) in x.as_chunks().0.iter().zip(blocks) {
            let (d, qs) = byte_levels::<L>(x);
            let sum: i32 = qs.iter().map(|&q| i32::from(q)).sum();
            *block = BlockQ8_1 {
                d: Half::from_f32(d),
                s: Half::from_f32(sum as f32 * d),
                qs,
            };
        }
    }
}
