//! Signs kept apart from magnitudes, one byte per eight elements, bit `i` set where element `i` is negative.

/// The sign byte of a 7-bit sign word: the number of negative elements is even, so the last bit follows from the others.
#[inline(always)]
pub(crate) fn even_signs(word: u8) -> u8 {
    let word = word & 127;
    word | ((word.count_ones() as u8) & 1) << 7
}

/// `-1` where the bit is set, `1` elsewhere.
#[inline(always)]
pub(crate) fn sign(signs: u8, i: usize) -> i32 {
    1 - 2 * i32::from(signs >> i & 1)
}

/// Splits a super-block; `-0` is not negative.
#[inline(always)]
pub(crate) fn split_signs(x: &[f32]) -> ([f32; 256], [u8; 32]) {
    let mut signs = [0; 32];
    for (byte, x) in signs.iter_mut().zip(x.chunks_exact(8)) {
        *byte = x
            .iter()
            .enumerate()
            .fold(0, |byte, (i, &x)| byte | u8::from(x < 0.0) << i);
    }
    (std::array::from_fn(|i| x[i].abs()), signs)
}

/// Where a group has an odd number of negative elements, turns round the one whose sign costs least (the first of
/// equals): its magnitude becomes negative.
#[inline(always)]
pub(crate) fn make_even(magnitudes: &mut [f32; 256], weights: &[f32; 256], signs: &mut [u8; 32]) {
    for (group, byte) in signs.iter_mut().enumerate() {
        if byte.count_ones() % 2 == 0 {
            continue;
        }
        let x = &mut magnitudes[8 * group..][..8];
        let weights = &weights[8 * group..][..8];
        let cost = |i: usize, x: &[f32]| weights[i] * x[i] * x[i];
        let mut cheapest = 0;
        for i in 1..8 {
            if cost(i, x) < cost(cheapest, x) {
                cheapest = i;
            }
        }
        x[cheapest] = -x[cheapest];
        *byte ^= 1 << cheapest;
    }
}
