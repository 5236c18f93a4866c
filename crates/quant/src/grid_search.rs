//! The search for scales and grid points that IQ2 and IQ3 types share.
//!
//! Eight sub-blocks lie side by side ([`Lanes`]); in each, every candidate scale rounds the elements to levels, replaces
//! groups of levels that are no grid point by the best neighbour, and keeps what has the largest weighted
//! projection. Per lane the numbers are those of a loop over that sub-block alone.

use std::array::from_fn;

use crate::grid::Grid;
use crate::lanes::{LANES, Lanes, transpose};
use crate::levels::nearest;
use crate::nearest_point::{distance_tables, nearest_point};
use crate::positive_search::fit_positive;
use crate::signs::{make_even, split_signs};
use crate::super_block::sum_of_squares;

/// Groups that a sub-block has at most: 32 elements, four at a time.
const GROUPS_MAX: usize = 8;

/// Lane `s` of group `k`.
type ByGroup<T> = [[T; LANES]; GROUPS_MAX];

/// How a type searches. Level `l` stands for `2l + 1` half steps.
pub(crate) struct GridSearch<const N: usize> {
    pub grid: &'static Grid<N>,
    /// Candidates on either side of the first.
    pub n_steps: i32,
    /// Distance of two candidates: inverse scales are `(largest + i * step) / range`.
    pub step: f32,
    /// Where the range comes from.
    pub range: Range,
    /// A sub-block counts as zero if its largest element is below.
    pub zero_below: f32,
    pub refit: Refit,
    /// Whether each 8 elements must have an even number of signs.
    pub even_signs: bool,
}

/// What the candidate scales are measured from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Range {
    /// The largest element.
    Largest,
    /// Three times the best scale for evenly spaced levels 0 to 4.
    EvenLevels,
}

/// Which groups look for a point again once the best scale is known; then the scale is fitted anew.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refit {
    /// All of every sub-block.
    All,
    /// All of a sub-block that had a group off the grid.
    AllIfOffGrid,
    /// Those that were off the grid.
    OffGrid,
}

/// 256 elements on a grid.
pub(crate) struct OnGrid {
    /// Whether a sub-block has elements that count; all else of one without is 0.
    pub used: [bool; 16],
    /// Scale per sub-block.
    pub scales: [f32; 16],
    /// Index of a point per group; the first 256 / N count.
    pub indices: [u16; 64],
    /// Per 8 elements.
    pub signs: [u8; 32],
}

/// Eight sub-blocks of `LEN` elements, by element and in their own order.
struct Elements<'a, L, const LEN: usize> {
    x: [L; LEN],
    weights: [L; LEN],
    in_order: &'a [f32],
    /// Square roots of the weights, in order: what distances are weighted with.
    roots: [f32; 256],
}

/// Scale and points of eight sub-blocks.
struct Fit<L: Lanes> {
    scale: L,
    codes: [L::Ints; GROUPS_MAX],
    /// Groups whose levels were no point at the best scale.
    off_grid: ByGroup<bool>,
}

impl<const N: usize> GridSearch<N> {
    /// What the largest level stands for, in half steps.
    const LARGEST: f32 = (2 * Grid::<N>::N_LEVELS - 1) as f32;

    /// Encodes 256 elements as sub-blocks of `LEN`.
    #[inline(always)]
    pub fn encode<L: Lanes, const LEN: usize>(&self, x: &[f32], weights: &[f32; 256]) -> OnGrid {
        let (mut magnitudes, signs) = split_signs(x);
        let mut found = OnGrid {
            used: [false; 16],
            scales: [0.0; 16],
            indices: [0; 64],
            signs,
        };
        if self.even_signs {
            make_even(&mut magnitudes, weights, &mut found.signs);
        }
        for first in (0..256).step_by(LANES * LEN) {
            let part = first..first + LANES * LEN;
            self.fit::<L, LEN>(
                &magnitudes[part.clone()],
                &weights[part],
                first / LEN,
                &mut found,
            );
        }
        found
    }

    #[inline(always)]
    fn fit<L: Lanes, const LEN: usize>(
        &self,
        x: &[f32],
        weights: &[f32],
        first: usize,
        found: &mut OnGrid,
    ) {
        let mut elements = Elements {
            x: transpose::<L, LEN>(x),
            weights: transpose::<L, LEN>(weights),
            in_order: x,
            roots: [0.0; 256],
        };
        for (root, weight) in elements.roots.iter_mut().zip(weights) {
            *root = weight.sqrt();
        }
        let (range, scale, used) = self.start(&elements);
        let mut fit = self.best_candidate(&elements, (range, scale), &used);
        self.refit(&elements, &used, &mut fit);
        let scales = fit.scale.store();
        let mut codes = [[0; LANES]; GROUPS_MAX];
        for (stored, codes) in codes.iter_mut().zip(fit.codes) {
            *stored = L::store_ints(codes);
        }
        for s in 0..LANES {
            let signs = &mut found.signs[(first + s) * LEN / 8..][..LEN / 8];
            if !used[s] {
                signs.fill(0);
                continue;
            }
            // Scales are stored without sign.
            if scales[s] < 0.0 {
                signs.iter_mut().for_each(|byte| *byte = !*byte);
            }
            found.used[first + s] = true;
            found.scales[first + s] = scales[s].abs();
            for (k, codes) in codes.iter().enumerate().take(LEN / N) {
                let index = self.grid.index(codes[s] as u16).unwrap_or(0);
                found.indices[(first + s) * (LEN / N) + k] = index;
            }
        }
    }

    /// The range of the candidates, the scale to be bettered, and which sub-blocks are not empty.
    #[inline(always)]
    fn start<L: Lanes, const LEN: usize>(
        &self,
        elements: &Elements<L, LEN>,
    ) -> (L, L, [bool; LANES]) {
        let mut largest = elements.x[0];
        for &x in &elements.x[1..] {
            largest = L::choose(largest.greater(x), largest, x);
        }
        let empty = L::bits(L::splat(self.zero_below).greater(largest));
        let used = |empty: u32| from_fn(|s| empty >> s & 1 == 0);
        if self.range == Range::Largest {
            let scale = largest / L::splat(Self::LARGEST);
            return (largest, scale, used(empty));
        }
        let scale = fit_positive(4, &elements.x, &elements.weights);
        let range = scale * L::splat(3.0);
        let positive = L::bits(range.greater(L::splat(0.0)));
        (range, scale, used(empty | !positive))
    }

    #[inline(always)]
    fn best_candidate<L: Lanes, const LEN: usize>(
        &self,
        elements: &Elements<L, LEN>,
        (range, scale): (L, L),
        used: &[bool; LANES],
    ) -> Fit<L> {
        let mut best = L::splat(0.0);
        let mut fit = Fit {
            scale,
            codes: [L::splat_int(0); GROUPS_MAX],
            off_grid: [[self.refit != Refit::OffGrid; LANES]; GROUPS_MAX],
        };
        for step in -self.n_steps..=self.n_steps {
            let inverse = L::splat(Self::LARGEST + self.step * step as f32) / range;
            let scale = L::splat(1.0) / inverse;
            let (codes, off_grid) = self.points(elements, inverse, scale, &[*used; GROUPS_MAX]);
            let (sum_xq, sum_qq) = self.sums(elements, &codes);
            let better = sum_qq.greater(L::splat(0.0)) & (sum_xq * sum_xq).greater(best * sum_qq);
            if !L::any(better) {
                continue;
            }
            fit.scale = L::choose(better, sum_xq / sum_qq, fit.scale);
            best = L::choose(better, fit.scale * sum_xq, best);
            let better_lanes = L::bits(better);
            for k in 0..LEN / N {
                fit.codes[k] = L::choose_ints(better, codes[k], fit.codes[k]);
                for s in (0..LANES).filter(|s| better_lanes >> s & 1 == 1) {
                    fit.off_grid[k][s] = off_grid[k][s];
                }
            }
        }
        fit
    }

    /// The points of all groups at one scale, and which groups had to take a neighbour. Groups that are not `wanted` get
    /// whatever their levels give.
    #[inline(always)]
    fn points<L: Lanes, const LEN: usize>(
        &self,
        elements: &Elements<L, LEN>,
        inverse: L,
        scale: L,
        wanted: &ByGroup<bool>,
    ) -> ([L::Ints; GROUPS_MAX], ByGroup<bool>) {
        let (half, one) = (L::splat(0.5), L::splat(1.0));
        let level_max = Grid::<N>::N_LEVELS as i32 - 1;
        let steps = L::load(from_fn(|i| {
            (2 * (i % if N == 8 { 4 } else { 8 }) + 1) as f32
        }));
        let scales = scale.store();
        let mut points = [L::splat_int(0); GROUPS_MAX];
        let mut off_grid = [[false; LANES]; GROUPS_MAX];
        for k in 0..LEN / N {
            let mut code = L::splat_int(0);
            for i in 0..N {
                let level = (half * (inverse * elements.x[N * k + i] - one)).nearest();
                let level = L::clamp_ints(level, 0, level_max);
                code = L::or_ints(code, L::shift_left(level, (Grid::<N>::BITS * i) as u32));
            }
            let mut codes = L::store_ints(code);
            for s in 0..LANES {
                let neighbours = self.grid.neighbours(codes[s] as u16);
                if neighbours.is_empty() || !wanted[k][s] {
                    continue;
                }
                let at = s * LEN + N * k;
                let (x, roots) = (&elements.in_order[at..at + N], &elements.roots[at..at + N]);
                let tables: [L; N] = distance_tables(steps, scales[s], x, roots);
                codes[s] = i32::from(nearest_point(neighbours, &tables));
                off_grid[k][s] = true;
            }
            points[k] = L::load_ints(codes);
        }
        (points, off_grid)
    }

    /// Weighted sums of x * q and q * q.
    #[inline(always)]
    fn sums<L: Lanes, const LEN: usize>(
        &self,
        elements: &Elements<L, LEN>,
        codes: &[L::Ints; GROUPS_MAX],
    ) -> (L, L) {
        let values = L::load(from_fn(|i| {
            (2 * (i % if N == 8 { 4 } else { 8 }) + 1) as f32
        }));
        let (mut sum_xq, mut sum_qq) = (L::splat(0.0), L::splat(0.0));
        for (e, (&x, &w)) in elements.x.iter().zip(&elements.weights).enumerate() {
            let shift = (Grid::<N>::BITS * (e % N)) as u32;
            let q = values.look_up(L::shift_right(codes[e / N], shift));
            sum_xq = sum_xq + w * x * q;
            sum_qq = sum_qq + w * q * q;
        }
        (sum_xq, sum_qq)
    }

    /// Finds points anew at the best scale, then the scale that fits them.
    #[inline(always)]
    fn refit<L: Lanes, const LEN: usize>(
        &self,
        elements: &Elements<L, LEN>,
        used: &[bool; LANES],
        fit: &mut Fit<L>,
    ) {
        let n_groups = LEN / N;
        let positive = L::bits(fit.scale.greater(L::splat(0.0)));
        let mut again = [false; LANES];
        for s in 0..LANES {
            let is_off = self.refit == Refit::All || (0..n_groups).any(|k| fit.off_grid[k][s]);
            again[s] = used[s] && positive >> s & 1 == 1 && is_off;
        }
        if !again.contains(&true) {
            return;
        }
        let all = self.refit != Refit::OffGrid;
        let wanted: ByGroup<bool> =
            from_fn(|k| from_fn(|s| again[s] && (all || fit.off_grid[k][s])));
        let inverse = L::splat(1.0) / fit.scale;
        let (codes, _) = self.points(elements, inverse, fit.scale, &wanted);
        for k in 0..n_groups {
            let (old, new) = (L::store_ints(fit.codes[k]), L::store_ints(codes[k]));
            fit.codes[k] = L::load_ints(from_fn(|s| if wanted[k][s] { new[s] } else { old[s] }));
        }
        let (sum_xq, sum_qq) = self.sums(elements, &fit.codes);
        let again = L::load(again.map(f32::from)).greater(L::splat(0.0));
        let fitted = again & sum_qq.greater(L::splat(0.0));
        fit.scale = L::choose(fitted, sum_xq / sum_qq, fit.scale);
    }
}

/// Weights of 256 elements under an importance matrix.
#[inline(always)]
pub(crate) fn importance_weights(x: &[f32], importance: &[f32], mean_square: f32) -> [f32; 256] {
    from_fn(|i| importance[i] * (mean_square + x[i] * x[i]).sqrt())
}

/// Weights of 256 elements, with or without an importance matrix, by the square of each.
#[inline(always)]
pub(crate) fn square_weights(x: &[f32], importance: Option<&[f32]>) -> [f32; 256] {
    match importance {
        None => from_fn(|i| x[i] * x[i]),
        Some(importance) => importance_weights(x, importance, 2.0 * sum_of_squares(x) / 256.0),
    }
}

/// The largest scale as `d`, and for each scale the odd number `2l + 1` of `d / n` that is nearest, as `l` in
/// `0..=(n - 1) / 2`. `None` if there is no scale.
#[inline(always)]
pub(crate) fn odd_levels<const SUBS: usize>(
    scales: &[f32; SUBS],
    n: i32,
) -> Option<(f32, [u8; SUBS])> {
    let max = scales
        .iter()
        .fold(0.0f32, |max, &x| if max > x { max } else { x });
    if max == 0.0 {
        return None;
    }
    let d = max / n as f32;
    let inverse = 1.0 / d;
    let level = |scale: f32| nearest(0.5 * (inverse * scale - 1.0)).clamp(0, (n - 1) / 2) as u8;
    Some((d, scales.map(level)))
}
