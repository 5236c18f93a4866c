//! 2.06 bits per weight: eight-element grid points of 256, 7-bit sign words, a 4-bit scale per 32.

use bytemuck::{Pod, Zeroable};

use crate::codec::{Block, Dot, Encode};
use crate::grid;
use crate::grid_search::{GridSearch, Range, Refit, importance_weights, odd_levels};
use crate::half_float::Half;
use crate::lanes::Lanes;
use crate::odd_scales::{self, OddScales, signed};
use crate::policy::{BySize, Policy};
use crate::registry::{Format, TensorType};
use crate::search::ZERO_MAGNITUDE;
use crate::signs::even_signs;
use crate::super_block::sum_of_squares;
use crate::types::q8_k::BlockQ8K;
use crate::types::{IQ4_NL, Q8_K};

/// 256 elements in 66 bytes.
///
/// ```text
/// 0      2              66
/// | d    | qs[32] u16   |
///
/// qs   per 32 elements four words: two with four 8-bit grid indices, two with four 7-bit sign words and the scale (bits 28-31);
///      the indices are read as bytes, the signs and the scale as one u32, and that is how they stand in a big-endian file
/// ```
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockIq2Xxs {
    /// Super-block scale.
    pub d: Half,
    /// Indices, sign words and scales (u16, low byte first).
    pub qs: [[u8; 2]; 32],
}

const _: () = assert!(size_of::<BlockIq2Xxs>() == 66);

/// 2.06 bits per weight: eight-element grid points of 256, 7-bit sign words, a 4-bit scale per 32.
pub const IQ2_XXS: TensorType = TensorType(&FORMAT);

static FORMAT: Format = Format {
    activation: Some(Q8_K),
    policy: Policy {
        fallback: Some(IQ4_NL),
        coarse: true,
        by_size: BySize::AnyRows,
        ..Policy::NONE
    },
    ..Format::full::<BlockIq2Xxs>(
        16,
        "iq2_xxs",
        &[
            (0, 2, 1),
            (6, 4, 1),
            (14, 4, 1),
            (22, 4, 1),
            (30, 4, 1),
            (38, 4, 1),
            (46, 4, 1),
            (54, 4, 1),
            (62, 4, 1),
        ],
    )
};

/// What the levels stand for.
pub(crate) const VALUES: [u8; 4] = [8, 25, 43, 0];

fn search() -> GridSearch<8> {
    GridSearch {
        grid: grid::iq2_xxs(),
        n_steps: 6,
        step: 0.1,
        range: Range::EvenLevels,
        zero_below: ZERO_MAGNITUDE,
        refit: Refit::All,
        even_signs: true,
    }
}

/// Eight grid levels as signed values.
pub(crate) fn signed_values(levels: [u8; 8], signs: u8) -> [i32; 8] {
    signed(levels.map(|level| VALUES[usize::from(level)]), signs)
}

impl BlockIq2Xxs {
    /// Grid index of elements `8k..8k+7`.
    fn index(&self, k: usize) -> usize {
        self.qs[k / 4 * 4 + k % 4 / 2][k % 2].into()
    }

    /// Four 7-bit sign words and the scale (bits 28-31) of elements `32j..32j+31`.
    #[inline(always)]
    pub fn signs_and_scale(&self, j: usize) -> u32 {
        let [a, b] = [self.qs[4 * j + 2], self.qs[4 * j + 3]];
        u32::from_le_bytes([a[0], a[1], b[0], b[1]])
    }
}

impl OddScales<32> for BlockIq2Xxs {
    const UNIT: f32 = 0.125;

    fn d(&self) -> Half {
        self.d
    }

    fn scale(&self, j: usize) -> u8 {
        (self.signs_and_scale(j) >> 28) as u8
    }

    fn values(&self, j: usize) -> [i32; 32] {
        let mut values = [0; 32];
        for (k, values) in values.chunks_exact_mut(8).enumerate() {
            let levels = grid::iq2_xxs().point(self.index(4 * j + k));
            let signs = even_signs((self.signs_and_scale(j) >> (7 * k)) as u8);
            values.copy_from_slice(&signed_values(levels, signs));
        }
        values
    }
}

impl Block for BlockIq2Xxs {
    const LEN: usize = 256;

    fn decode(&self, out: &mut [f32]) {
        odd_scales::decode(self, out);
    }

    fn is_finite(&self) -> bool {
        self.d.is_finite()
    }
}

impl Encode for BlockIq2Xxs {
    const NEEDS_IMPORTANCE: bool = true;

    #[inline(always)]
    fn encode_row<L: Lanes>(x: &[f32], importance: Option<&[f32]>, blocks: &mut [Self]) {
        // Never called without: see `NEEDS_IMPORTANCE`.
        let Some(importance) = importance else { return };
        let search = search();
        // A loop in place: a closure would be compiled without the caller's instruction set.
        for ((x, importance), block) in x
            .chunks_exact(256)
            .zip(importance.chunks_exact(256))
            .zip(blocks)
        {
            *block = encode::<L>(&search, x, importance);
        }
    }
}

#[inline(always)]
fn encode<L: Lanes>(search: &GridSearch<8>, x: &[f32], importance: &[f32]) -> BlockIq2Xxs {
    let weights = importance_weights(x, importance, sum_of_squares(x) / 256.0);
    let found = search.encode::<L, 32>(x, &weights);
    let mut block = BlockIq2Xxs::zeroed();
    let Some((d, levels)) = odd_levels(&found.scales, 31) else {
        return block;
    };
    block.d = Half::from_f32(d);
    for (j, &level) in levels[..8].iter().enumerate() {
        let signs = (0..4).fold(0, |signs, k| {
            signs | u32::from(found.signs[4 * j + k] & 127) << (7 * k)
        });
        let [a, b] = [0, 2].map(|k| {
            let index = |k: usize| found.indices[4 * j + k] as u8;
            [index(k), index(k + 1)]
        });
        let bytes = (signs | u32::from(level) << 28).to_le_bytes();
        let (c, d) = ([bytes[0], bytes[1]], [bytes[2], bytes[3]]);
        block.qs[4 * j..][..4].copy_from_slice(&[a, b, c, d]);
    }
    block
}

impl Dot for BlockIq2Xxs {
    type With = BlockQ8K;

    fn dot(&self, with: &BlockQ8K) -> f64 {
        odd_scales::dot(self, with)
    }
}
