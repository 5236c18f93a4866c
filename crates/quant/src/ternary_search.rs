//! What IQ1_S and IQ1_M share: levels -1, 0, 1, all moved up or down by an eighth, on a grid of eight coordinates.
//!
//! With three levels the best rounding can be found outright: in ascending order the elements fall into three runs, and
//! all ways to cut them are tried, eight sub-blocks side by side ([`Lanes`]).

use std::array::from_fn;

use crate::codec::dot_i32;
use crate::grid;
use crate::lanes::{LANES, Lanes};
use crate::nearest_point::{distance_tables, nearest_point};

/// How far the levels are moved.
pub(crate) const SHIFT: f32 = 0.125;

/// What the levels stand for, moved up (false) or down (true).
#[inline(always)]
pub(crate) fn values(down: bool) -> [f32; 3] {
    let shift = if down { -SHIFT } else { SHIFT };
    [-1.0 + shift, shift, 1.0 + shift]
}

/// A way to cut a sub-block of ascending elements: the first `low` get level 0, those from `high` on level 2.
#[derive(Clone, Copy)]
pub(crate) struct Cut {
    pub low: usize,
    pub high: usize,
    /// Which way which part of the sub-block is moved, as the type counts it.
    pub shifts: usize,
}

impl Cut {
    /// A cut as an integer of a lane.
    #[inline(always)]
    pub fn pack(low: usize, high: usize, shifts: usize) -> i32 {
        (low | high << 8 | shifts << 16) as i32
    }

    /// `None` for a negative integer: no cut was found.
    #[inline(always)]
    pub fn unpack(packed: i32) -> Option<Self> {
        (packed >= 0).then_some(Cut {
            low: packed as usize & 255,
            high: packed as usize >> 8 & 255,
            shifts: packed as usize >> 16,
        })
    }

    /// The levels of a sub-block whose elements have this order.
    #[inline(always)]
    pub fn levels<const LEN: usize>(&self, order: &[u8; LEN]) -> [u8; LEN] {
        let mut levels = [0; LEN];
        for (place, &i) in order.iter().enumerate() {
            levels[usize::from(i) % LEN] =
                u8::from(place >= self.low) + u8::from(place >= self.high);
        }
        levels
    }
}

/// The order of the elements of eight sub-blocks, ascending; equal ones (0 and -0 too) in their own order.
#[inline(always)]
pub(crate) fn ascending<const LEN: usize>(x: &[f32]) -> [[u8; LEN]; LANES] {
    from_fn(|s| {
        let mut keys: [u64; LEN] = from_fn(|i| {
            let bits = (x[s * LEN + i] + 0.0).to_bits(); // turns -0 into 0
            let ordered = bits ^ ((bits as i32 >> 31) as u32 | 1 << 31);
            u64::from(ordered) << 8 | i as u64
        });
        keys.sort_unstable();
        keys.map(|key| key as u8)
    })
}

/// The best cut so far of eight sub-blocks.
pub(crate) struct Best<L: Lanes> {
    pub scale: L,
    score: L,
    /// See [`Cut::unpack`].
    pub cut: L::Ints,
}

impl<L: Lanes> Best<L> {
    #[inline(always)]
    pub fn new() -> Self {
        Best {
            scale: L::splat(0.0),
            score: L::splat(-f32::MAX),
            cut: L::splat_int(-1),
        }
    }

    /// Takes a cut with these weighted sums of x * q and q * q where it is better.
    #[inline(always)]
    pub fn offer(&mut self, sum_xq: L, sum_qq: L, cut: impl FnOnce() -> i32) {
        let better = sum_qq.greater(L::splat(0.0)) & (sum_xq * sum_xq).greater(self.score * sum_qq);
        if L::any(better) {
            self.scale = L::choose(better, sum_xq / sum_qq, self.scale);
            self.score = L::choose(better, self.scale * sum_xq, self.score);
            self.cut = L::choose_ints(better, L::splat_int(cut()), self.cut);
        }
    }
}

/// Puts a sub-block's levels on the grid: an index per 8 elements, and the scale, fitted anew if a group had to take a
/// neighbour. `down` tells which way a group is moved.
#[inline(always)]
pub(crate) fn put_on_grid<L: Lanes>(
    x: &[f32],
    weights: &[f32],
    levels: &[u8],
    scale: f32,
    down: impl Fn(usize) -> bool,
) -> ([u16; 4], f32) {
    let grid = grid::iq1();
    let mut indices = [0; 4];
    let mut all_on_grid = true;
    for (k, levels) in levels.chunks_exact(8).enumerate() {
        let code = grid::code_of::<8>(from_fn(|i| levels[i]));
        indices[k] = grid.index(code).unwrap_or_else(|| {
            all_on_grid = false;
            let [a, b, c] = values(down(k));
            let steps = L::load([a, b, c, 0.0, a, b, c, 0.0]);
            let part = 8 * k..8 * k + 8;
            let tables: [L; 8] = distance_tables(steps, scale, &x[part.clone()], &weights[part]);
            let nearest = nearest_point(grid.neighbours(code), &tables);
            grid.index(nearest).unwrap_or(0)
        });
    }
    if all_on_grid {
        return (indices, scale);
    }
    let (mut sum_xq, mut sum_qq) = (0.0f32, 0.0f32);
    for (i, (&x, &w)) in x.iter().zip(weights).enumerate() {
        let level = grid.point(indices[i / 8].into())[i % 8];
        let q = values(down(i / 8))[usize::from(level) % 3];
        sum_xq += w * q * x;
        sum_qq += w * q * q;
    }
    if sum_xq > 0.0 && sum_qq > 0.0 {
        return (indices, sum_xq / sum_qq);
    }
    (indices, scale)
}

/// Largest magnitude.
#[inline(always)]
pub(crate) fn largest(x: &[f32]) -> f32 {
    x.iter()
        .fold(0.0, |max, x| if max > x.abs() { max } else { x.abs() })
}

/// The values of one group, moved by an eighth, at scale `d`.
pub(crate) fn decode_group(index: u16, down: bool, d: f32, out: &mut [f32]) {
    let values = values(down);
    for (out, level) in out.iter_mut().zip(grid::iq1().point(index.into())) {
        *out = d * values[usize::from(level) % 3];
    }
}

/// Eight times the dot product of one group with as many activations.
pub(crate) fn dot_group(index: u16, down: bool, y: &[i8]) -> i32 {
    let shift = if down { -1 } else { 1 };
    let levels = grid::iq1().point(index.into());
    dot_i32(
        levels
            .iter()
            .map(|&level| 8 * (i32::from(level) - 1) + shift),
        y,
    )
}
