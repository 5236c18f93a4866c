//! The neighbour on a grid that is nearest to a group of elements.

use crate::grid::Grid;
use crate::lanes::{LANES, Lanes};

/// What a level of one coordinate adds to the squared distance, as a table by level: eight neighbours look theirs up
/// side by side and add up in the order of the coordinates.
///
/// `steps[level % 8]` is the value of a level at scale 1. Three levels fill the table twice, as the third bit of a
/// look-up is the lowest of the next coordinate.
#[inline(always)]
pub(crate) fn distance_tables<L: Lanes, const N: usize>(
    steps: L,
    scale: f32,
    x: &[f32],
    weights: &[f32],
) -> [L; N] {
    let values = L::splat(scale) * steps;
    let mut tables = [values; N];
    for ((table, &x), &weight) in tables.iter_mut().zip(x).zip(weights) {
        let difference = values - L::splat(x);
        *table = L::splat(weight) * difference * difference;
    }
    tables
}

/// The neighbour at the least distance, the first of equals. Should no distance be a finite number, the first of all.
#[inline(always)]
pub(crate) fn nearest_point<L: Lanes, const N: usize>(
    neighbours: &[[u16; LANES]],
    tables: &[L; N],
) -> u16 {
    let mut best = L::splat(f32::MAX);
    let mut best_row = L::splat_int(0);
    for (row, codes) in neighbours.iter().enumerate() {
        let codes = L::load_short(codes);
        let mut distance = tables[0].look_up(codes);
        for (i, table) in tables.iter().enumerate().skip(1) {
            let level = L::shift_right(codes, (Grid::<N>::BITS * i) as u32);
            distance = distance + table.look_up(level);
        }
        let better = best.greater(distance);
        best = L::choose(better, distance, best);
        best_row = L::choose_ints(better, L::splat_int(row as i32), best_row);
    }
    let rows = L::store_ints(best_row);
    let lanes = L::bits(best.equal(L::splat(best.smallest())));
    let mut lane = lanes.trailing_zeros() as usize % LANES;
    // Several at the same distance: the one in the earliest row.
    let mut others = lanes & lanes.wrapping_sub(1);
    while others != 0 {
        let other = others.trailing_zeros() as usize % LANES;
        if rows[other] < rows[lane] {
            lane = other;
        }
        others &= others - 1;
    }
    neighbours
        .get(rows[lane] as usize)
        .map_or(0, |codes| codes[lane])
}
