//! 2.31 bits per weight: eight-element grid points of 512, 7-bit sign words, a 4-bit scale per 16.

use bytemuck::{Pod, Zeroable};

use crate::codec::{Block, Dot, Encode};
use crate::grid;
use crate::grid_search::{GridSearch, Range, Refit, importance_weights, odd_levels};
use crate::half_float::Half;
use crate::lanes::Lanes;
use crate::odd_scales::{self, OddScales, nibble};
use crate::policy::{BySize, Policy};
use crate::registry::{Format, TensorType};
use crate::search::ZERO_MAGNITUDE;
use crate::signs::even_signs;
use crate::super_block::sum_of_squares;
use crate::types::iq2_xxs::signed_values;
use crate::types::q8_k::BlockQ8K;
use crate::types::{IQ4_NL, Q8_K};

/// 256 elements in 74 bytes.
///
/// ```text
/// 0      2              66          74
/// | d    | qs[32] u16   | scales[8] |
///
/// qs   per 8 elements: grid index (bits 0-8), sign word (bits 9-15)
/// ```
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockIq2Xs {
    /// Super-block scale.
    pub d: Half,
    /// Index and sign word per 8 elements (u16, low byte first).
    pub qs: [[u8; 2]; 32],
    /// One nibble per 16 elements.
    pub scales: [u8; 8],
}

const _: () = assert!(size_of::<BlockIq2Xs>() == 74);

/// 2.31 bits per weight: eight-element grid points of 512, 7-bit sign words, a 4-bit scale per 16.
pub const IQ2_XS: TensorType = TensorType(&FORMAT);

static FORMAT: Format = Format {
    activation: Some(Q8_K),
    policy: Policy {
        fallback: Some(IQ4_NL),
        coarse: true,
        by_size: BySize::AnyRows,
        ..Policy::NONE
    },
    ..Format::full::<BlockIq2Xs>(17, "iq2_xs", &[(0, 2, 1), (2, 2, 32)])
};

fn search() -> GridSearch<8> {
    GridSearch {
        grid: grid::iq2_xs(),
        n_steps: 9,
        step: 0.1,
        range: Range::Largest,
        zero_below: ZERO_MAGNITUDE,
        refit: Refit::OffGrid,
        even_signs: true,
    }
}

impl OddScales<16> for BlockIq2Xs {
    const UNIT: f32 = 0.125;

    fn d(&self) -> Half {
        self.d
    }

    fn scale(&self, j: usize) -> u8 {
        nibble(&self.scales, j)
    }

    fn values(&self, j: usize) -> [i32; 16] {
        let mut values = [0; 16];
        for (k, values) in values.chunks_exact_mut(8).enumerate() {
            let word = u16::from_le_bytes(self.qs[2 * j + k]);
            let levels = grid::iq2_xs().point(usize::from(word & 511));
            let signs = even_signs((word >> 9) as u8);
            values.copy_from_slice(&signed_values(levels, signs));
        }
        values
    }
}

impl Block for BlockIq2Xs {
    const LEN: usize = 256;

    fn decode(&self, out: &mut [f32]) {
        odd_scales::decode(self, out);
    }

    fn is_finite(&self) -> bool {
        self.d.is_finite()
    }
}

impl Encode for BlockIq2Xs {
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
fn encode<L: Lanes>(search: &GridSearch<8>, x: &[f32], importance: &[f32]) -> BlockIq2Xs {
    let weights = importance_weights(x, importance, sum_of_squares(x) / 256.0);
    let found = search.encode::<L, 16>(x, &weights);
    let mut block = BlockIq2Xs::zeroed();
    let Some((d, levels)) = odd_levels(&found.scales, 31) else {
        return block;
    };
    block.d = Half::from_f32(d);
    block.scales = std::array::from_fn(|j| levels[2 * j] | levels[2 * j + 1] << 4);
    block.qs = std::array::from_fn(|k| {
        (found.indices[k] | u16::from(found.signs[k] & 127) << 9).to_le_bytes()
    });
    block
}

impl Dot for BlockIq2Xs {
    type With = BlockQ8K;

    fn dot(&self, with: &BlockQ8K) -> f64 {
        odd_scales::dot(self, with)
    }
}
