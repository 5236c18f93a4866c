//! 1.56 bits per weight: eight-element ternary grid points, a shift and a 3-bit scale per 32.

use std::array::from_fn;

use bytemuck::{Pod, Zeroable};

use crate::codec::{Block, Dot, Encode};
use crate::grid_search::{importance_weights, odd_levels};
use crate::half_float::Half;
use crate::lanes::{LANES, Lanes, map_lanes};
use crate::policy::{BySize, Policy};
use crate::registry::{Format, TensorType};
use crate::super_block::sum_of_squares;
use crate::ternary_search::{
    Best, Cut, SHIFT, ascending, decode_group, dot_group, largest, put_on_grid, values,
};
use crate::types::q8_k::BlockQ8K;
use crate::types::{IQ4_NL, Q8_K};

/// 256 elements in 50 bytes.
///
/// ```text
/// 0      2          34          50
/// | d    | qs[32]   | qh[8] u16  |
///
/// qs   low 8 bits of the grid index of each 8 elements
/// qh   per 32 elements: four 3-bit high parts, 3-bit scale (bits 12-14), sign of the shift (bit 15)
/// ```
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockIq1S {
    /// Super-block scale.
    pub d: Half,
    /// Low bits of the grid indices.
    pub qs: [u8; 32],
    /// High bits, scale and shift sign per 32 elements (u16, low byte first).
    pub qh: [[u8; 2]; 8],
}

const _: () = assert!(size_of::<BlockIq1S>() == 50);

/// 1.56 bits per weight: eight-element ternary grid points, a shift and a 3-bit scale per 32.
pub const IQ1_S: TensorType = TensorType(&FORMAT);

static FORMAT: Format = Format {
    activation: Some(Q8_K),
    policy: Policy {
        fallback: Some(IQ4_NL),
        coarse: true,
        by_size: BySize::AnyRows,
        ..Policy::NONE
    },
    ..Format::full::<BlockIq1S>(19, "iq1_s", &[(0, 2, 1), (34, 2, 8)])
};

/// Below this magnitude a sub-block counts as zero.
const ZERO_BELOW: f32 = 1e-12;

impl BlockIq1S {
    fn high(&self, j: usize) -> u16 {
        u16::from_le_bytes(self.qh[j])
    }

    /// Scale of elements `32j..32j+31`, in units of `d`.
    fn scale(&self, j: usize) -> i32 {
        2 * i32::from(self.high(j) >> 12 & 7) + 1
    }

    /// Index of elements `8k..8k+7`, and whether they are moved down.
    fn group(&self, k: usize) -> (u16, bool) {
        let high = self.high(k / 4);
        let index = u16::from(self.qs[k]) | (high >> (3 * (k % 4)) & 7) << 8;
        (index, high >> 15 == 1)
    }
}

impl Block for BlockIq1S {
    const LEN: usize = 256;

    fn decode(&self, out: &mut [f32]) {
        for (k, out) in out.chunks_exact_mut(8).enumerate() {
            let (index, down) = self.group(k);
            let d = self.d.to_f32() * self.scale(k / 4) as f32;
            decode_group(index, down, d, out);
        }
    }

    fn is_finite(&self) -> bool {
        self.d.is_finite()
    }
}

impl Encode for BlockIq1S {
    const NEEDS_IMPORTANCE: bool = true;

    #[inline(always)]
    fn encode_row<L: Lanes>(x: &[f32], importance: Option<&[f32]>, blocks: &mut [Self]) {
        // Never called without: see `NEEDS_IMPORTANCE`.
        let Some(importance) = importance else { return };
        // A loop in place: a closure would be compiled without the caller's instruction set.
        for ((x, importance), block) in x
            .chunks_exact(256)
            .zip(importance.chunks_exact(256))
            .zip(blocks)
        {
            *block = encode::<L>(x, importance);
        }
    }
}

#[inline(always)]
fn encode<L: Lanes>(x: &[f32], importance: &[f32]) -> BlockIq1S {
    let weights = importance_weights(x, importance, 2.0 * sum_of_squares(x) / 256.0);
    let order = ascending::<32>(x);
    let best = best_cuts::<L>(x, &weights, &order);
    let (scales, cuts) = (best.scale.store(), L::store_ints(best.cut));
    let mut block = BlockIq1S::zeroed();
    let (mut fitted, mut high) = ([0.0; 8], [0u16; 8]);
    for j in 0..8 {
        let part = 32 * j..32 * (j + 1);
        let Some(cut) = Cut::unpack(cuts[j]).filter(|_| largest(&x[part.clone()]) >= ZERO_BELOW)
        else {
            continue;
        };
        let (mut levels, mut down) = (cut.levels(&order[j]), cut.shifts == 1);
        if scales[j] < 0.0 {
            levels = levels.map(|level| 2 - level);
            down = !down;
        }
        let (x, weights) = (&x[part.clone()], &weights[part]);
        let (indices, scale) = put_on_grid::<L>(x, weights, &levels, scales[j].abs(), |_| down);
        for (k, index) in indices.into_iter().enumerate() {
            block.qs[4 * j + k] = index as u8;
            high[j] |= (index >> 8) << (3 * k);
        }
        high[j] |= u16::from(down) << 15;
        fitted[j] = scale;
    }
    if let Some((d, levels)) = odd_levels(&fitted, 15) {
        // The reference found by trial that an eighth more is better.
        block.d = Half::from_f32(d * 1.125);
        high = from_fn(|j| high[j] | u16::from(levels[j]) << 12);
    } else {
        high = high.map(|high| high & 0xfff);
    }
    block.qh = high.map(u16::to_le_bytes);
    block
}

/// The best cut and scale of each sub-block; `shifts` 0 is up, 1 down.
#[inline(always)]
fn best_cuts<L: Lanes>(x: &[f32], weights: &[f32; 256], order: &[[u8; 32]; LANES]) -> Best<L> {
    let zero = L::splat(0.0);
    let (mut sums_x, mut sums_w) = ([zero; 33], [zero; 33]);
    for place in 0..32 {
        let at = |s: usize| 32 * s + usize::from(order[s][place]) % 32;
        let w = L::load(from_fn(|s| weights[at(s)]));
        sums_x[place + 1] = sums_x[place] + w * L::load(from_fn(|s| x[at(s)]));
        sums_w[place + 1] = sums_w[place] + w;
    }
    let up = Side::new(values(false), &sums_x, &sums_w);
    let down = Side::new(values(true), &sums_x, &sums_w);
    let shift = L::splat(SHIFT);
    let mut best = Best::new();
    for low in 0..=32 {
        for high in low..=32 {
            // Moved down, the middle level is the negative: the same product, subtracted.
            let middle_x = (sums_x[high] - sums_x[low]) * shift;
            let middle_w = (sums_w[high] - sums_w[low]) * shift * shift;
            let sum_qq = up.low_w[low] + middle_w + up.high_w[high];
            let sum_xq = up.low_x[low] + middle_x + up.high_x[high];
            best.offer(sum_xq, sum_qq, || Cut::pack(low, high, 0));
            let sum_qq = down.low_w[low] + middle_w + down.high_w[high];
            let sum_xq = down.low_x[low] - middle_x + down.high_x[high];
            best.offer(sum_xq, sum_qq, || Cut::pack(low, high, 1));
        }
    }
    best
}

/// What the first elements add at level 0, and the last at level 2, to the sums of x * q and q * q.
struct Side<L> {
    low_x: [L; 33],
    low_w: [L; 33],
    high_x: [L; 33],
    high_w: [L; 33],
}

impl<L: Lanes> Side<L> {
    #[inline(always)]
    fn new([low, _, high]: [f32; 3], sums_x: &[L; 33], sums_w: &[L; 33]) -> Self {
        let (low, high) = (L::splat(low), L::splat(high));
        Side {
            low_x: map_lanes(sums_x, |sum| (sum - sums_x[0]) * low),
            low_w: map_lanes(sums_w, |sum| (sum - sums_w[0]) * low * low),
            high_x: map_lanes(sums_x, |sum| (sums_x[32] - sum) * high),
            high_w: map_lanes(sums_w, |sum| (sums_w[32] - sum) * high * high),
        }
    }
}

impl Dot for BlockIq1S {
    type With = BlockQ8K;

    fn dot(&self, with: &BlockQ8K) -> f64 {
        let mut scaled = 0;
        for (k, y) in with.qs.chunks_exact(8).enumerate() {
            let (index, down) = self.group(k);
            scaled += self.scale(k / 4) * dot_group(index, down, y);
        }
        f64::from(self.d.to_f32()) * 0.125 * f64::from(with.scale()) * f64::from(scaled)
    }
}
