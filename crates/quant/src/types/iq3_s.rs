//! 3.44 bits per weight: four-element grid points of 512, explicit signs, a 4-bit scale per 32.

use bytemuck::{Pod, Zeroable};

use crate::codec::{Block, Dot, Encode};
use crate::grid;
use crate::grid_search::{GridSearch, Range, Refit, odd_levels, square_weights};
use crate::half_float::Half;
use crate::lanes::Lanes;
use crate::odd_scales::{self, OddScales, nibble, signed};
use crate::policy::{BySize, Policy};
use crate::registry::{Format, TensorType};
use crate::types::q8_k::BlockQ8K;
use crate::types::{IQ4_NL, Q8_K};

/// 256 elements in 110 bytes.
///
/// ```text
/// 0      2         66       74          106        110
/// | d    | qs[64] | qh[8]  | signs[32] | scales[4] |
/// ```
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockIq3S {
    /// Super-block scale.
    pub d: Half,
    /// Low 8 index bits per 4 elements.
    pub qs: [u8; 64],
    /// High index bit per 4 elements.
    pub qh: [u8; 8],
    /// One sign bit per element.
    pub signs: [u8; 32],
    /// One nibble per 32 elements.
    pub scales: [u8; 4],
}

const _: () = assert!(size_of::<BlockIq3S>() == 110);

/// 3.44 bits per weight: four-element grid points of 512, explicit signs, a 4-bit scale per 32.
pub const IQ3_S: TensorType = TensorType(&FORMAT);

static FORMAT: Format = Format {
    activation: Some(Q8_K),
    policy: Policy {
        fallback: Some(IQ4_NL),
        by_size: BySize::AnyRows,
        ..Policy::NONE
    },
    ..Format::full::<BlockIq3S>(21, "iq3_s", &[(0, 2, 1)])
};

fn search() -> GridSearch<4> {
    GridSearch {
        grid: grid::iq3_s(),
        n_steps: 9,
        step: 0.2,
        range: Range::Largest,
        // The smallest number: only zeros count as zero.
        zero_below: f32::from_bits(1),
        refit: Refit::AllIfOffGrid,
        even_signs: false,
    }
}

impl OddScales<32> for BlockIq3S {
    const UNIT: f32 = 1.0;

    fn d(&self) -> Half {
        self.d
    }

    fn scale(&self, j: usize) -> u8 {
        nibble(&self.scales, j)
    }

    fn values(&self, j: usize) -> [i32; 32] {
        let mut values = [0; 32];
        for (k, values) in values.chunks_exact_mut(8).enumerate() {
            let index = |half: usize| {
                let high = usize::from(self.qh[j] >> (2 * k + half) & 1) << 8;
                usize::from(self.qs[8 * j + 2 * k + half]) | high
            };
            let levels = [0, 1].map(|half| grid::iq3_s().point(index(half)));
            let magnitude = |i: usize| 2 * levels[i / 4][i % 4] + 1;
            let signs = self.signs[4 * j + k];
            values.copy_from_slice(&signed(std::array::from_fn(magnitude), signs));
        }
        values
    }
}

impl Block for BlockIq3S {
    const LEN: usize = 256;

    fn decode(&self, out: &mut [f32]) {
        odd_scales::decode(self, out);
    }

    fn is_finite(&self) -> bool {
        self.d.is_finite()
    }
}

impl Encode for BlockIq3S {
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
fn encode<L: Lanes>(search: &GridSearch<4>, x: &[f32], weights: &[f32; 256]) -> BlockIq3S {
    let found = search.encode::<L, 32>(x, weights);
    let mut block = BlockIq3S::zeroed();
    // The reference does not step over an empty sub-block where it writes low bits and signs, so that those of the later
    // ones stand too early; equal bytes need the same.
    let used = (0..8).filter(|&j| found.used[j]);
    for (place, j) in used.enumerate() {
        for k in 0..8 {
            let index = found.indices[8 * j + k];
            block.qs[8 * place + k] = index as u8;
            block.qh[j] |= ((index >> 8) as u8) << k;
        }
        block.signs[4 * place..][..4].copy_from_slice(&found.signs[4 * j..][..4]);
    }
    if let Some((d, levels)) = odd_levels(&found.scales, 31) {
        // The reference found by trial that a little more is better.
        block.d = Half::from_f32(d * 1.033);
        block.scales = std::array::from_fn(|j| levels[2 * j] | levels[2 * j + 1] << 4);
    }
    block
}

impl Dot for BlockIq3S {
    type With = BlockQ8K;

    fn dot(&self, with: &BlockQ8K) -> f64 {
        odd_scales::dot(self, with)
    }
}
