//! 3.06 bits per weight: four-element grid points of 256, 7-bit sign words, a 4-bit scale per 32.

use bytemuck::{Pod, Zeroable};

use crate::codec::{Block, Codec, Dot, Encode, dot_i32};
use crate::grid;
use crate::grid_search::{GridSearch, Range, Refit, importance_weights, odd_levels};
use crate::half_float::Half;
use crate::lanes::Lanes;
use crate::registry::{Format, TensorType};
use crate::signs::{even_signs, sign};
use crate::super_block::sum_of_squares;
use crate::types::Q8_K;
use crate::types::q8_k::BlockQ8K;

/// 256 elements in 98 bytes.
///
/// ```text
/// 0      2                    66                    98
/// | d    | qs[0..64] indices | qs[64..96] u32 x 8 |
///
/// u32  per 32 elements: four 7-bit sign words (bits 0-27), scale (bits 28-31)
/// ```
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockIq3Xxs {
    /// Super-block scale.
    pub d: Half,
    /// Grid indices, then sign words and scales.
    pub qs: [u8; 96],
}

const _: () = assert!(size_of::<BlockIq3Xxs>() == 98);

/// 3.06 bits per weight: four-element grid points of 256, 7-bit sign words, a 4-bit scale per 32.
pub const IQ3_XXS: TensorType = TensorType(&FORMAT);

static FORMAT: Format = Format {
    id: 18,
    name: "iq3_xxs",
    block_len: 256,
    block_bytes: size_of::<BlockIq3Xxs>(),
    wide_fields: &[(0, 2, 1), (66, 4, 8)],
    quantized: true,
    activation: Some(Q8_K),
    codec: Some(
        Codec::of::<BlockIq3Xxs>()
            .with_encode::<BlockIq3Xxs>()
            .with_dot::<BlockIq3Xxs>(),
    ),
};

/// What the levels stand for.
pub(crate) const VALUES: [u8; 8] = [4, 12, 20, 28, 36, 44, 52, 62];

fn search() -> GridSearch<4> {
    GridSearch {
        grid: grid::iq3_xxs(),
        n_steps: 15,
        step: 0.2,
        range: Range::Largest,
        zero_below: 1e-8,
        refit: Refit::OffGrid,
        even_signs: true,
    }
}

impl BlockIq3Xxs {
    /// Four 7-bit sign words and the scale (bits 28-31) of elements `32j..32j+31`.
    fn signs_and_scale(&self, j: usize) -> u32 {
        u32::from_le_bytes(std::array::from_fn(|i| self.qs[64 + 4 * j + i]))
    }

    /// Signed values of elements `32j..32j+31`.
    fn values(&self, j: usize) -> [i32; 32] {
        let mut values = [0; 32];
        for (k, values) in values.chunks_exact_mut(4).enumerate() {
            let levels = grid::iq3_xxs().point(self.qs[8 * j + k].into());
            let signs = even_signs((self.signs_and_scale(j) >> (7 * (k / 2))) as u8);
            for (i, value) in values.iter_mut().enumerate() {
                let magnitude = VALUES[usize::from(levels[i])];
                *value = i32::from(magnitude) * sign(signs, k % 2 * 4 + i);
            }
        }
        values
    }
}

impl Block for BlockIq3Xxs {
    const LEN: usize = 256;

    fn decode(&self, out: &mut [f32]) {
        for (j, out) in out.chunks_exact_mut(32).enumerate() {
            let d = self.d.to_f32() * (0.5 + (self.signs_and_scale(j) >> 28) as f32) * 0.5;
            for (out, value) in out.iter_mut().zip(self.values(j)) {
                *out = d * value as f32;
            }
        }
    }

    fn is_finite(&self) -> bool {
        self.d.is_finite()
    }
}

impl Encode for BlockIq3Xxs {
    #[inline(always)]
    fn encode_row<L: Lanes>(x: &[f32], importance: Option<&[f32]>, blocks: &mut [Self]) {
        let search = search();
        for (i, (x, block)) in x.chunks_exact(256).zip(blocks).enumerate() {
            let weights = match importance {
                None => std::array::from_fn(|i| x[i] * x[i]),
                Some(importance) => {
                    let importance = &importance[256 * i..][..256];
                    importance_weights(x, importance, 2.0 * sum_of_squares(x) / 256.0)
                }
            };
            *block = encode::<L>(&search, x, &weights);
        }
    }
}

#[inline(always)]
fn encode<L: Lanes>(search: &GridSearch<4>, x: &[f32], weights: &[f32; 256]) -> BlockIq3Xxs {
    let found = search.encode::<L, 32>(x, weights);
    let mut block = BlockIq3Xxs::zeroed();
    let Some((d, levels)) = odd_levels(&found.scales, 31) else {
        return block;
    };
    // The reference found by trial that a little more is better.
    block.d = Half::from_f32(d * 1.0125);
    for (q, index) in block.qs.iter_mut().zip(found.indices) {
        *q = index as u8;
    }
    for (j, bytes) in block.qs[64..].chunks_exact_mut(4).enumerate() {
        let signs = (0..4).fold(0, |signs, k| {
            signs | u32::from(found.signs[4 * j + k] & 127) << (7 * k)
        });
        bytes.copy_from_slice(&(signs | u32::from(levels[j]) << 28).to_le_bytes());
    }
    block
}

impl Dot for BlockIq3Xxs {
    type With = BlockQ8K;

    fn dot(&self, with: &BlockQ8K) -> f64 {
        let mut scaled = 0;
        for (j, y) in with.qs.chunks_exact(32).enumerate() {
            let scale = 2 * (self.signs_and_scale(j) >> 28) as i32 + 1;
            scaled += scale * dot_i32(self.values(j).into_iter(), y);
        }
        f64::from(self.d.to_f32()) * 0.25 * f64::from(with.scale()) * f64::from(scaled)
    }
}
