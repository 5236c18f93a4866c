//! Rounding to levels, and the 32-element blocks that Q4_0, Q4_1, Q5_0 and Q5_1 share.

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
pub(crate) fn round_away(x: f32) -> i32 {
    const BELOW_HALF: f32 = 0.499_999_97;
    truncate(x + BELOW_HALF.copysign(x))
}

/// `1 / x`, or 0 for 0: the factor that turns values into levels.
#[inline(always)]
pub(crate) fn reciprocal(x: f32) -> f32 {
    if x != 0.0 { 1.0 / x } else { 0.0 }
}

/// The element of largest magnitude, with its sign (the first of equals; 0 for a block of zeros).
#[inline(always)]
pub(crate) fn largest_signed(x: &[f32]) -> f32 {
    let (mut magnitude, mut value) = (0.0f32, 0.0f32);
    for &x in x {
        if magnitude < x.abs() {
            magnitude = x.abs();
            value = x;
        }
    }
    value
}

/// The largest magnitude.
#[inline(always)]
pub(crate) fn largest_magnitude(x: &[f32]) -> f32 {
    x.iter().fold(
        0.0f32,
        |largest, x| if largest > x.abs() { largest } else { x.abs() },
    )
}

/// Smallest and largest element.
#[inline(always)]
pub(crate) fn range(x: &[f32]) -> (f32, f32) {
    let (mut min, mut max) = (f32::MAX, -f32::MAX);
    for &x in x {
        min = if x < min { x } else { min };
        max = if x > max { x } else { max };
    }
    (min, max)
}

/// Levels `0..2n` with `n` standing for zero: the scale maps the element of largest magnitude to level 0,
/// so that one end of the range is hit exactly.
#[inline(always)]
pub(crate) fn symmetric_levels(x: &[f32], n: u8) -> (f32, [u8; 32]) {
    let d = largest_signed(x) / -f32::from(n);
    let inverse = reciprocal(d);
    let mut levels = [0; 32];
    for (level, x) in levels.iter_mut().zip(x) {
        let rounded = truncate(x * inverse + (f32::from(n) + 0.5)) as i8;
        *level = rounded.min(2 * n as i8 - 1) as u8;
    }
    (d, levels)
}

/// Levels `0..=n_max` from the smallest to the largest element: scale, minimum, levels.
#[inline(always)]
pub(crate) fn affine_levels(x: &[f32], n_max: u8) -> (f32, f32, [u8; 32]) {
    let (min, max) = range(x);
    let d = (max - min) / f32::from(n_max);
    let inverse = reciprocal(d);
    let mut levels = [0; 32];
    for (level, x) in levels.iter_mut().zip(x) {
        let rounded = truncate((x - min) * inverse + 0.5) as i8;
        *level = rounded.min(n_max as i8) as u8;
    }
    (d, min, levels)
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
