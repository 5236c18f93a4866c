//! What the 256-element K types share: packed scales, packed levels, and the encoder of Q4_K and Q5_K.

use std::array::from_fn;

use crate::codec::dot_i32;
use crate::half_float::Half;
use crate::lanes::{Lanes, map_lanes, sum, transpose, untranspose};
use crate::levels::nearest;
use crate::search::{AffineSearch, fit_affine, fit_positive};
use crate::types::q8_k::BlockQ8K;

/// Eight 6-bit scales and eight 6-bit minima in 12 bytes.
///
/// ```text
/// byte            bits 0-3        bits 4-5        bits 6-7
/// 0..4    j       scale j, low 6 bits             scale j + 4, high 2 bits
/// 4..8    j + 4   minimum j, low 6 bits           minimum j + 4, high 2 bits
/// 8..12   j + 8   scale j + 4 (low nibble), minimum j + 4 (high nibble): their low 4 bits
/// ```
#[inline(always)]
pub(crate) fn unpack_scales(packed: &[u8; 12]) -> ([u8; 8], [u8; 8]) {
    let (mut scales, mut mins) = ([0; 8], [0; 8]);
    for j in 0..4 {
        scales[j] = packed[j] & 63;
        mins[j] = packed[j + 4] & 63;
        scales[j + 4] = (packed[j + 8] & 15) | (packed[j] >> 6 << 4);
        mins[j + 4] = (packed[j + 8] >> 4) | (packed[j + 4] >> 6 << 4);
    }
    (scales, mins)
}

/// Undoes [`unpack_scales`]; values are at most 63.
#[inline(always)]
pub(crate) fn pack_scales(scales: &[u8; 8], mins: &[u8; 8]) -> [u8; 12] {
    let mut packed = [0; 12];
    for j in 0..4 {
        packed[j] = scales[j] | (scales[j + 4] >> 4 << 6);
        packed[j + 4] = mins[j] | (mins[j + 4] >> 4 << 6);
        packed[j + 8] = (scales[j + 4] & 15) | (mins[j + 4] << 4);
    }
    packed
}

/// Per half of 128 levels 32 bytes; byte `l` holds levels `l`, `l + 32`, `l + 64`, `l + 96` of two bits each.
#[inline(always)]
pub(crate) fn pack_two_bits(levels: &[u8; 256]) -> [u8; 64] {
    from_fn(|i| {
        let first = i / 32 * 128 + i % 32;
        (0..4).fold(0, |byte, g| byte | (levels[first + 32 * g] & 3) << (2 * g))
    })
}

/// Undoes [`pack_two_bits`].
#[inline(always)]
pub(crate) fn unpack_two_bits(qs: &[u8; 64]) -> [u8; 256] {
    from_fn(|i| qs[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3)
}

/// Per 64 levels 32 bytes; byte `l`: low nibble level `l`, high nibble level `l + 32`.
#[inline(always)]
pub(crate) fn pack_nibble_pairs(levels: &[u8; 256]) -> [u8; 128] {
    from_fn(|i| {
        let first = i / 32 * 64 + i % 32;
        (levels[first] & 15) | (levels[first + 32] << 4)
    })
}

/// Undoes [`pack_nibble_pairs`].
#[inline(always)]
pub(crate) fn unpack_nibble_pairs(qs: &[u8; 128]) -> [u8; 256] {
    from_fn(|i| qs[i / 64 * 32 + i % 32] >> (i % 64 / 32 * 4) & 15)
}

/// Bit `g` of byte `l`: bit `bit` of level `32 * g + l`.
#[inline(always)]
pub(crate) fn pack_bit_planes(levels: &[u8; 256], bit: u32) -> [u8; 32] {
    from_fn(|l| (0..8).fold(0, |byte, g| byte | (levels[32 * g + l] >> bit & 1) << g))
}

/// Sum of squares of all elements, in their order.
#[inline(always)]
pub(crate) fn sum_of_squares(x: &[f32]) -> f32 {
    x.iter().fold(0.0, |sum, x| sum + x * x)
}

/// Weights of eight sub-blocks under an importance matrix.
#[inline(always)]
pub(crate) fn importance_weights<L: Lanes, const LEN: usize>(
    x: &[L; LEN],
    importance: &[f32],
    mean_square: f32,
) -> [L; LEN] {
    let importance = transpose::<L, LEN>(importance);
    let mean_square = L::splat(mean_square);
    let mut weights = map_lanes(x, |x| (mean_square + x * x).sqrt());
    for (weight, importance) in weights.iter_mut().zip(importance) {
        *weight = importance * *weight;
    }
    weights
}

/// The levels `0..=n_max` that scale `d` and minimum `-m` give now that both are rounded; a lane of scale 0
/// keeps the levels it had.
#[inline(always)]
pub(crate) fn affine_levels_again<L: Lanes>(
    n_max: i32,
    x: &[L],
    d: L,
    m: L,
    levels: &mut [L::Ints],
) {
    let without_scale = d.equal(L::splat(0.0));
    for (&x, level) in x.iter().zip(levels) {
        let l = L::clamp_ints(((x + m) / d).nearest(), 0, n_max);
        *level = L::choose_ints(without_scale, *level, l);
    }
}

/// The same for levels `0..2 * n` about zero.
#[inline(always)]
pub(crate) fn symmetric_levels_again<L: Lanes>(n: i32, x: &[L], d: L, levels: &mut [L::Ints]) {
    let without_scale = d.equal(L::splat(0.0));
    for (&x, level) in x.iter().zip(levels) {
        let l = L::add_int(L::clamp_ints((x / d).nearest(), -n, n - 1), n);
        *level = L::choose_ints(without_scale, *level, l);
    }
}

/// What Q4_K and Q5_K store, before the levels are packed.
pub(crate) struct AffineSuperBlock {
    pub d: Half,
    pub dmin: Half,
    pub scales: [u8; 12],
    pub levels: [u8; 256],
}

/// Encodes 256 elements as eight sub-blocks with 6-bit scales and minima; `plain` is the search without an
/// importance matrix and tells the largest level.
#[inline(always)]
pub(crate) fn encode_affine<L: Lanes>(
    x: &[f32],
    importance: Option<&[f32]>,
    plain: &AffineSearch,
) -> AffineSuperBlock {
    let lanes = transpose::<L, 32>(x);
    let mut levels = [L::splat_int(0); 32];
    let (d, dmin, scales, mins) = match importance {
        None => plain_scales(&lanes, plain, &mut levels),
        Some(importance) => {
            let weights = importance_weights(&lanes, importance, 2.0 * sum_of_squares(x) / 256.0);
            weighted_scales(&lanes, &weights, plain.n_max, &mut levels)
        }
    };
    let factors =
        |d: Half, scales: &[u8; 8]| L::load(from_fn(|j| d.to_f32() * f32::from(scales[j])));
    affine_levels_again(
        plain.n_max,
        &lanes,
        factors(d, &scales),
        factors(dmin, &mins),
        &mut levels,
    );
    let mut block = AffineSuperBlock {
        d,
        dmin,
        scales: pack_scales(&scales, &mins),
        levels: [0; 256],
    };
    untranspose::<L>(&levels, &mut block.levels);
    block
}

type Scales = (Half, Half, [u8; 8], [u8; 8]);

/// Weights grow with the magnitude; the largest scale and minimum become 63.
#[inline(always)]
fn plain_scales<L: Lanes>(x: &[L; 32], search: &AffineSearch, levels: &mut [L::Ints]) -> Scales {
    let squares = map_lanes(x, |x| x * x);
    let root_mean_square = (sum(&squares) * L::splat(1.0 / 32.0)).sqrt();
    let weights = map_lanes(x, |x| root_mean_square + x.abs());
    let (scales, mins) = fit_affine(search, x, &weights, levels);
    let (scales, mins) = (scales.store(), (-mins).store());
    let largest = |x: &[f32; 8]| {
        x.iter()
            .fold(0.0f32, |max, &x| if x > max { x } else { max })
    };
    let (max_scale, max_min) = (largest(&scales), largest(&mins));
    let to_63 = |x: [f32; 8], max: f32| {
        let inverse = if max > 0.0 { 63.0 / max } else { 0.0 };
        x.map(|x| (nearest(inverse * x) as u8).min(63))
    };
    let (d, dmin) = (
        Half::from_f32(max_scale / 63.0),
        Half::from_f32(max_min / 63.0),
    );
    (d, dmin, to_63(scales, max_scale), to_63(mins, max_min))
}

/// The scales and the minima are themselves fitted, each sub-block weighted with its sum of weights.
#[inline(always)]
fn weighted_scales<L: Lanes>(
    x: &[L; 32],
    weights: &[L; 32],
    n_max: i32,
    levels: &mut [L::Ints],
) -> Scales {
    let (scales, mins) = fit_affine(&AffineSearch::weighted(n_max), x, weights, levels);
    let sums = sum(weights).store();
    let (mut scale_levels, mut min_levels) = ([0; 8], [0; 8]);
    let d = fit_positive(63, &scales.store(), &sums, &mut scale_levels);
    let dmin = fit_positive(63, &(-mins).store(), &sums, &mut min_levels);
    let at_most_63 = |levels: [u8; 8]| levels.map(|level| level.min(63));
    (
        Half::from_f32(d),
        Half::from_f32(dmin),
        at_most_63(scale_levels),
        at_most_63(min_levels),
    )
}

/// Values of eight sub-blocks with scales and minima: (d * scale) * level - dmin * minimum.
pub(crate) fn decode_affine(
    d: Half,
    dmin: Half,
    scales: &[u8; 12],
    levels: &[u8; 256],
    out: &mut [f32],
) {
    let (d, dmin) = (d.to_f32(), dmin.to_f32());
    let (scales, mins) = unpack_scales(scales);
    for (i, (out, &q)) in out.iter_mut().zip(levels).enumerate() {
        *out = d * f32::from(scales[i / 32]) * f32::from(q) - dmin * f32::from(mins[i / 32]);
    }
}

/// Dot product of eight sub-blocks with scales and minima: the minima meet the sums of the activations.
pub(crate) fn dot_affine(
    d: Half,
    dmin: Half,
    scales: &[u8; 12],
    levels: &[u8; 256],
    with: &BlockQ8K,
) -> f64 {
    let (scales, mins) = unpack_scales(scales);
    let (mut scaled, mut offset) = (0, 0);
    for (j, (q, y)) in levels
        .chunks_exact(32)
        .zip(with.qs.chunks_exact(32))
        .enumerate()
    {
        scaled += i32::from(scales[j]) * dot_i32(q.iter().map(|&q| i32::from(q)), y);
        offset += i32::from(mins[j]) * (with.sum(2 * j) + with.sum(2 * j + 1));
    }
    let y = f64::from(with.scale());
    f64::from(d.to_f32()) * y * f64::from(scaled) - f64::from(dmin.to_f32()) * y * f64::from(offset)
}
