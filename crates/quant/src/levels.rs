//! Rounding to levels, and the 32-element blocks that Q4_0, Q4_1, Q5_0 and Q5_1 share.

use crate::lanes::{Lanes, map_levels};

/// Nearest integer, ties to even, for `|x| < 2^22`.
///
/// The sum pushes the fraction out of the mantissa. Out of range (or not a number) the result is some
/// number of 23 bits: the reference clamps it afterwards, and equal bytes need the same garbage.
#[inline(always)]
pub(crate) fn nearest(x: f32) -> i32 {
    let bits = (x + 12_582_912.0).to_bits();
    (bits & 0x007f_ffff) as i32 - 0x0040_0000
}

/// Truncation towards zero as x86 does it: whatever does not fit becomes `i32::MIN`.
#[inline(always)]
pub(crate) fn truncate(x: f32) -> i32 {
    if x.abs() < 2_147_483_648.0 {
        x as i32
    } else {
        i32::MIN
    }
}

/// The nearest integer, half away from zero, for magnitudes below 2^22: adding the largest number below one half
/// and truncating never rounds up what lies below a half.
#[inline(always)]
pub(crate) fn round_away<L: Lanes>(x: L) -> L::Ints {
    let below_half = L::splat(0.499_999_97);
    let negative = L::splat(0.0).greater(x);
    (x + L::choose(negative, -below_half, below_half)).truncate()
}

/// `1 / x`, or 0 for 0: the factor that turns values into levels.
#[inline(always)]
pub(crate) fn reciprocal(x: f32) -> f32 {
    if x != 0.0 { 1.0 / x } else { 0.0 }
}

/// Smallest and largest element, of which a zero may have either sign. Compared as integers, which keeps the order of
/// finite numbers and, unlike comparing floats, vectorizes; a NaN comes out as one of the two.
#[inline(always)]
fn bounds(x: &[f32]) -> (f32, f32) {
    // Turns over the order of negative numbers; twice is not at all.
    let key = |bits: i32| bits ^ ((bits >> 31) & i32::MAX);
    let (mut min, mut max) = (i32::MAX, i32::MIN);
    for x in x {
        let key = key(x.to_bits() as i32);
        min = min.min(key);
        max = max.max(key);
    }
    let float = |bits: i32| f32::from_bits(key(bits) as u32);
    (float(min), float(max))
}

/// The element of largest magnitude, with its sign (the first of equals; 0 for a block of zeros). NaN does not count.
#[inline(always)]
pub(crate) fn largest_signed(x: &[f32]) -> f32 {
    let (min, max) = bounds(x);
    if max > -min && !min.is_nan() {
        max
    } else if max < -min && !max.is_nan() {
        min
    } else {
        first_largest(x)
    }
}

/// [`largest_signed`] one by one, for what is rare.
#[cold]
fn first_largest(x: &[f32]) -> f32 {
    let mut value = 0.0f32;
    for &x in x {
        if x.abs() > value.abs() {
            value = x;
        }
    }
    value
}

/// The largest magnitude; NaN is larger than all.
#[inline(always)]
pub(crate) fn largest_magnitude(x: &[f32]) -> f32 {
    let bits = x
        .iter()
        .fold(0, |largest, x| largest.max(x.to_bits() & 0x7fff_ffff));
    f32::from_bits(bits)
}

/// Smallest and largest element; of zeros the first.
#[inline(always)]
pub(crate) fn range(x: &[f32]) -> (f32, f32) {
    let (min, max) = bounds(x);
    let first_zero = |bound: f32| {
        if bound == 0.0 {
            let zero = x.iter().copied().find(|&x| x == 0.0);
            zero.unwrap_or(bound)
        } else {
            bound
        }
    };
    (first_zero(min), first_zero(max))
}

/// Levels `0..2n` with `n` standing for zero: the scale maps the element of largest magnitude to level 0,
/// so that one end of the range is hit exactly.
#[inline(always)]
pub(crate) fn symmetric_levels<L: Lanes>(x: &[f32; 32], n: u8) -> (f32, [u8; 32]) {
    let d = largest_signed(x) / -f32::from(n);
    let (inverse, above) = (L::splat(reciprocal(d)), L::splat(f32::from(n) + 0.5));
    let n_max = 2 * i32::from(n) - 1;
    let level = |x: L| L::clamp_ints((x * inverse + above).truncate(), i32::MIN, n_max);
    (d, map_levels(x, level))
}

/// Levels `0..=n_max` from the smallest to the largest element: scale, minimum, levels.
#[inline(always)]
pub(crate) fn affine_levels<L: Lanes>(x: &[f32; 32], n_max: u8) -> (f32, f32, [u8; 32]) {
    let (min, max) = range(x);
    let d = (max - min) / f32::from(n_max);
    let (inverse, first, half) = (L::splat(reciprocal(d)), L::splat(min), L::splat(0.5));
    let level = |x: L| {
        let rounded = ((x - first) * inverse + half).truncate();
        L::clamp_ints(rounded, i32::MIN, i32::from(n_max))
    };
    (d, min, map_levels(x, level))
}

/// Low nibble of byte `i`: level `i`; high nibble: level `i + 16`.
#[inline(always)]
pub(crate) fn pack_nibbles(levels: &[u8; 32]) -> [u8; 16] {
    std::array::from_fn(|i| (levels[i] & 15) | (levels[i + 16] << 4))
}

/// Bit `i`: bit 4 of level `i`.
#[inline(always)]
pub(crate) fn pack_fifth_bits(levels: &[u8; 32]) -> [u8; 4] {
    let bits = levels.iter().enumerate().fold(0u32, |bits, (i, &level)| {
        bits | u32::from(level >> 4 & 1) << i
    });
    bits.to_le_bytes()
}

/// Undoes [`pack_nibbles`].
#[inline(always)]
pub(crate) fn unpack_nibbles(qs: &[u8; 16]) -> [u8; 32] {
    std::array::from_fn(|i| if i < 16 { qs[i] & 15 } else { qs[i - 16] >> 4 })
}

/// Undoes [`pack_nibbles`] and [`pack_fifth_bits`].
#[inline(always)]
pub(crate) fn unpack_five_bits(qs: &[u8; 16], qh: &[u8; 4]) -> [u8; 32] {
    let (low, high) = (unpack_nibbles(qs), u32::from_le_bytes(*qh));
    std::array::from_fn(|i| low[i] | ((high >> i & 1) as u8) << 4)
}
