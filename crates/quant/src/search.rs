//! The searches for the scale (and minimum) that lose least, shared by all block types.
//!
//! Each search takes `N` sub-blocks side by side ([`Lanes`]) and gives per lane exactly what a loop over
//! that sub-block alone gives.

use crate::lanes::{Ints, Lanes, Mask, transpose};
use crate::levels::nearest;

/// Below this magnitude a sub-block counts as zero.
pub(crate) const ZERO_MAGNITUDE: f32 = 1e-15;

/// Scale and levels `0..2 * n` (`n` stands for zero) that minimise the weighted squared error: tries 19
/// scales about the one that maps the element of largest magnitude to level 0. Levels of a zero sub-block are 0.
#[inline(always)]
pub(crate) fn fit_symmetric<const N: usize>(
    n: i32,
    x: &[Lanes<N>],
    weights: &[Lanes<N>],
    levels: &mut [Ints<N>],
) -> Lanes<N> {
    let (largest, magnitude) = largest_signed(x);
    let inverse = Lanes::splat(-n as f32) / largest;
    let (sum_xl, sum_ll) = symmetric_sums(n, x, weights, inverse);
    for (&x, level) in x.iter().zip(levels.iter_mut()) {
        *level = symmetric_level(n, x, inverse).plus(n);
    }
    let mut scale = sum_ll
        .differs(Lanes::ZERO)
        .choose(sum_xl / sum_ll, Lanes::ZERO);
    let mut best = scale * sum_xl;
    for step in (-9..=9).filter(|&step| step != 0) {
        let inverse = Lanes::splat(-(n as f32 + 0.1 * step as f32)) / largest;
        let (sum_xl, sum_ll) = symmetric_sums(n, x, weights, inverse);
        let better = sum_ll.greater(Lanes::ZERO) & (sum_xl * sum_xl).greater(best * sum_ll);
        if better.any() {
            for (&x, level) in x.iter().zip(levels.iter_mut()) {
                *level = better.choose_ints(symmetric_level(n, x, inverse).plus(n), *level);
            }
            scale = better.choose(sum_xl / sum_ll, scale);
            best = better.choose(scale * sum_xl, best);
        }
    }
    zero_where_tiny(magnitude, levels, scale)
}

#[inline(always)]
fn symmetric_level<const N: usize>(n: i32, x: Lanes<N>, inverse: Lanes<N>) -> Ints<N> {
    (inverse * x).nearest().clamp(-n, n - 1)
}

/// Weighted sums of x * l and l * l for the levels that one inverse scale gives.
#[inline(always)]
fn symmetric_sums<const N: usize>(
    n: i32,
    x: &[Lanes<N>],
    weights: &[Lanes<N>],
    inverse: Lanes<N>,
) -> (Lanes<N>, Lanes<N>) {
    let (mut sum_xl, mut sum_ll) = (Lanes::ZERO, Lanes::ZERO);
    for (&x, &w) in x.iter().zip(weights) {
        let l = symmetric_level(n, x, inverse).to_lanes();
        sum_xl = sum_xl + w * x * l;
        sum_ll = sum_ll + w * l * l;
    }
    (sum_xl, sum_ll)
}

/// Per lane the element of largest magnitude, with and without its sign.
#[inline(always)]
fn largest_signed<const N: usize>(x: &[Lanes<N>]) -> (Lanes<N>, Lanes<N>) {
    let (mut value, mut magnitude) = (Lanes::ZERO, Lanes::ZERO);
    for &x in x {
        let larger = x.abs().greater(magnitude);
        value = larger.choose(x, value);
        magnitude = larger.choose(x.abs(), magnitude);
    }
    (value, magnitude)
}

/// Level 0 and scale 0 for the lanes that count as zero.
#[inline(always)]
fn zero_where_tiny<const N: usize>(
    magnitude: Lanes<N>,
    levels: &mut [Ints<N>],
    scale: Lanes<N>,
) -> Lanes<N> {
    let tiny = magnitude.less(Lanes::splat(ZERO_MAGNITUDE));
    if tiny.any() {
        levels
            .iter_mut()
            .for_each(|level| *level = tiny.choose_ints(Ints::ZERO, *level));
    }
    tiny.choose(Lanes::ZERO, scale)
}

/// Scale and levels `0..2 * n` by coordinate descent on the squared error weighted with `x * x`: starts from
/// the scale that maps the largest magnitude to level 0 and moves one level at a time, five rounds at most.
#[inline(always)]
pub(crate) fn fit_by_descent<const N: usize>(
    n: i32,
    x: &[Lanes<N>],
    levels: &mut [Ints<N>],
) -> Lanes<N> {
    let (largest, magnitude) = largest_signed(x);
    let inverse = Lanes::splat(-n as f32) / largest;
    let (mut sum_xl, mut sum_ll) = (Lanes::ZERO, Lanes::ZERO);
    for (&x, level) in x.iter().zip(levels.iter_mut()) {
        *level = (inverse * x).nearest().clamp(-n, n - 1);
        let (w, l) = (x * x, level.to_lanes());
        sum_xl = sum_xl + w * x * l;
        sum_ll = sum_ll + w * l * l;
    }
    for _ in 0..5 {
        let mut changed = false;
        for (&x, level) in x.iter().zip(levels.iter_mut()) {
            let (w, l) = (x * x, level.to_lanes());
            let rest_xl = sum_xl - w * x * l;
            let rest_ll = sum_ll - w * l * l;
            let moved = (x * rest_ll / rest_xl).nearest().clamp(-n, n - 1);
            let m = moved.to_lanes();
            let (new_xl, new_ll) = (rest_xl + w * x * m, rest_ll + w * m * m);
            let better = rest_xl.greater(Lanes::ZERO)
                & moved.differs(*level)
                & new_ll.greater(Lanes::ZERO)
                & (new_xl * new_xl * sum_ll).greater(sum_xl * sum_xl * new_ll);
            changed |= better.any();
            *level = better.choose_ints(moved, *level);
            sum_xl = better.choose(new_xl, sum_xl);
            sum_ll = better.choose(new_ll, sum_ll);
        }
        if !changed {
            break;
        }
    }
    levels.iter_mut().for_each(|level| *level = level.plus(n));
    let scale = sum_ll
        .greater(Lanes::ZERO)
        .choose(sum_xl / sum_ll, Lanes::ZERO);
    zero_where_tiny(magnitude, levels, scale)
}

/// How [`fit_affine`] searches.
pub(crate) struct AffineSearch {
    /// Largest level.
    pub n_max: i32,
    /// Step `i` tries the inverse scale `(n_max + first + i * step) / range`.
    pub first: f32,
    /// See `first`.
    pub step: f32,
    /// Steps after step 0.
    pub n_steps: i32,
    /// Weighted absolute error instead of weighted squared error.
    pub absolute: bool,
    /// Whether a product out of range gives the end level (true), or whatever its bits give (false).
    pub saturate: bool,
}

impl AffineSearch {
    /// The search under an importance matrix: finer and longer.
    pub const fn weighted(n_max: i32) -> Self {
        AffineSearch {
            n_max,
            first: -0.9,
            step: 0.05,
            n_steps: 36,
            absolute: false,
            saturate: true,
        }
    }
}

/// Scale, minimum (at most 0) and levels `0..=n_max` that lose least among the tried scales, each improved by
/// linear regression.
#[inline(always)]
pub(crate) fn fit_affine<const N: usize>(
    search: &AffineSearch,
    x: &[Lanes<N>],
    weights: &[Lanes<N>],
    levels: &mut [Ints<N>],
) -> (Lanes<N>, Lanes<N>) {
    let n_max = search.n_max;
    let sums = AffineSums::of(x, weights);
    let (mut min, max) = (sums.min, sums.max);
    let inverse = Lanes::splat(n_max as f32) / (max - min);
    let mut scale = Lanes::splat(1.0) / inverse;
    for (&x, level) in x.iter().zip(levels.iter_mut()) {
        *level = (inverse * (x - min)).nearest().clamp(0, n_max);
    }
    let mut best = affine_error(search, x, weights, levels, scale, min);
    let mut tried = [Ints::ZERO; 32];
    let tried = &mut tried[..x.len()];
    for i in 0..=search.n_steps {
        let inverse =
            Lanes::splat(search.first + search.step * i as f32 + n_max as f32) / (max - min);
        let Some((valid, new_scale, new_min)) =
            sums.regress(search, x, weights, inverse, min, tried)
        else {
            continue;
        };
        let error = affine_error(search, x, weights, tried, new_scale, new_min);
        let better = valid & error.less(best);
        if better.any() {
            for (level, &tried) in levels.iter_mut().zip(tried.iter()) {
                *level = better.choose_ints(tried, *level);
            }
            best = better.choose(error, best);
            scale = better.choose(new_scale, scale);
            min = better.choose(new_min, min);
        }
    }
    let constant = sums.max.equals(sums.min);
    levels
        .iter_mut()
        .for_each(|level| *level = constant.choose_ints(Ints::ZERO, *level));
    (
        constant.choose(Lanes::ZERO, scale),
        constant.choose(sums.min, min),
    )
}

/// What [`fit_affine`] needs to know of a sub-block before it starts.
struct AffineSums<const N: usize> {
    /// Smallest element, at most 0.
    min: Lanes<N>,
    max: Lanes<N>,
    sum_w: Lanes<N>,
    sum_x: Lanes<N>,
}

impl<const N: usize> AffineSums<N> {
    #[inline(always)]
    fn of(x: &[Lanes<N>], weights: &[Lanes<N>]) -> Self {
        let mut sums = AffineSums {
            min: x[0],
            max: x[0],
            sum_w: weights[0],
            sum_x: weights[0] * x[0],
        };
        for (&x, &w) in x.iter().zip(weights).skip(1) {
            sums.min = x.less(sums.min).choose(x, sums.min);
            sums.max = x.greater(sums.max).choose(x, sums.max);
            sums.sum_w = sums.sum_w + w;
            sums.sum_x = sums.sum_x + w * x;
        }
        sums.min = sums.min.greater(Lanes::ZERO).choose(Lanes::ZERO, sums.min);
        sums
    }

    /// Rounds with one inverse scale, then fits scale and minimum to the levels by weighted least squares.
    /// The mask tells where the fit exists.
    #[inline(always)]
    fn regress(
        &self,
        search: &AffineSearch,
        x: &[Lanes<N>],
        weights: &[Lanes<N>],
        inverse: Lanes<N>,
        min: Lanes<N>,
        tried: &mut [Ints<N>],
    ) -> Option<(Mask<N>, Lanes<N>, Lanes<N>)> {
        let (mut sum_l, mut sum_ll, mut sum_xl) = (Lanes::ZERO, Lanes::ZERO, Lanes::ZERO);
        for ((&x, &w), tried) in x.iter().zip(weights).zip(tried) {
            *tried = affine_level(search, inverse * (x - min));
            let l = tried.to_lanes();
            sum_l = sum_l + w * l;
            sum_ll = sum_ll + w * l * l;
            sum_xl = sum_xl + w * l * x;
        }
        let determinant = self.sum_w * sum_ll - sum_l * sum_l;
        let valid = determinant.greater(Lanes::ZERO);
        if !valid.any() {
            return None;
        }
        let scale = (self.sum_w * sum_xl - self.sum_x * sum_l) / determinant;
        let min = (sum_ll * self.sum_x - sum_l * sum_xl) / determinant;
        let above = min.greater(Lanes::ZERO);
        Some((
            valid,
            above.choose(sum_xl / sum_ll, scale),
            above.choose(Lanes::ZERO, min),
        ))
    }
}

#[inline(always)]
fn affine_level<const N: usize>(search: &AffineSearch, v: Lanes<N>) -> Ints<N> {
    if !search.saturate {
        return v.nearest().clamp(0, search.n_max);
    }
    let end = Lanes::splat(search.n_max as f32);
    let level = v.less(end).choose(v, end).nearest();
    v.greater(Lanes::ZERO).choose_ints(level, Ints::ZERO)
}

#[inline(always)]
fn affine_error<const N: usize>(
    search: &AffineSearch,
    x: &[Lanes<N>],
    weights: &[Lanes<N>],
    levels: &[Ints<N>],
    scale: Lanes<N>,
    min: Lanes<N>,
) -> Lanes<N> {
    let mut error = Lanes::ZERO;
    for ((&x, &w), level) in x.iter().zip(weights).zip(levels) {
        let difference = scale * level.to_lanes() + min - x;
        let loss = if search.absolute {
            difference.abs()
        } else {
            difference * difference
        };
        error = error + w * loss;
    }
    error
}

/// Scale and levels `0..=n_max` for values that are not negative (the scales and minima of sub-blocks): tries
/// nine scales, then moves one level at a time, five rounds at most. Stores the levels as bytes.
pub(crate) fn fit_positive(n_max: i32, x: &[f32], weights: &[f32], levels: &mut [u8]) -> f32 {
    let max = x
        .iter()
        .fold(0.0f32, |max, &x| if max > x { max } else { x });
    if max < ZERO_MAGNITUDE {
        levels.fill(0);
        return 0.0;
    }
    let inverse = best_positive_inverse(n_max, max, x, weights);
    let (mut sum_xl, mut sum_ll) = (0.0f32, 0.0f32);
    for ((&x, &w), level) in x.iter().zip(weights).zip(levels.iter_mut()) {
        let l = nearest(inverse * x).min(n_max);
        *level = l as u8;
        sum_xl += w * x * l as f32;
        sum_ll += w * l as f32 * l as f32;
    }
    for _ in 0..5 {
        let mut changed = false;
        for ((&x, &w), level) in x.iter().zip(weights).zip(levels.iter_mut()) {
            let l = f32::from(*level);
            let (rest_xl, rest_ll) = (sum_xl - w * x * l, sum_ll - w * l * l);
            if !(rest_xl > 0.0 && rest_ll > 0.0) {
                continue;
            }
            let moved = nearest(x * rest_ll / rest_xl).min(n_max);
            let m = moved as f32;
            let (new_xl, new_ll) = (rest_xl + w * x * m, rest_ll + w * m * m);
            if moved != i32::from(*level) && new_xl * new_xl * sum_ll > sum_xl * sum_xl * new_ll {
                *level = moved as u8;
                (sum_xl, sum_ll) = (new_xl, new_ll);
                changed = true;
            }
        }
        if !changed {
            break;
        }
    }
    if sum_ll > 0.0 { sum_xl / sum_ll } else { 0.0 }
}

/// The inverse scale of nine with the least weighted squared error.
fn best_positive_inverse(n_max: i32, max: f32, x: &[f32], weights: &[f32]) -> f32 {
    let error = |scale: f32, level: &dyn Fn(f32) -> f32| {
        x.iter().zip(weights).fold(0.0f32, |error, (&x, &w)| {
            let difference = x - scale * level(x);
            error + w * difference * difference
        })
    };
    let mut best_inverse = n_max as f32 / max;
    let first = best_inverse;
    // The first try stores its levels in bytes, the later ones do not.
    let mut best = error(1.0 / first, &|x| f32::from(nearest(first * x) as u8));
    for step in (-4..=4).filter(|&step| step != 0) {
        let inverse = (0.1 * step as f32 + n_max as f32) / max;
        let loss = error(1.0 / inverse, &|x| nearest(inverse * x).min(n_max) as f32);
        if loss < best {
            (best, best_inverse) = (loss, inverse);
        }
    }
    best_inverse
}

/// Weights of a row's elements under an importance matrix: a large element counts more, but a small one in a
/// row of large ones does not vanish.
fn row_weights(x: &[f32], importance: &[f32]) -> Vec<f32> {
    let mean_square = x.iter().fold(0.0f32, |sum, x| sum + x * x) / x.len() as f32;
    x.iter()
        .zip(importance)
        .map(|(x, importance)| importance * (mean_square + x * x).sqrt())
        .collect()
}

/// Blocks that are searched side by side.
const BLOCKS: usize = 8;

/// [`fit_symmetric`] over a row of 32-element blocks; `store` takes block index, scale and levels.
pub(crate) fn fit_row_symmetric(
    n: i32,
    x: &[f32],
    importance: &[f32],
    mut store: impl FnMut(usize, f32, [u8; 32]),
) {
    let weights = row_weights(x, importance);
    for (i, (x, weights)) in x
        .chunks(32 * BLOCKS)
        .zip(weights.chunks(32 * BLOCKS))
        .enumerate()
    {
        let mut levels = [Ints::ZERO; 32];
        let scale = fit_symmetric::<BLOCKS>(
            n,
            &transpose::<BLOCKS, 32>(x),
            &transpose::<BLOCKS, 32>(weights),
            &mut levels,
        );
        for block in 0..x.len() / 32 {
            store(
                i * BLOCKS + block,
                scale.0[block],
                levels.map(|level| level.0[block] as u8),
            );
        }
    }
}

/// [`fit_affine`] over a row of 32-element blocks; `store` takes block index, scale, minimum and levels.
pub(crate) fn fit_row_affine(
    n_max: i32,
    x: &[f32],
    importance: &[f32],
    mut store: impl FnMut(usize, f32, f32, [u8; 32]),
) {
    let weights = row_weights(x, importance);
    let search = AffineSearch::weighted(n_max);
    for (i, (x, weights)) in x
        .chunks(32 * BLOCKS)
        .zip(weights.chunks(32 * BLOCKS))
        .enumerate()
    {
        let mut levels = [Ints::ZERO; 32];
        let (scale, min) = fit_affine::<BLOCKS>(
            &search,
            &transpose::<BLOCKS, 32>(x),
            &transpose::<BLOCKS, 32>(weights),
            &mut levels,
        );
        for block in 0..x.len() / 32 {
            store(
                i * BLOCKS + block,
                scale.0[block],
                min.0[block],
                levels.map(|level| level.0[block] as u8),
            );
        }
    }
}
