//! Eight independent numbers that take the same steps.
//!
//! The scale searches sum over the elements of a sub-block in a fixed order, so one sub-block cannot be
//! vectorized without changing its bits. Eight sub-blocks side by side can: each lane adds up its own
//! elements in order. The searches are written once over [`Lanes`]; [`Plain`] is an array of eight, and a
//! kernel brings its own vector type.

use std::array::from_fn;
use std::ops::{Add, BitAnd, Div, Mul, Neg, Sub};

use crate::levels::{nearest, truncate};

/// How many numbers there are.
pub const LANES: usize = 8;

/// Sixteen levels that are not evenly spaced.
pub struct LevelTable {
    /// In ascending order.
    pub values: [f32; 16],
    /// Halfway between neighbours: from `middles[i]` on, level `i + 1` is as near as level `i`, and is taken.
    pub middles: [f32; 15],
}

/// Eight floats with the operations of the searches. Every operation rounds like the scalar one, lane by lane.
pub trait Lanes:
    Copy
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
{
    /// Eight integers.
    type Ints: Copy;
    /// Eight truth values.
    type Mask: Copy + BitAnd<Output = Self::Mask>;

    /// Takes the numbers of an array.
    fn load(x: [f32; LANES]) -> Self;
    /// The numbers as an array.
    fn store(self) -> [f32; LANES];
    /// The same number in all lanes.
    fn splat(x: f32) -> Self;
    /// Magnitudes.
    fn abs(self) -> Self;
    /// Square roots.
    fn sqrt(self) -> Self;
    /// Where `self > other` (false for NaN).
    fn greater(self, other: Self) -> Self::Mask;
    /// Where `self == other` (false for NaN).
    fn equal(self, other: Self) -> Self::Mask;
    /// The nearest integers, ties to even, for magnitudes below 2^22. Beyond, bit for bit: the low 23 bits of
    /// `x + 12582912`, less 2^22.
    fn nearest(self) -> Self::Ints;
    /// Towards zero; what does not fit becomes `i32::MIN`.
    fn truncate(self) -> Self::Ints;
    /// Indices of the nearest levels of a table, of two the higher one, and these levels. NaN takes the last.
    fn nearest_level(self, table: &LevelTable) -> (Self::Ints, Self);

    /// The same integer in all lanes.
    fn splat_int(n: i32) -> Self::Ints;
    /// Takes the integers of an array.
    fn load_ints(ints: [i32; LANES]) -> Self::Ints;
    /// Takes short integers.
    fn load_short(ints: &[u16; LANES]) -> Self::Ints;
    /// The integers as an array.
    fn store_ints(ints: Self::Ints) -> [i32; LANES];
    /// The integers as floats.
    fn from_ints(ints: Self::Ints) -> Self;
    /// Wrapping sums with one integer.
    fn add_int(ints: Self::Ints, n: i32) -> Self::Ints;
    /// The bits that `n` has too.
    fn and_int(ints: Self::Ints, n: i32) -> Self::Ints;
    /// The bits of both.
    fn or_ints(a: Self::Ints, b: Self::Ints) -> Self::Ints;
    /// All bits `n` places up.
    fn shift_left(ints: Self::Ints, n: u32) -> Self::Ints;
    /// All bits `n` places down, zeros above.
    fn shift_right(ints: Self::Ints, n: u32) -> Self::Ints;
    /// The integers moved into `min..=max`.
    fn clamp_ints(ints: Self::Ints, min: i32, max: i32) -> Self::Ints;
    /// Where two integers differ.
    fn differ_ints(a: Self::Ints, b: Self::Ints) -> Self::Mask;

    /// Lane `i` is the number of the lane that the low three bits of integer `i` name.
    fn look_up(self, ints: Self::Ints) -> Self;
    /// The smallest number; unspecified if one is NaN.
    fn smallest(self) -> f32;

    /// Bit `i` is set where lane `i` is.
    fn bits(mask: Self::Mask) -> u32;
    /// Whether any lane is set.
    fn any(mask: Self::Mask) -> bool;
    /// `yes` where set, `no` elsewhere.
    fn choose(mask: Self::Mask, yes: Self, no: Self) -> Self;
    /// `yes` where set, `no` elsewhere.
    fn choose_ints(mask: Self::Mask, yes: Self::Ints, no: Self::Ints) -> Self::Ints;
}

/// Lane `s` of entry `e` is element `e` of sub-block `s`: `LEN` entries from eight sub-blocks. Sub-blocks
/// past the end of `x` are zero.
#[inline(always)]
pub(crate) fn transpose<L: Lanes, const LEN: usize>(x: &[f32]) -> [L; LEN] {
    let mut lanes = [L::splat(0.0); LEN];
    let whole = x.get(..LANES * LEN);
    for (e, lanes) in lanes.iter_mut().enumerate() {
        *lanes = L::load(match whole {
            Some(x) => from_fn(|s| x[s * LEN + e]),
            None => from_fn(|s| x.get(s * LEN + e).copied().unwrap_or(0.0)),
        });
    }
    lanes
}

/// Writes the levels of eight sub-blocks, of as many elements as there are entries, in the order of their elements.
#[inline(always)]
pub(crate) fn untranspose<L: Lanes>(levels: &[L::Ints], out: &mut [u8]) {
    let n = levels.len();
    for (e, &level) in levels.iter().enumerate() {
        for (s, level) in L::store_ints(level).into_iter().enumerate() {
            out[s * n + e] = level as u8;
        }
    }
}

/// The low bytes of what `level` makes of neighbouring elements, eight at a time.
#[inline(always)]
pub(crate) fn map_levels<L: Lanes, const N: usize>(
    x: &[f32; N],
    level: impl Fn(L) -> L::Ints,
) -> [u8; N] {
    let mut levels = [0; N];
    let eights = x.as_chunks().0.iter();
    for (x, levels) in eights.zip(levels.as_chunks_mut().0) {
        *levels = L::store_ints(level(L::load(*x))).map(|level| level as u8);
    }
    levels
}

/// `f` of each entry. The standard library's functions on arrays are not inlined where arrays are long, and outside of a
/// function that is compiled for its instruction set every operation becomes a call.
#[inline(always)]
pub(crate) fn map_lanes<L: Lanes, const N: usize>(x: &[L; N], f: impl Fn(L) -> L) -> [L; N] {
    let mut mapped = *x;
    for x in &mut mapped {
        *x = f(*x);
    }
    mapped
}

/// Per lane the sum over the entries.
#[inline(always)]
pub(crate) fn sum<L: Lanes>(x: &[L]) -> L {
    x.iter().fold(L::splat(0.0), |sum, &x| sum + x)
}

/// Eight floats in an array: works everywhere.
#[derive(Clone, Copy, Debug)]
pub struct Plain([f32; LANES]);

impl Lanes for Plain {
    type Ints = [i32; LANES];
    type Mask = PlainMask;

    #[inline(always)]
    fn load(x: [f32; LANES]) -> Self {
        Plain(x)
    }

    #[inline(always)]
    fn store(self) -> [f32; LANES] {
        self.0
    }

    #[inline(always)]
    fn splat(x: f32) -> Self {
        Plain([x; LANES])
    }

    #[inline(always)]
    fn abs(self) -> Self {
        Plain(self.0.map(f32::abs))
    }

    #[inline(always)]
    fn sqrt(self) -> Self {
        Plain(self.0.map(f32::sqrt))
    }

    #[inline(always)]
    fn greater(self, other: Self) -> PlainMask {
        PlainMask(from_fn(|i| mask(self.0[i] > other.0[i])))
    }

    #[inline(always)]
    fn equal(self, other: Self) -> PlainMask {
        PlainMask(from_fn(|i| mask(self.0[i] == other.0[i])))
    }

    #[inline(always)]
    fn nearest(self) -> [i32; LANES] {
        self.0.map(nearest)
    }

    #[inline(always)]
    fn truncate(self) -> [i32; LANES] {
        self.0.map(truncate)
    }

    #[inline(always)]
    fn nearest_level(self, table: &LevelTable) -> ([i32; LANES], Self) {
        let index = |x: f32| {
            let above = table.middles.iter().map(|&middle| i32::from(x < middle));
            15 - above.sum::<i32>()
        };
        let indices = self.0.map(index);
        (indices, Plain(indices.map(|i| table.values[i as usize])))
    }

    #[inline(always)]
    fn splat_int(n: i32) -> [i32; LANES] {
        [n; LANES]
    }

    #[inline(always)]
    fn load_ints(ints: [i32; LANES]) -> [i32; LANES] {
        ints
    }

    #[inline(always)]
    fn load_short(ints: &[u16; LANES]) -> [i32; LANES] {
        ints.map(i32::from)
    }

    #[inline(always)]
    fn store_ints(ints: [i32; LANES]) -> [i32; LANES] {
        ints
    }

    #[inline(always)]
    fn from_ints(ints: [i32; LANES]) -> Self {
        Plain(ints.map(|x| x as f32))
    }

    #[inline(always)]
    fn add_int(ints: [i32; LANES], n: i32) -> [i32; LANES] {
        ints.map(|x| x.wrapping_add(n))
    }

    #[inline(always)]
    fn and_int(ints: [i32; LANES], n: i32) -> [i32; LANES] {
        ints.map(|x| x & n)
    }

    #[inline(always)]
    fn or_ints(a: [i32; LANES], b: [i32; LANES]) -> [i32; LANES] {
        from_fn(|i| a[i] | b[i])
    }

    #[inline(always)]
    fn shift_left(ints: [i32; LANES], n: u32) -> [i32; LANES] {
        ints.map(|x| x << n)
    }

    #[inline(always)]
    fn shift_right(ints: [i32; LANES], n: u32) -> [i32; LANES] {
        ints.map(|x| (x as u32 >> n) as i32)
    }

    #[inline(always)]
    fn clamp_ints(ints: [i32; LANES], min: i32, max: i32) -> [i32; LANES] {
        ints.map(|x| x.min(max).max(min))
    }

    #[inline(always)]
    fn differ_ints(a: [i32; LANES], b: [i32; LANES]) -> PlainMask {
        PlainMask(from_fn(|i| mask(a[i] != b[i])))
    }

    #[inline(always)]
    fn look_up(self, ints: [i32; LANES]) -> Self {
        Plain(ints.map(|i| self.0[i as usize % LANES]))
    }

    #[inline(always)]
    fn smallest(self) -> f32 {
        let min = |a: f32, b: f32| if b < a { b } else { a };
        let [a, b, c, d, e, f, g, h] = self.0;
        min(min(min(a, b), min(c, d)), min(min(e, f), min(g, h)))
    }

    #[inline(always)]
    fn bits(mask: PlainMask) -> u32 {
        (0..LANES).fold(0, |bits, i| bits | (mask.0[i] & 1) << i)
    }

    #[inline(always)]
    fn any(mask: PlainMask) -> bool {
        mask.0.iter().fold(0, |any, lane| any | lane) != 0
    }

    #[inline(always)]
    fn choose(mask: PlainMask, yes: Self, no: Self) -> Self {
        Plain(from_fn(|i| {
            f32::from_bits(blend(mask.0[i], yes.0[i].to_bits(), no.0[i].to_bits()))
        }))
    }

    #[inline(always)]
    fn choose_ints(mask: PlainMask, yes: [i32; LANES], no: [i32; LANES]) -> [i32; LANES] {
        from_fn(|i| blend(mask.0[i], yes[i] as u32, no[i] as u32) as i32)
    }
}

/// Eight truth values: all bits set or none.
#[derive(Clone, Copy, Debug)]
pub struct PlainMask([u32; LANES]);

#[inline(always)]
fn mask(set: bool) -> u32 {
    if set { u32::MAX } else { 0 }
}

#[inline(always)]
fn blend(mask: u32, yes: u32, no: u32) -> u32 {
    (mask & yes) | (!mask & no)
}

impl BitAnd for PlainMask {
    type Output = Self;
    #[inline(always)]
    fn bitand(self, other: Self) -> Self {
        PlainMask(from_fn(|i| self.0[i] & other.0[i]))
    }
}

impl Add for Plain {
    type Output = Self;
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Plain(from_fn(|i| self.0[i] + other.0[i]))
    }
}

impl Sub for Plain {
    type Output = Self;
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        Plain(from_fn(|i| self.0[i] - other.0[i]))
    }
}

impl Mul for Plain {
    type Output = Self;
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        Plain(from_fn(|i| self.0[i] * other.0[i]))
    }
}

impl Div for Plain {
    type Output = Self;
    #[inline(always)]
    fn div(self, other: Self) -> Self {
        Plain(from_fn(|i| self.0[i] / other.0[i]))
    }
}

impl Neg for Plain {
    type Output = Self;
    #[inline(always)]
    fn neg(self) -> Self {
        Plain(self.0.map(|x| -x))
    }
}
