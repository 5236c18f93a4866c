//! What IQ4_NL and IQ4_XS share: sixteen levels, close together about zero and far apart at the ends.

use crate::codec::dot_i32;
use crate::lanes::{Lanes, LevelTable};
use crate::levels::unpack_nibbles;
use crate::search::{ZERO_MAGNITUDE, largest_signed};

/// What the codes of IQ4_NL and IQ4_XS stand for.
pub const NONLINEAR_LEVELS: [i8; 16] = [
    -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113,
];

/// The levels as floats.
pub(crate) static LEVELS: LevelTable = level_table();

const fn level_table() -> LevelTable {
    let mut table = LevelTable {
        values: [0.0; 16],
        middles: [0.0; 15],
    };
    let mut i = 0;
    while i < 16 {
        table.values[i] = NONLINEAR_LEVELS[i] as f32;
        if i < 15 {
            table.middles[i] = (NONLINEAR_LEVELS[i] as f32 + NONLINEAR_LEVELS[i + 1] as f32) / 2.0;
        }
        i += 1;
    }
    table
}

/// Scales on both sides of the one that maps the element of largest magnitude to level 0.
const STEPS: i32 = 7;

/// The scale of least weighted squared error among sixteen tries, 0 for lanes that count as zero. The first try takes the
/// element of largest magnitude to the far side of the last level, the others to within 7 of the first level.
#[inline(always)]
pub(crate) fn fit_levels<L: Lanes>(x: &[L; 32], weights: &[L; 32]) -> L {
    let zero = L::splat(0.0);
    let (largest, magnitude) = largest_signed(x);
    let first = f32::from(NONLINEAR_LEVELS[0]);
    let inverse = L::splat(1.0) / (-largest / L::splat(first));
    let (sum_xl, sum_ll) = level_sums(x, weights, inverse);
    let mut scale = L::choose(sum_ll.greater(zero), sum_xl / sum_ll, zero);
    let mut best = scale * sum_xl;
    for step in -STEPS..=STEPS {
        let inverse = L::splat(step as f32 + first) / largest;
        let (sum_xl, sum_ll) = level_sums(x, weights, inverse);
        let better = sum_ll.greater(zero) & (sum_xl * sum_xl).greater(best * sum_ll);
        scale = L::choose(better, sum_xl / sum_ll, scale);
        best = L::choose(better, scale * sum_xl, best);
    }
    L::choose(L::splat(ZERO_MAGNITUDE).greater(magnitude), zero, scale)
}

/// Weighted sums of x * l and l * l for the levels that one inverse scale gives.
#[inline(always)]
fn level_sums<L: Lanes>(x: &[L; 32], weights: &[L; 32], inverse: L) -> (L, L) {
    let (mut sum_xl, mut sum_ll) = (L::splat(0.0), L::splat(0.0));
    for (&x, &w) in x.iter().zip(weights) {
        let (_, l) = (inverse * x).nearest_level(&LEVELS);
        sum_xl = sum_xl + w * l * x;
        sum_ll = sum_ll + w * l * l;
    }
    (sum_xl, sum_ll)
}

/// Indices of the levels that scale `d` gives; a lane of scale 0 takes the level next to zero.
#[inline(always)]
pub(crate) fn level_indices<L: Lanes>(x: &[L; 32], d: L) -> [L::Ints; 32] {
    let zero = L::splat(0.0);
    let inverse = L::choose(d.equal(zero), zero, L::splat(1.0) / d);
    x.map(|x| (inverse * x).nearest_level(&LEVELS).0)
}

/// The levels behind 32 packed indices.
#[inline(always)]
pub(crate) fn unpack_levels(qs: &[u8; 16]) -> [i8; 32] {
    unpack_nibbles(qs).map(|q| NONLINEAR_LEVELS[usize::from(q)])
}

/// Sum of products of 32 levels and bytes.
pub(crate) fn dot_levels(qs: &[u8; 16], with: &[i8]) -> i32 {
    dot_i32(unpack_levels(qs).into_iter().map(i32::from), with)
}
