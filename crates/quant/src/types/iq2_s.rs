//! 2.56 bits per weight: eight-element grid points of 1024, explicit signs, a 4-bit scale per 16.

use bytemuck::{Pod, Zeroable};

use crate::codec::{Block, Dot, Encode};
use crate::grid;
use crate::grid_search::{GridSearch, Range, Refit, importance_weights, odd_levels};
use crate::half_float::Half;
use crate::lanes::Lanes;
use crate::odd_scales::{self, OddScales, nibble};
use crate::policy::{BySize, Policy};
use crate::registry::{Format, TensorType};
use crate::super_block::sum_of_squares;
use crate::types::iq2_xxs::signed_values;
use crate::types::q8_k::BlockQ8K;
use crate::types::{IQ4_NL, Q8_K};

/// 256 elements in 82 bytes.
///
/// ```text
/// 0      2          66         74          82
/// | d    | qs[64]   | qh[8]    | scales[8] |
///
/// qs   32 bytes of low index bits, then 32 bytes of signs (one per 8 elements)
/// qh   two high index bits per 8 elements
/// ```
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockIq2S {
    /// Super-block scale.
    pub d: Half,
    /// Low index bits, then signs.
    pub qs: [u8; 64],
    /// High index bits.
    pub qh: [u8; 8],
    /// One nibble per 16 elements.
    pub scales: [u8; 8],
}

const _: () = assert!(size_of::<BlockIq2S>() == 82);

/// 2.56 bits per weight: eight-element grid points of 1024, explicit signs, a 4-bit scale per 16.
pub const IQ2_S: TensorType = TensorType(&FORMAT);

static FORMAT: Format = Format {
    activation: Some(Q8_K),
    policy: Policy {
        fallback: Some(IQ4_NL),
        coarse: true,
        by_size: BySize::AnyRows,
        ..Policy::NONE
    },
    ..Format::full::<BlockIq2S>(22, "iq2_s", &[(0, 2, 1)])
};

fn search() -> GridSearch<8> {
    GridSearch {
        grid: grid::iq2_s(),
        n_steps: 9,
        step: 0.1,
        range: Range::Largest,
        zero_below: 1e-8,
        refit: Refit::OffGrid,
        even_signs: false,
    }
}

impl OddScales<16> for BlockIq2S {
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
            let group = 2 * j + k;
            let high = usize::from(self.qh[group / 4] >> (group % 4 * 2) & 3) << 8;
            let levels = grid::iq2_s().point(usize::from(self.qs[group]) | high);
            let signs = self.qs[32 + group];
            values.copy_from_slice(&signed_values(levels, signs));
        }
        values
    }
}

impl Block for BlockIq2S {
    const LEN: usize = 256;

    fn decode(&self, out: &mut [f32]) {
        odd_scales::decode(self, out);
    }

    fn is_finite(&self) -> bool {
        self.d.is_finite()
    }
}

impl Encode for BlockIq2S {
    #[inline(always)]
    fn encode_row<L: Lanes>(x: &[f32], importance: Option<&[f32]>, blocks: &mut [Self]) {
        let search = search();
        for (i, (x, block)) in x.chunks_exact(256).zip(blocks).enumerate() {
            let mean_square = 2.0 * sum_of_squares(x) / 256.0;
            let weights = match importance {
                None => std::array::from_fn(|i| 0.25 * mean_square + x[i] * x[i]),
                Some(importance) => {
                    importance_weights(x, &importance[256 * i..][..256], mean_square)
                }
            };
            *block = encode::<L>(&search, x, &weights);
        }
    }
}

#[inline(always)]
fn encode<L: Lanes>(search: &GridSearch<8>, x: &[f32], weights: &[f32; 256]) -> BlockIq2S {
    let found = search.encode::<L, 16>(x, weights);
    let mut block = BlockIq2S::zeroed();
    for k in 0..32 {
        block.qs[k] = found.indices[k] as u8;
        block.qh[k / 4] |= ((found.indices[k] >> 8) as u8) << (k % 4 * 2);
        block.qs[32 + k] = found.signs[k];
    }
    if let Some((d, levels)) = odd_levels(&found.scales, 31) {
        // The reference found by trial that a little less is better.
        block.d = Half::from_f32(d * 0.9875);
        block.scales = std::array::from_fn(|j| levels[2 * j] | levels[2 * j + 1] << 4);
    }
    block
}

impl Dot for BlockIq2S {
    type With = BlockQ8K;

    fn dot(&self, with: &BlockQ8K) -> f64 {
        odd_scales::dot(self, with)
    }
}
