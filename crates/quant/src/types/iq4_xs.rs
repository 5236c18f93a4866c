//! IQ4_XS: 4.25 bits per weight, 4-bit indices into a table of 16 uneven levels, a 6-bit scale per 32.

use bytemuck::{Pod, Zeroable};

use crate::codec::{Block, Dot, Encode};
use crate::half_float::Half;
use crate::lanes::{Lanes, transpose, untranspose};
use crate::levels::{largest_signed, nearest, pack_nibbles, reciprocal};
use crate::nonlinear::{dot_levels, fit_levels, level_indices, unpack_levels};
use crate::policy::{BySize, Policy};
use crate::registry::{Format, TensorType};
use crate::super_block::{importance_weights, sum_of_squares};
use crate::types::q8_k::BlockQ8K;
use crate::types::{IQ4_NL, Q8_K};

/// 256 elements in 136 bytes.
///
/// ```text
/// 0      2           4              8            136
/// | d    | scales_h  | scales_l[4]  | qs[128]   |
///
/// scale j   nibble j of scales_l, two bits at 2j of scales_h, minus 32
/// ```
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockIq4Xs {
    /// Super-block scale.
    pub d: Half,
    /// Two high bits per sub-block scale (u16, low byte first).
    pub scales_h: [u8; 2],
    /// Four low bits per sub-block scale.
    pub scales_l: [u8; 4],
    /// Two table indices per byte.
    pub qs: [u8; 128],
}

const _: () = assert!(size_of::<BlockIq4Xs>() == 136);

/// IQ4_XS: 4.25 bits per weight, 4-bit indices into a table of 16 uneven levels, a 6-bit scale per 32.
pub const IQ4_XS: TensorType = TensorType(&FORMAT);

static FORMAT: Format = Format {
    activation: Some(Q8_K),
    policy: Policy {
        fallback: Some(IQ4_NL),
        by_size: BySize::AnyRows,
        ..Policy::NONE
    },
    ..Format::full::<BlockIq4Xs>(23, "iq4_xs", &[(0, 2, 2)])
};

impl BlockIq4Xs {
    /// Scales -32..=31 of the sub-blocks.
    #[inline(always)]
    fn scales(&self) -> [i8; 8] {
        let high = u16::from_le_bytes(self.scales_h);
        std::array::from_fn(|j| {
            let low = self.scales_l[j / 2] >> (4 * (j % 2)) & 15;
            (low | ((high >> (2 * j) & 3) as u8) << 4) as i8 - 32
        })
    }

    #[inline(always)]
    fn set_scales(&mut self, scales: &[i8; 8]) {
        let mut high = 0;
        for (j, &scale) in scales.iter().enumerate() {
            let bits = (scale + 32) as u8;
            self.scales_l[j / 2] |= (bits & 15) << (4 * (j % 2));
            high |= u16::from(bits >> 4) << (2 * j);
        }
        self.scales_h = high.to_le_bytes();
    }
}

impl Block for BlockIq4Xs {
    const LEN: usize = 256;

    fn decode(&self, out: &mut [f32]) {
        let d = self.d.to_f32();
        let sub_blocks = self.qs.as_chunks().0.iter().zip(self.scales());
        for ((qs, scale), out) in sub_blocks.zip(out.chunks_exact_mut(32)) {
            let d = d * f32::from(scale);
            for (out, level) in out.iter_mut().zip(unpack_levels(qs)) {
                *out = d * f32::from(level);
            }
        }
    }

    fn is_finite(&self) -> bool {
        self.d.is_finite()
    }
}

impl Encode for BlockIq4Xs {
    #[inline(always)]
    fn encode_row<L: Lanes>(x: &[f32], importance: Option<&[f32]>, blocks: &mut [Self]) {
        for (i, (x, block)) in x.chunks_exact(256).zip(blocks).enumerate() {
            *block = encode::<L>(x, importance.map(|row| &row[256 * i..][..256]));
        }
    }
}

/// The scale of largest magnitude becomes -32 exactly.
#[inline(always)]
fn encode<L: Lanes>(x: &[f32], importance: Option<&[f32]>) -> BlockIq4Xs {
    let lanes = transpose::<L, 32>(x);
    let weights = match importance {
        None => lanes.map(|x| x * x),
        Some(importance) => {
            importance_weights(&lanes, importance, sum_of_squares(x) * (2.0 / 256.0))
        }
    };
    let scales = fit_levels(&lanes, &weights).store();
    let d = -largest_signed(&scales) / 32.0;
    let inverse = reciprocal(d);
    let scales = scales.map(|scale| nearest(inverse * scale).clamp(-32, 31) as i8);
    let mut block = BlockIq4Xs::zeroed();
    block.d = Half::from_f32(d);
    block.set_scales(&scales);
    let mut indices = [0; 256];
    // With the scale before it is rounded to 16 bits.
    let sub_scales = L::load(scales.map(|scale| d * f32::from(scale)));
    untranspose::<L>(&level_indices(&lanes, sub_scales), &mut indices);
    for (qs, indices) in block
        .qs
        .as_chunks_mut()
        .0
        .iter_mut()
        .zip(indices.as_chunks().0)
    {
        *qs = pack_nibbles(indices);
    }
    block
}

impl Dot for BlockIq4Xs {
    type With = BlockQ8K;

    fn dot(&self, with: &BlockQ8K) -> f64 {
        let sub_blocks = self.qs.as_chunks().0.iter().zip(with.qs.chunks_exact(32));
        let scaled: i32 = sub_blocks
            .zip(self.scales())
            .map(|((qs, y), scale)| i32::from(scale) * dot_levels(qs, y))
            .sum();
        f64::from(self.d.to_f32()) * f64::from(with.scale()) * f64::from(scaled)
    }
}
