//! The search of `search.rs` for values that are not negative, for eight sub-blocks side by side.

use crate::lanes::Lanes;
use crate::search::ZERO_MAGNITUDE;

/// The scale that loses least with levels `0..=n_max`, 32 elements at most: nine scales, then one level at a time, five
/// rounds at most. 0 for a sub-block without a positive element. Levels live in bytes, so that a negative one wraps around.
#[inline(always)]
pub(crate) fn fit_positive<L: Lanes>(n_max: i32, x: &[L], weights: &[L]) -> L {
    let zero = L::splat(0.0);
    let mut max = zero;
    for &x in x {
        max = L::choose(max.greater(x), max, x);
    }
    let inverse = best_inverse(n_max, max, x, weights);
    let mut levels = [L::splat_int(0); 32];
    let (mut sum_xl, mut sum_ll) = (zero, zero);
    for ((&x, &w), level) in x.iter().zip(weights).zip(&mut levels) {
        let rounded = at_most::<L>((inverse * x).nearest(), n_max);
        *level = L::and_int(rounded, 255);
        let l = L::from_ints(rounded);
        sum_xl = sum_xl + w * x * l;
        sum_ll = sum_ll + w * l * l;
    }
    for _ in 0..5 {
        let mut changed = false;
        for ((&x, &w), level) in x.iter().zip(weights).zip(&mut levels) {
            let l = L::from_ints(*level);
            let (rest_xl, rest_ll) = (sum_xl - w * x * l, sum_ll - w * l * l);
            let moved = at_most::<L>((x * rest_ll / rest_xl).nearest(), n_max);
            let m = L::from_ints(moved);
            let (new_xl, new_ll) = (rest_xl + w * x * m, rest_ll + w * m * m);
            let better = rest_xl.greater(zero)
                & rest_ll.greater(zero)
                & L::differ_ints(moved, *level)
                & (new_xl * new_xl * sum_ll).greater(sum_xl * sum_xl * new_ll);
            changed |= L::any(better);
            *level = L::choose_ints(better, L::and_int(moved, 255), *level);
            sum_xl = L::choose(better, new_xl, sum_xl);
            sum_ll = L::choose(better, new_ll, sum_ll);
        }
        if !changed {
            break;
        }
    }
    let scale = L::choose(sum_ll.greater(zero), sum_xl / sum_ll, zero);
    L::choose(L::splat(ZERO_MAGNITUDE).greater(max), zero, scale)
}

#[inline(always)]
fn at_most<L: Lanes>(ints: L::Ints, n_max: i32) -> L::Ints {
    L::clamp_ints(ints, i32::MIN, n_max)
}

/// Of nine inverse scales the one with the least weighted squared error.
#[inline(always)]
fn best_inverse<L: Lanes>(n_max: i32, max: L, x: &[L], weights: &[L]) -> L {
    let mut best_inverse = L::splat(n_max as f32) / max;
    let mut best = error(n_max, best_inverse, x, weights, true);
    for step in (-4..=4).filter(|&step| step != 0) {
        let inverse = L::splat(0.1 * step as f32 + n_max as f32) / max;
        let loss = error(n_max, inverse, x, weights, false);
        let better = best.greater(loss);
        best = L::choose(better, loss, best);
        best_inverse = L::choose(better, inverse, best_inverse);
    }
    best_inverse
}

/// The weighted squared error at an inverse scale. The first try stores its levels in bytes, the later ones do not.
#[inline(always)]
fn error<L: Lanes>(n_max: i32, inverse: L, x: &[L], weights: &[L], first: bool) -> L {
    let scale = L::splat(1.0) / inverse;
    let mut error = L::splat(0.0);
    for (&x, &w) in x.iter().zip(weights) {
        let level = (inverse * x).nearest();
        let level = if first {
            L::and_int(level, 255)
        } else {
            at_most::<L>(level, n_max)
        };
        let difference = x - scale * L::from_ints(level);
        error = error + w * difference * difference;
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lanes::{LANES, Plain, transpose};

    #[test]
    fn eight_sub_blocks_are_eight_searches() {
        let mut state = 7u32;
        let mut random = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 24) as f32
        };
        for round in 0..200 {
            // A few are below zero, as a turned sign leaves them.
            let x: [f32; 32 * LANES] = std::array::from_fn(|_| random() * 1.1 - 0.1);
            let weights: [f32; 32 * LANES] = std::array::from_fn(|_| random());
            let lanes =
                fit_positive::<Plain>(4, &transpose::<_, 32>(&x), &transpose::<_, 32>(&weights));
            for (s, scale) in lanes.store().into_iter().enumerate() {
                let part = 32 * s..32 * (s + 1);
                let alone =
                    crate::search::fit_positive(4, &x[part.clone()], &weights[part], &mut [0; 32]);
                assert_eq!(
                    scale.to_bits(),
                    alone.to_bits(),
                    "round {round}, sub-block {s}"
                );
            }
        }
    }
}
