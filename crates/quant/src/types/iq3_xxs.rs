//! 3.06 bits per weight: four-element grid points of 256, 7-bit sign words, a 4-bit scale per 32.

use bytemuck::{Pod, Zeroable};

use crate::codec::{Block, Dot, Encode};
use crate::grid;
use crate::grid_search::{GridSearch, Range, Refit, odd_levels, square_weights};
use crate::half_float::Half;
use crate::lanes::Lanes;
use crate::odd_scales::{self, OddScales, signed};
use crate::policy::{BySize, Policy};
use crate::registry::{Format, TensorType};
use crate::signs::even_signs;
use crate::types::q8_k::BlockQ8K;
use crate::types::{IQ4_NL, Q8_K};

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
    activation: Some(Q8_K),
    policy: Policy {
        fallback: Some(IQ4_NL),
        coarse: true,
        by_size: BySize::AnyRows,
        ..Policy::NONE
    },
    ..Format::full::<BlockIq3Xxs>(18, "iq3_xxs", &[(0, 2, 1), (66, 4, 8)])
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
    #[inline(always)]
    pub fn signs_and_scale(&self, j: usize) -> u32 {
        u32::from_le_bytes(std::array::from_fn(|i| self.qs[64 + 4 * j + i]))
    }
}

impl OddScales<32> for BlockIq3Xxs {
    const UNIT: f32 = 0.25;

    fn d(&self) -> Half {
        self.d
    }

    fn scale(&self, j: usize) -> u8 {
        (self.signs_and_scale(j) >> 28) as u8
    }

    fn values(&self, j: usize) -> [i32; 32] {
        let mut values = [0; 32];
        for (k, values) in values.chunks_exact_mut(8).enumerate() {
            let signs = even_signs((self.signs_and_scale(j) >> (7 * k)) as u8);
            let index = |half: usize| usize::from(self.qs[8 * j + 2 * k + half]);
            let levels = [0, 1].map(|half| grid::iq3_xxs().point(index(half)));
            let magnitude = |i: usize| VALUES[usize::from(levels[i / 4][i % 4])];
            values.copy_from_slice(&signed(std::array::from_fn(magnitude), signs));
        }
        values
    }
}

impl Block for BlockIq3Xxs {
    const LEN: usize = 256;

    fn decode(&self, out: &mut [f32]) {
        odd_scales::decode(self, out);
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
            let weights = square_weights(x, importance.map(|row| &row[256 * i..][..256]));
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
        odd_scales::dot(self, with)
    }
}
