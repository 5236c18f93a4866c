//! The searches for the scale (and minimum) that lose least, shared by all block types.
//!
//! Each search takes eight sub-blocks side by side ([`Lanes`]) and gives per lane exactly what a loop over
//! that sub-block alone gives.

use crate::lanes::{LANES, Lanes, transpose};
use crate::levels::nearest;

/// Below this magnitude a sub-block counts as zero.
pub(crate) const ZERO_MAGNITUDE: f32 = 1e-15;

/// Scale and levels `0..2 * n` (`n` stands for zero) that minimise the weighted squared error: tries 19
/// scales about the one that maps the element of largest magnitude to level 0. Levels of a zero sub-block are 0.
#[inline(always)]
pub(crate) fn fit_symmetric<L: Lanes>(n: i32, x: &[L], weights: &[L], levels: &mut [L::Ints]) -> L {
    let zero = L::splat(0.0);
    let (largest, magnitude) = largest_signed(x);
    let inverse = L::splat(-n as f32) / largest;
    let (sum_xl, sum_ll) = symmetric_sums(n, x, weights, inverse);
    for (&x, level) in x.iter().zip(levels.iter_mut()) {
        *level = L::add_int(symmetric_level(n, x, inverse), n);
    }
    let mut scale = L::choose(sum_ll.equal(zero), zero, sum_xl / sum_ll);
    let mut best = scale * sum_xl;
    for step in (-9..=9).filter(|&step| step != 0) {
        let inverse = L::splat(-(n as f32 + 0.1 * step as f32)) / largest;
        let (sum_xl, sum_ll) = symmetric_sums(n, x, weights, inverse);
        let better = sum_ll.greater(zero) & (sum_xl * sum_xl).greater(best * sum_ll);
        if L::any(better) {
            for (&x, level) in x.iter().zip(levels.iter_mut()) {
                let l = L::add_int(symmetric_level(n, x, inverse), n);
                *level = L::choose_ints(better, l, *level);
            }
            scale = L::choose(better, sum_xl / sum_ll, scale);
            best = L::choose(better, scale * sum_xl, best);
        }
    }
    zero_where_tiny(magnitude, levels, scale)
}

#[inline(always)]
fn symmetric_level<L: Lanes>(n: i32, x: L, inverse: L) -> L::Ints {
    L::clamp_ints((inverse * x).nearest(), -n, n - 1)
}

/// Weighted sums of x * l and l * l for the levels that one inverse scale gives.
#[inline(always)]
fn symmetric_sums<L: Lanes>(n: i32, x: &[L], weights: &[L], inverse: L) -> (L, L) {
    let (mut sum_xl, mut sum_ll) = (L::splat(0.0), L::splat(0.0));
    for (&x, &w) in x.iter().zip(weights) {
        let l = L::from_ints(symmetric_level(n, x, inverse));
        sum_xl = sum_xl + w * x * l;
        sum_ll = sum_ll + w * l * l;
    }
    (sum_xl, sum_ll)
}

/// Per lane the element of largest magnitude, with and without its sign.
#[inline(always)]
pub(crate) fn largest_signed<L: Lanes>(x: &[L]) -> (L, L) {
    let (mut value, mut magnitude) = (L::splat(0.0), L::splat(0.0));
    for &x in x {
        let larger = x.abs().greater(magnitude);
        value = L::choose(larger, x, value);
        magnitude = L::choose(larger, x.abs(), magnitude);
    }
    (value, magnitude)
}

/// Level 0 and scale 0 for the lanes that count as zero.
#[inline(always)]
fn zero_where_tiny<L: Lanes>(magnitude: L, levels: &mut [L::Ints], scale: L) -> L {
    let tiny = L::splat(ZERO_MAGNITUDE).greater(magnitude);
    if L::any(tiny) {
        let zero = L::splat_int(0);
        levels
            .iter_mut()
            .for_each(|level| *level = L::choose_ints(tiny, zero, *level));
    }
    L::choose(tiny, L::splat(0.0), scale)
}

/// Scale and levels `0..2 * n` by coordinate descent on the squared error weighted with `x * x`: starts from
/// the scale that maps the largest magnitude to level 0 and moves one level at a time, five rounds at most.
#[inline(always)]
pub(crate) fn fit_by_descent<L: Lanes>(n: i32, x: &[L], levels: &mut [L::Ints]) -> L {
    let zero = L::splat(0.0);
    let (largest, magnitude) = largest_signed(x);
    let inverse = L::splat(-n as f32) / largest;
    let (mut sum_xl, mut sum_ll) = (zero, zero);
    for (&x, level) in x.iter().zip(levels.iter_mut()) {
        *level = symmetric_level(n, x, inverse);
        let (w, l) = (x * x, L::from_ints(*level));
        sum_xl = sum_xl + w * x * l;
        sum_ll = sum_ll + w * l * l;
    }
    for _ in 0..5 {
        let mut changed = false;
        for (&x, level) in x.iter().zip(levels.iter_mut()) {
            let (w, l) = (x * x, L::from_ints(*level));
            let rest_xl = sum_xl - w * x * l;
            let rest_ll = sum_ll - w * l * l;
            let moved = L::clamp_ints((x * rest_ll / rest_xl).nearest(), -n, n - 1);
            let m = L::from_ints(moved);
            let (new_xl, new_ll) = (rest_xl + w * x * m, rest_ll + w * m * m);
            let better = rest_xl.greater(zero)
                & L::differ_ints(moved, *level)
                & new_ll.greater(zero)
                & (new_xl * new_xl * sum_ll).greater(sum_xl * sum_xl * new_ll);
            changed |= L::any(better);
            *level = L::choose_ints(better, moved, *level);
            sum_xl = L::choose(better, new_xl, sum_xl);
            sum_ll = L::choose(better, new_ll, sum_ll);
        }
        if !changed {
            break;
        }
    }
    levels
        .iter_mut()
        .for_each(|level| *level = L::add_int(*level, n));
    let scale = L::choose(sum_ll.greater(zero), sum_xl / sum_ll, zero);
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
/// linear regression. At most 32 elements.
#[inline(always)]
pub(crate) fn fit_affine<L: Lanes>(
    search: &AffineSearch,
    x: &[L],
    weights: &[L],
    levels: &mut [L::Ints],
) -> (L, L) {
    let n_max = search.n_max;
    let sums = AffineSums::of(x, weights);
    let (mut min, max) = (sums.min, sums.max);
    let inverse = L::splat(n_max as f32) / (max - min);
    let mut scale = L::splat(1.0) / inverse;
    for (&x, level) in x.iter().zip(levels.iter_mut()) {
        *level = L::clamp_ints((inverse * (x - min)).nearest(), 0, n_max);
    }
    let mut best = affine_error::<L>(search, x, weights, levels, scale, min);
    let mut tried = [L::splat_int(0); 32];
    let tried = &mut tried[..x.len()];
    for i in 0..=search.n_steps {
        let inverse = L::splat(search.first + search.step * i as f32 + n_max as f32) / (max - min);
        let Some((valid, new_scale, new_min)) =
            sums.regress(search, x, weights, (inverse, min), tried)
        else {
            continue;
        };
        let error = affine_error::<L>(search, x, weights, tried, new_scale, new_min);
        let better = valid & best.greater(error);
        if L::any(better) {
            for (level, &tried) in levels.iter_mut().zip(tried.iter()) {
                *level = L::choose_ints(better, tried, *level);
            }
            best = L::choose(better, error, best);
            scale = L::choose(better, new_scale, scale);
            min = L::choose(better, new_min, min);
        }
    }
    // Lanes without a range to spread levels over.
    let constant = sums.max.equal(sums.min);
    let zero = L::splat_int(0);
    levels
        .iter_mut()
        .for_each(|level| *level = L::choose_ints(constant, zero, *level));
    (
        L::choose(constant, L::splat(0.0), scale),
        L::choose(constant, sums.min, min),
    )
}

/// What [`fit_affine`] needs to know of a sub-block before it starts.
struct AffineSums<L> {
    /// Smallest element, at most 0.
    min: L,
    max: L,
    sum_w: L,
    sum_x: L,
}

impl<L: Lanes> AffineSums<L> {
    #[inline(always)]
    fn of(x: &[L], weights: &[L]) -> Self {
        let mut sums = AffineSums {
            min: x[0],
            max: x[0],
            sum_w: weights[0],
            sum_x: weights[0] * x[0],
        };
        for (&x, &w) in x.iter().zip(weights).skip(1) {
            sums.min = L::choose(sums.min.greater(x), x, sums.min);
            sums.max = L::choose(x.greater(sums.max), x, sums.max);
            sums.sum_w = sums.sum_w + w;
            sums.sum_x = sums.sum_x + w * x;
        }
        let zero = L::splat(0.0);
        sums.min = L::choose(sums.min.greater(zero), zero, sums.min);
        sums
    }

    /// Rounds with one inverse scale and minimum, then fits both anew to the levels by weighted least squares.
    /// The mask tells where the fit exists; `None` if nowhere.
    #[inline(always)]
    fn regress(
        &self,
        search: &AffineSearch,
        x: &[L],
        weights: &[L],
        (inverse, min): (L, L),
        tried: &mut [L::Ints],
    ) -> Option<(L::Mask, L, L)> {
        let zero = L::splat(0.0);
        let (mut sum_l, mut sum_ll, mut sum_xl) = (zero, zero, zero);
        for ((&x, &w), tried) in x.iter().zip(weights).zip(tried) {
            *tried = affine_level::<L>(search, inverse * (x - min));
            let l = L::from_ints(*tried);
            let wl = w * l;
            sum_l = sum_l + wl;
            sum_ll = sum_ll + wl * l;
            sum_xl = sum_xl + wl * x;
        }
        let determinant = self.sum_w * sum_ll - sum_l * sum_l;
        let valid = determinant.greater(zero);
        if !L::any(valid) {
            return None;
        }
        let scale = (self.sum_w * sum_xl - self.sum_x * sum_l) / determinant;
        let min = (sum_ll * self.sum_x - sum_l * sum_xl) / determinant;
        let above = min.greater(zero);
        Some((
            valid,
            L::choose(above, sum_xl / sum_ll, scale),
            L::choose(above, zero, min),
        ))
    }
}

#[inline(always)]
fn affine_level<L: Lanes>(search: &AffineSearch, v: L) -> L::Ints {
    if !search.saturate {
        return L::clamp_ints(v.nearest(), 0, search.n_max);
    }
    let end = L::splat(search.n_max as f32);
    let level = L::choose(end.greater(v), v, end).nearest();
    L::choose_ints(v.greater(L::splat(0.0)), level, L::splat_int(0))
}

#[inline(always)]
fn affine_error<L: Lanes>(
    search: &AffineSearch,
    x: &[L],
    weights: &[L],
    levels: &[L::Ints],
    scale: L,
    min: L,
) -> L {
    let mut error = L::splat(0.0);
    for ((&x, &w), &level) in x.iter().zip(weights).zip(levels) {
        let difference = scale * L::from_ints(level) + min - x;
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
#[inline(always)]
fn row_weights(x: &[f32], importance: &[f32]) -> Vec<f32> {
    let mean_square = x.iter().fold(0.0f32, |sum, x| sum + x * x) / x.len() as f32;
    x.iter()
        .zip(importance)
        .map(|(x, importance)| importance * (mean_square + x * x).sqrt())
        .collect()
}

/// [`fit_symmetric`] over a row of 32-element blocks; `store` takes block index, scale and levels.
#[inline(always)]
pub(crate) fn fit_row_symmetric<L: Lanes>(
    n: i32,
    x: &[f32],
    importance: &[f32],
    mut store: impl FnMut(usize, f32, [u8; 32]),
) {
    let weights = row_weights(x, importance);
    for (i, (x, weights)) in x
        .chunks(32 * LANES)
        .zip(weights.chunks(32 * LANES))
        .enumerate()
    {
        let mut levels = [L::splat_int(0); 32];
        let (x_lanes, weights) = (transpose::<L, 32>(x), transpose::<L, 32>(weights));
        let scale = fit_symmetric(n, &x_lanes, &weights, &mut levels).store();
        let levels = store_levels::<L>(&levels);
        for block in 0..x.len() / 32 {
            store(
                i * LANES + block,
                scale[block],
                levels.map(|level| level[block] as u8),
            );
        }
    }
}

/// [`fit_affine`] over a row of 32-element blocks; `store` takes block index, scale, minimum and levels.
#[inline(always)]
pub(crate) fn fit_row_affine<L: Lanes>(
    n_max: i32,
    x: &[f32],
    importance: &[f32],
    mut store: impl FnMut(usize, f32, f32, [u8; 32]),
) {
    let weights = row_weights(x, importance);
    let search = AffineSearch::weighted(n_max);
    for (i, (x, weights)) in x
        .chunks(32 * LANES)
        .zip(weights.chunks(32 * LANES))
        .enumerate()
    {
        let mut levels = [L::splat_int(0); 32];
        let (x_lanes, weights) = (transpose::<L, 32>(x), transpose::<L, 32>(weights));
        let (scale, min) = fit_affine(&search, &x_lanes, &weights, &mut levels);
        let (scale, min, levels) = (scale.store(), min.store(), store_levels::<L>(&levels));
        for block in 0..x.len() / 32 {
            store(
                i * LANES + block,
                scale[block],
                min[block],
                levels.map(|level| level[block] as u8),
            );
        }
    }
}

/// The levels of eight sub-blocks as arrays, by element.
#[inline(always)]
fn store_levels<L: Lanes>(levels: &[L::Ints; 32]) -> [[i32; LANES]; 32] {
    let mut stored = [[0; LANES]; 32];
    for (stored, &levels) in stored.iter_mut().zip(levels) {
        *stored = L::store_ints(levels);
    }
    stored
}
