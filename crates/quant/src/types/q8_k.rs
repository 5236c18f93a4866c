//! Q8_K: signed bytes under one full-precision scale, with sums per 16: the activation layout of the 256-element types.

use bytemuck::{Pod, Zeroable};

use crate::codec::{Block, Codec, Encode};
use crate::lanes::Lanes;
use crate::levels::{largest_signed, nearest};
use crate::registry::{Format, TensorType};

/// 256 elements in 292 bytes.
///
/// ```text
/// 0          4           260               292
/// | d (f32)  | qs[256]   | bsums[16] i16   |
///
/// value q * d; bsums[j] = sum of q over elements 16j..16j+15
/// ```
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockQ8K {
    /// Scale: a binary32, low byte first.
    pub d: [u8; 4],
    /// Levels -127..=127.
    pub qs: [i8; 256],
    /// Sums of 16 levels each: i16, low byte first.
    pub bsums: [[u8; 2]; 16],
}

const _: () = assert!(size_of::<BlockQ8K>() == 292);

/// Q8_K: signed bytes under one full-precision scale, with sums per 16.
pub const Q8_K: TensorType = TensorType(&FORMAT);

static FORMAT: Format = Format {
    codec: Some(Codec::of::<BlockQ8K>().with_encode::<BlockQ8K>()),
    ..Format::of::<BlockQ8K>(15, "q8_K", &[(0, 4, 1), (260, 2, 16)])
};

impl BlockQ8K {
    /// The scale.
    #[inline]
    pub fn scale(&self) -> f32 {
        f32::from_le_bytes(self.d)
    }

    /// Sum of the levels of elements `16j..16j+15`.
    #[inline]
    pub fn sum(&self, j: usize) -> i32 {
        i32::from(i16::from_le_bytes(self.bsums[j]))
    }
}

impl Block for BlockQ8K {
    const LEN: usize = 256;

    fn decode(&self, out: &mut [f32]) {
        let d = self.scale();
        for (out, &q) in out.iter_mut().zip(&self.qs) {
            *out = d * f32::from(q);
        }
    }

    fn is_finite(&self) -> bool {
        self.scale().is_finite()
    }
}

impl Encode for BlockQ8K {
    const TAKES_IMPORTANCE: bool = false;

    #[inline(always)]
    fn encode_row<L: Lanes>(x: &[f32], _importance: Option<&[f32]>, blocks: &mut [Self]) {
        for (x, block) in x.chunks_exact(256).zip(blocks) {
            *block = encode(x);
        }
    }
}

/// The element of largest magnitude becomes -127 exactly.
#[inline(always)]
fn encode(x: &[f32]) -> BlockQ8K {
    let mut block = BlockQ8K::zeroed();
    let largest = largest_signed(x);
    if largest == 0.0 {
        return block;
    }
    let inverse = -127.0 / largest;
    for (q, x) in block.qs.iter_mut().zip(x) {
        *q = nearest(inverse * x).min(127) as i8;
    }
    for (sum, qs) in block.bsums.iter_mut().zip(block.qs.chunks_exact(16)) {
        *sum = qs.iter().map(|&q| i16::from(q)).sum::<i16>().to_le_bytes();
    }
    block.d = (1.0 / inverse).to_le_bytes();
    block
}
