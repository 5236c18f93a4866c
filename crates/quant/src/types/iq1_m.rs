//! 1.75 bits per weight: eight-element ternary grid points, a shift and a 3-bit scale per 16.

use std::array::from_fn;

use bytemuck::{Pod, Zeroable};

use crate::codec::{Block, Dot, Encode};
use crate::grid;
use crate::grid_search::{importance_weights, odd_levels};
use crate::half_float::Half;
use crate::lanes::{LANES, Lanes, map_lanes};
use crate::odd_scales::nibble;
use crate::policy::{BySize, Policy};
use crate::registry::{Format, TensorType};
use crate::super_block::sum_of_squares;
use crate::ternary_search::{
    Best, Cut, ascending, decode_group, dot_group, largest, put_on_grid, values,
};
use crate::types::q8_k::BlockQ8K;
use crate::types::{IQ4_NL, Q8_K};

/// 256 elements in 56 bytes.
///
/// ```text
/// 0          32         48          56
/// | qs[32]   | qh[16]  | scales[8]  |
///
/// qs, qh     11-bit grid index of each 8 elements: 8 low bits in qs, 3 high bits in a nibble of qh; bit 3 of the nibble: sign of the shift
/// scales     four u16, 3-bit scales in the low 12 bits; their top nibbles together are the binary16 super-block scale
/// ```
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockIq1M {
    /// Low bits of the grid indices.
    pub qs: [u8; 32],
    /// High bits of the grid indices, and shift signs.
    pub qh: [u8; 16],
    /// Sub-block scales and, spread over the top nibbles, the super-block scale.
    pub scales: [u8; 8],
}

const _: () = assert!(size_of::<BlockIq1M>() == 56);

/// 1.75 bits per weight: eight-element ternary grid points, a shift and a 3-bit scale per 16.
pub const IQ1_M: TensorType = TensorType(&FORMAT);

static FORMAT: Format = Format {
    activation: Some(Q8_K),
    policy: Policy {
        fallback: Some(IQ4_NL),
        coarse: true,
        by_size: BySize::AnyRows,
        ..Policy::NONE
    },
    ..Format::full::<BlockIq1M>(29, "iq1_m", &[(48, 2, 4)])
};

/// Below this magnitude a sub-block counts as zero.
const ZERO_BELOW: f32 = 1e-7;

impl BlockIq1M {
    fn words(&self) -> [u16; 4] {
        from_fn(|i| u16::from_le_bytes([self.scales[2 * i], self.scales[2 * i + 1]]))
    }

    /// Super-block scale: the top nibbles, lowest first.
    fn d(&self) -> Half {
        let bits = (0..4).fold(0, |bits, i| bits | self.words()[i] >> 12 << (4 * i));
        Half(bits.to_le_bytes())
    }

    /// Scale of elements `16j..16j+15`, in units of `d`.
    fn scale(&self, j: usize) -> i32 {
        2 * i32::from(self.words()[j / 4] >> (3 * (j % 4)) & 7) + 1
    }

    fn set_scales(&mut self, levels: &[u8; 16], d: Half) {
        for (i, bytes) in self.scales.chunks_exact_mut(2).enumerate() {
            let scales = (0..4).fold(0, |word, k| word | u16::from(levels[4 * i + k]) << (3 * k));
            let nibble = d.bits() >> (4 * i) << 12;
            bytes.copy_from_slice(&(scales | nibble).to_le_bytes());
        }
    }

    /// Index of elements `8k..8k+7`, and whether they are moved down.
    fn group(&self, k: usize) -> (u16, bool) {
        let high = nibble(&self.qh, k);
        (
            u16::from(self.qs[k]) | u16::from(high & 7) << 8,
            high >> 3 == 1,
        )
    }

    fn set_group(&mut self, k: usize, index: u16, down: bool) {
        self.qs[k] = index as u8;
        self.qh[k / 2] |= ((index >> 8) as u8 | u8::from(down) << 3) << (k % 2 * 4);
    }
}

impl Block for BlockIq1M {
    const LEN: usize = 256;

    fn decode(&self, out: &mut [f32]) {
        for (k, out) in out.chunks_exact_mut(8).enumerate() {
            let (index, down) = self.group(k);
            let d = self.d().to_f32() * self.scale(k / 2) as f32;
            decode_group(index, down, d, out);
        }
    }

    fn is_finite(&self) -> bool {
        self.d().is_finite()
    }
}

impl Encode for BlockIq1M {
    #[inline(always)]
    fn encode_row<L: Lanes>(x: &[f32], importance: Option<&[f32]>, blocks: &mut [Self]) {
        for (i, (x, block)) in x.chunks_exact(256).zip(blocks).enumerate() {
            let weights = match importance {
                None => from_fn(|i| x[i] * x[i]),
                Some(importance) => {
                    let importance = &importance[256 * i..][..256];
                    importance_weights(x, importance, 2.0 * sum_of_squares(x) / 256.0)
                }
            };
            *block = encode::<L>(x, &weights);
        }
    }
}

#[inline(always)]
fn encode<L: Lanes>(x: &[f32], weights: &[f32; 256]) -> BlockIq1M {
    let mut block = BlockIq1M::zeroed();
    let mut fitted = [0.0; 16];
    for first in [0, 8] {
        let (x, weights) = (&x[16 * first..][..128], &weights[16 * first..][..128]);
        let order = ascending::<16>(x);
        let best = best_cuts::<L>(x, weights, &order);
        let (scales, cuts) = (best.scale.store(), L::store_ints(best.cut));
        for s in 0..LANES {
            let (x, weights) = (&x[16 * s..][..16], &weights[16 * s..][..16]);
            let cut = Cut::unpack(cuts[s]).filter(|_| largest(x) >= ZERO_BELOW);
            let Some(cut) = cut else { continue };
            let (mut levels, mut shifts) = (cut.levels(&order[s]), cut.shifts);
            if scales[s] < 0.0 {
                levels = levels.map(|level| 2 - level);
                shifts = 3 - shifts;
            }
            let down = |k: usize| shifts >> (1 - k) & 1 == 1;
            let (indices, scale) = put_on_grid::<L>(x, weights, &levels, scales[s].abs(), down);
            for (k, &index) in indices[..2].iter().enumerate() {
                block.set_group(2 * (first + s) + k, index, down(k));
            }
            fitted[first + s] = scale;
        }
    }
    let Some((d, levels)) = odd_levels(&fitted, 15) else {
        // The reference sets the directions last.
        block.qh.iter_mut().for_each(|high| *high &= 0x77);
        return block;
    };
    // The reference found by trial that a little more is better.
    let d = best_scale(&block, x, weights, &levels).unwrap_or(d) * 1.1125;
    block.set_scales(&levels, Half::from_f32(d));
    block
}

/// The scale of the scales that fits all elements best.
#[inline(always)]
fn best_scale(
    block: &BlockIq1M,
    x: &[f32],
    weights: &[f32; 256],
    levels: &[u8; 16],
) -> Option<f32> {
    let (mut sum_xq, mut sum_qq) = (0.0f32, 0.0f32);
    for k in 0..32 {
        let (index, down) = block.group(k);
        let scale = f32::from(2 * levels[k / 2] + 1);
        let values = values(down).map(|value| value * scale);
        for (i, level) in grid::iq1().point(index.into()).into_iter().enumerate() {
            let (x, w, q) = (
                x[8 * k + i],
                weights[8 * k + i],
                values[usize::from(level) % 3],
            );
            sum_xq += w * q * x;
            sum_qq += w * q * q;
        }
    }
    (sum_qq > 0.0).then_some(sum_xq / sum_qq)
}

/// Sums over the elements of one half of each sub-block, in ascending order of all.
struct HalfSums<L> {
    x: [L; 17],
    w: [L; 17],
}

impl<L: Lanes> HalfSums<L> {
    #[inline(always)]
    fn new(half: usize, x: &[f32], weights: &[f32], order: &[[u8; 16]; LANES]) -> Self {
        let zero = L::splat(0.0);
        let (mut sums_x, mut sums_w) = ([zero; 17], [zero; 17]);
        for place in 0..16 {
            let at: [usize; LANES] = from_fn(|s| usize::from(order[s][place]) % 16);
            let here = L::load(at.map(|i| f32::from(i / 8 == half))).greater(zero);
            let w = L::load(from_fn(|s| weights[16 * s + at[s]]));
            let wx = w * L::load(from_fn(|s| x[16 * s + at[s]]));
            sums_x[place + 1] = L::choose(here, sums_x[place] + wx, sums_x[place]);
            sums_w[place + 1] = L::choose(here, sums_w[place] + w, sums_w[place]);
        }
        HalfSums {
            x: sums_x,
            w: sums_w,
        }
    }
}

/// One half of each sub-block, moved one way.
struct Side<L> {
    /// Sum of x * q if all elements had level 2: each element of the lowest run takes two from it, each of the middle one.
    all_x: L,
    /// What the lower and the higher cut make of the sum of q * q.
    low_w: [L; 17],
    high_w: [L; 17],
}

impl<L: Lanes> Side<L> {
    #[inline(always)]
    fn new([a, b, c]: [f32; 3], sums: &HalfSums<L>) -> Self {
        let (low_step, high_step) = (L::splat(a * a - b * b), L::splat(b * b - c * c));
        let all_w = sums.w[16] * L::splat(c) * L::splat(c);
        Side {
            all_x: sums.x[16] * L::splat(c),
            low_w: map_lanes(&sums.w, |sum| all_w + sum * low_step),
            high_w: map_lanes(&sums.w, |sum| sum * high_step),
        }
    }
}

/// The best cut and scale of each sub-block; bit 1 of `shifts`: the first half is moved down, bit 0: the second.
#[inline(always)]
fn best_cuts<L: Lanes>(x: &[f32], weights: &[f32], order: &[[u8; 16]; LANES]) -> Best<L> {
    let first = HalfSums::new(0, x, weights, order);
    let second = HalfSums::new(1, x, weights, order);
    let (up, down) = (values(false), values(true));
    let first_sides: [Side<L>; 2] = [Side::new(up, &first), Side::new(down, &first)];
    let second_sides: [Side<L>; 2] = [Side::new(up, &second), Side::new(down, &second)];
    let mut best = Best::new();
    for low in 0..=16 {
        for high in low..=16 {
            let (a_x, b_x) = (first.x[low] + first.x[high], second.x[low] + second.x[high]);
            for shifts in 0..4 {
                let (a, b) = (&first_sides[shifts >> 1], &second_sides[shifts & 1]);
                let sum_xq = (a.all_x - a_x) + (b.all_x - b_x);
                let sum_qq = (a.low_w[low] + a.high_w[high]) + (b.low_w[low] + b.high_w[high]);
                best.offer(sum_xq, sum_qq, || Cut::pack(low, high, shifts));
            }
        }
    }
    best
}

impl Dot for BlockIq1M {
    type With = BlockQ8K;

    fn dot(&self, with: &BlockQ8K) -> f64 {
        let mut scaled = 0;
        for (k, y) in with.qs.chunks_exact(8).enumerate() {
            let (index, down) = self.group(k);
            scaled += self.scale(k / 2) * dot_group(index, down, y);
        }
        f64::from(self.d().to_f32()) * 0.125 * f64::from(with.scale()) * f64::from(scaled)
    }
}
