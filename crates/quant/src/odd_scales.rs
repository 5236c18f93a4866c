//! What the IQ2 and IQ3 types mean, beside the layout of each: signed values of grid points, in sub-blocks that each have
//! an odd multiple of one scale.

use crate::codec::dot_i32;
use crate::half_float::Half;
use crate::signs::sign;
use crate::types::q8_k::BlockQ8K;

/// A super-block of sub-blocks of `LEN` elements: value = d * unit * odd scale * signed value.
pub(crate) trait OddScales<const LEN: usize> {
    /// A power of two.
    const UNIT: f32;

    fn d(&self) -> Half;

    /// Four bits `l` of sub-block `j`, which stand for `2l + 1`.
    fn scale(&self, j: usize) -> u8;

    /// Signed values of sub-block `j`.
    fn values(&self, j: usize) -> [i32; LEN];
}

/// Nibble `j`, the low ones first.
pub(crate) fn nibble(bytes: &[u8], j: usize) -> u8 {
    bytes[j / 2] >> (j % 2 * 4) & 15
}

/// Gives eight magnitudes their signs, a bit each.
pub(crate) fn signed(magnitudes: [u8; 8], signs: u8) -> [i32; 8] {
    std::array::from_fn(|i| i32::from(magnitudes[i]) * sign(signs, i))
}

pub(crate) fn decode<const LEN: usize, B: OddScales<LEN>>(block: &B, out: &mut [f32]) {
    let d = block.d().to_f32();
    for (j, out) in out.chunks_exact_mut(LEN).enumerate() {
        // The unit changes no digit, so its place in the product does not matter.
        let d = d * f32::from(2 * block.scale(j) + 1) * B::UNIT;
        for (out, value) in out.iter_mut().zip(block.values(j)) {
            *out = d * value as f32;
        }
    }
}

pub(crate) fn dot<const LEN: usize, B: OddScales<LEN>>(block: &B, with: &BlockQ8K) -> f64 {
    let sub_blocks = with.qs.chunks_exact(LEN).enumerate();
    let scaled: i32 = sub_blocks
        .map(|(j, y)| {
            let scale = i32::from(2 * block.scale(j) + 1);
            scale * dot_i32(block.values(j).into_iter(), y)
        })
        .sum();
    let d = f64::from(block.d().to_f32()) * f64::from(B::UNIT);
    d * f64::from(with.scale()) * f64::from(scaled)
}
