//! Grids: the fixed sets of points that the IQ1, IQ2 and IQ3 types round groups of elements to.
//!
//! A point is packed in a *code*: the levels of 8 coordinates in two bits each, or of 4 in three. A file holds a point's
//! index; all codes that are no points have neighbours, the points that an encoder tries in their place.

mod iq1;
mod iq2_s;
mod iq2_xs;
mod iq2_xxs;
mod iq3_s;
mod iq3_xxs;
pub mod values;

use std::sync::OnceLock;

use crate::lanes::LANES;

/// A set of points of `N` coordinates each: 8 with levels 0, 1, 2 or 4 with levels 0 to 7.
pub(crate) struct Grid<const N: usize> {
    /// The code of each index, ascending.
    points: &'static [u16],
    /// The index of each code that is a point; [`NO_POINT`] elsewhere.
    index: Vec<u16>,
    /// Code `c` has the rows `starts[c]..starts[c + 1]`: none if it is a point.
    starts: Vec<u32>,
    /// Neighbours by distance, those of one distance by index. The last row of a code is filled up with its last neighbour.
    rows: Vec<[u16; LANES]>,
}

const NO_POINT: u16 = u16::MAX;

macro_rules! grids {
    ($($(#[$doc:meta])* $name:ident: $n:literal, $points:path, $distances:literal;)*) => {$(
        $(#[$doc])*
        pub(crate) fn $name() -> &'static Grid<$n> {
            static GRID: OnceLock<Grid<$n>> = OnceLock::new();
            GRID.get_or_init(|| Grid::new(&$points, $distances))
        }
    )*};
}

// Last how many distances make a neighbourhood: all points at the smallest distance, at the next, …
grids! {
    /// 2048 ternary points: IQ1_S and IQ1_M.
    iq1: 8, iq1::POINTS, 3;
    /// 1024 points.
    iq2_s: 8, iq2_s::POINTS, 1;
    /// 512 points.
    iq2_xs: 8, iq2_xs::POINTS, 2;
    /// 256 points.
    iq2_xxs: 8, iq2_xxs::POINTS, 2;
    /// 512 points of four coordinates.
    iq3_s: 4, iq3_s::POINTS, 3;
    /// 256 points of four coordinates.
    iq3_xxs: 4, iq3_xxs::POINTS, 2;
}

impl<const N: usize> Grid<N> {
    /// Bits of a code that hold one level.
    pub const BITS: usize = if N == 8 { 2 } else { 3 };
    /// Levels of a coordinate.
    pub const N_LEVELS: usize = if N == 8 { 3 } else { 8 };

    fn new(points: &'static [u16], n_distances: usize) -> Self {
        let n_codes = 1 << (N * Self::BITS);
        let mut grid = Grid {
            points,
            index: vec![NO_POINT; n_codes],
            starts: Vec::with_capacity(n_codes + 1),
            rows: Vec::new(),
        };
        for (i, &point) in points.iter().enumerate() {
            grid.index[usize::from(point)] = i as u16;
        }
        let distances = HalfDistances::new(points, N, Self::BITS);
        let mut found = Vec::new();
        for code in 0..n_codes {
            grid.starts.push(grid.rows.len() as u32);
            let is_code = levels::<N>(code as u16)
                .iter()
                .all(|&level| usize::from(level) < Self::N_LEVELS);
            if is_code && grid.index[code] == NO_POINT {
                distances.nearest(code, n_distances, &mut found);
                grid.push_rows(&found);
            }
        }
        grid.starts.push(grid.rows.len() as u32);
        grid
    }

    fn push_rows(&mut self, indices: &[u16]) {
        for part in indices.chunks(LANES) {
            let point = |i: usize| self.points[usize::from(part[i.min(part.len() - 1)])];
            self.rows.push(std::array::from_fn(point));
        }
    }

    /// The levels of the point with this index; indices beyond the last wrap around.
    #[inline(always)]
    pub fn point(&self, index: usize) -> [u8; N] {
        levels(self.points[index % self.points.len()])
    }

    /// The index of a point, or `None` for a code that is no point.
    #[inline(always)]
    pub fn index(&self, code: u16) -> Option<u16> {
        let index = *self.index.get(usize::from(code))?;
        (index != NO_POINT).then_some(index)
    }

    /// The neighbours of a code, as codes in the order of their rank; none for a point.
    #[inline(always)]
    pub fn neighbours(&self, code: u16) -> &[[u16; LANES]] {
        let code = usize::from(code);
        match self.starts.get(code..code + 2) {
            Some(&[start, end]) => &self.rows[start as usize..end as usize],
            _ => &[],
        }
    }
}

/// The levels of a code.
#[inline(always)]
pub(crate) fn levels<const N: usize>(code: u16) -> [u8; N] {
    let bits = Grid::<N>::BITS;
    std::array::from_fn(|i| (code >> (bits * i)) as u8 & ((1 << bits) - 1))
}

/// The code of some levels.
#[inline(always)]
pub(crate) fn code_of<const N: usize>(levels: [u8; N]) -> u16 {
    let bits = Grid::<N>::BITS;
    levels
        .iter()
        .enumerate()
        .fold(0, |code, (i, &level)| code | u16::from(level) << (bits * i))
}

/// Squared distances from each half of a code to that half of each point, so that a distance is one sum.
struct HalfDistances {
    n_points: usize,
    half_bits: usize,
    /// `[half code][point]`
    low: Vec<u8>,
    /// `[half code][point]`
    high: Vec<u8>,
}

impl HalfDistances {
    fn new(points: &[u16], n: usize, bits: usize) -> Self {
        let half_bits = n / 2 * bits;
        let n_codes = 1 << half_bits;
        let distance = |a: usize, b: usize| {
            let level = |code: usize, i: usize| (code >> (bits * i) & ((1 << bits) - 1)) as u8;
            (0..n / 2)
                .map(|i| level(a, i).abs_diff(level(b, i)).pow(2))
                .sum::<u8>() // 2 * 49 or 4 * 9 at most
        };
        let table = |shift: usize| {
            let half_of = |point: u16| usize::from(point) >> shift & (n_codes - 1);
            let of_code = |code| points.iter().map(move |&p| distance(code, half_of(p)));
            (0..n_codes).flat_map(of_code).collect()
        };
        HalfDistances {
            n_points: points.len(),
            half_bits,
            low: table(0),
            high: table(half_bits),
        }
    }

    /// The indices of the points at the `n_distances` smallest distances, nearest first.
    fn nearest(&self, code: usize, n_distances: usize, found: &mut Vec<u16>) {
        let row = |half: usize| half * self.n_points..(half + 1) * self.n_points;
        let low = &self.low[row(code & ((1 << self.half_bits) - 1))];
        let high = &self.high[row(code >> self.half_bits)];
        let distances: Vec<u8> = low.iter().zip(high).map(|(a, b)| a + b).collect();
        found.clear();
        let mut floor = 0;
        for _ in 0..n_distances {
            let at_least = |min: u8, &d: &u8| min.min(if d < floor { u8::MAX } else { d });
            let distance = distances.iter().fold(u8::MAX, at_least);
            let at_distance = (0u16..).zip(&distances).filter(|&(_, &d)| d == distance);
            found.extend(at_distance.map(|(i, _)| i));
            floor = distance.saturating_add(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the encoders rely on, and the neighbourhoods as a full sort by distance and index gives them.
    fn check<const N: usize>(grid: &Grid<N>, n_distances: usize) {
        assert!(grid.points.is_sorted_by(|a, b| a < b));
        assert_eq!(grid.index(0), Some(0));
        for (i, &point) in grid.points.iter().enumerate() {
            assert_eq!(grid.index(point), Some(i as u16));
            assert_eq!(code_of(grid.point(i)), point);
            assert!(grid.neighbours(point).is_empty());
        }
        let mut n_sorted = 0;
        // A stride that meets all levels in all coordinates.
        for code in (0..grid.index.len()).step_by(37).map(|code| code as u16) {
            let here = levels::<N>(code);
            let is_code = here.iter().all(|&l| usize::from(l) < Grid::<N>::N_LEVELS);
            assert_eq!(
                is_code && grid.index(code).is_none(),
                !grid.neighbours(code).is_empty()
            );
            if grid.neighbours(code).is_empty() {
                continue;
            }
            let distance = |point: &u16| -> u32 {
                let squares = here
                    .iter()
                    .zip(levels::<N>(*point))
                    .map(|(&a, b)| u32::from(a.abs_diff(b)).pow(2));
                squares.sum()
            };
            let mut sorted: Vec<(u32, u16)> =
                grid.points.iter().map(|p| (distance(p), *p)).collect();
            sorted.sort_unstable();
            let mut steps: Vec<u32> = sorted.iter().map(|entry| entry.0).collect();
            steps.dedup();
            let last = steps[n_distances - 1];
            let expected: Vec<u16> = sorted
                .iter()
                .filter(|entry| entry.0 <= last)
                .map(|entry| entry.1)
                .collect();
            let found = grid.neighbours(code).concat();
            assert_eq!(found[..expected.len()], expected);
            assert!(found.len() < expected.len() + LANES);
            assert!(
                found[expected.len()..]
                    .iter()
                    .all(|p| *p == expected[expected.len() - 1])
            );
            n_sorted += 1;
        }
        assert!(n_sorted > 50);
    }

    #[test]
    fn neighbours_are_those_of_a_full_sort() {
        check(iq1(), 3);
        check(iq2_s(), 1);
        check(iq2_xs(), 2);
        check(iq2_xxs(), 2);
        check(iq3_s(), 3);
        check(iq3_xxs(), 2);
    }

    #[test]
    fn bytes_that_are_no_codes_have_no_neighbours() {
        assert!(iq2_s().neighbours(u16::MAX).is_empty());
        assert!(iq3_s().neighbours(u16::MAX).is_empty());
        assert_eq!(iq3_s().index(u16::MAX), None);
    }
}
