//! Q2_K: 2.625 bits per weight, 2-bit levels above a minimum, a 4-bit scale and minimum per 16.

use bytemuck::{Pod, Zeroable};

use crate::codec::{Block, Dot, Encode, dot_i32};
use crate::half_float::Half;
use crate::lanes::{Lanes, map_lanes, sum, transpose, untranspose};
use crate::levels::nearest;
use crate::policy::{BySize, Policy};
use crate::registry::{Format, TensorType};
use crate::search::{AffineSearch, fit_affine, fit_positive};
use crate::super_block::{
    affine_levels_again, importance_weights, pack_two_bits, sum_of_squares, unpack_two_bits,
};
use crate::types::q8_k::BlockQ8K;
use crate::types::{Q4_0, Q8_K};

/// 256 elements in 84 bytes.
///
/// ```text
/// 0            16        80     82     84
/// | scales[16] | qs[64] | d    | dmin |
///
/// scales[j]  low nibble sc: scale, high nibble mn: minimum of elements 16j..16j+15
/// qs         per half of 128 elements 32 bytes; byte l: elements l, l + 32, l + 64, l + 96, low bits first
/// value      (d * sc) * q - dmin * mn
/// ```
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockQ2K {
    /// Scale and minimum per 16 elements.
    pub scales: [u8; 16],
    /// Four levels per byte.
    pub qs: [u8; 64],
    /// Scale of the scales.
    pub d: Half,
    /// Scale of the minima.
    pub dmin: Half,
}

const _: () = assert!(size_of::<BlockQ2K>() == 84);

/// Q2_K: 2.625 bits per weight, 2-bit levels above a minimum, a 4-bit scale and minimum per 16.
pub const Q2_K: TensorType = TensorType(&FORMAT);

static FORMAT: Format = Format {
    activation: Some(Q8_K),
    policy: Policy {
        fallback: Some(Q4_0),
        by_size: BySize::AnyRows,
        ..Policy::NONE
    },
    ..Format::full::<BlockQ2K>(10, "q2_K", &[(80, 2, 2)])
};

const SEARCH: AffineSearch = AffineSearch {
    n_max: 3,
    first: -0.5,
    step: 0.1,
    n_steps: 15,
    absolute: true,
    saturate: false,
};

impl Block for BlockQ2K {
    const LEN: usize = 256;

    fn decode(&self, out: &mut [f32]) {
        let (d, dmin) = (self.d.to_f32(), self.dmin.to_f32());
        for (i, (out, q)) in out.iter_mut().zip(unpack_two_bits(&self.qs)).enumerate() {
            let scale = self.scales[i / 16];
            *out = d * f32::from(scale & 15) * f32::from(q) - dmin * f32::from(scale >> 4);
        }
    }

    fn is_finite(&self) -> bool {
        self.d.is_finite() && self.dmin.is_finite()
    }
}

impl Encode for BlockQ2K {
    #[inline(always)]
    fn encode_row<L: Lanes>(x: &[f32], importance: Option<&[f32]>, blocks: &mut [Self]) {
        for (i, (x, block)) in x.chunks_exact(256).zip(blocks).enumerate() {
            *block = encode::<L>(x, importance.map(|row| &row[256 * i..][..256]));
        }
    }
}

/// Sixteen sub-blocks, eight at a time.
#[inline(always)]
fn encode<L: Lanes>(x: &[f32], importance: Option<&[f32]>) -> BlockQ2K {
    let halves = [transpose::<L, 16>(&x[..128]), transpose::<L, 16>(&x[128..])];
    let mut levels = [[L::splat_int(0); 16]; 2];
    let (mut scales, mut mins, mut sums) = ([0.0; 16], [0.0; 16], [0.0; 16]);
    let mean_square = sum_of_squares(x) / 256.0;
    for (half, x) in halves.iter().enumerate() {
        let first = 8 * half;
        let (search, weights) = match importance {
            None => (SEARCH, map_lanes(x, L::abs)),
            Some(importance) => (
                AffineSearch::weighted(3),
                importance_weights(x, &importance[16 * first..], mean_square),
            ),
        };
        let (scale, min) = fit_affine(&search, x, &weights, &mut levels[half]);
        scales[first..first + 8].copy_from_slice(&scale.store());
        mins[first..first + 8].copy_from_slice(&(-min).store());
        sums[first..first + 8].copy_from_slice(&sum(&weights).store());
    }
    let mut block = match importance {
        None => plain_scales(&scales, &mins),
        Some(_) => weighted_scales(&scales, &mins, &sums),
    };
    let mut in_order = [0; 256];
    for (half, x) in halves.iter().enumerate() {
        let packed = &block.scales[8 * half..];
        let d = L::load(std::array::from_fn(|j| {
            block.d.to_f32() * f32::from(packed[j] & 15)
        }));
        let m = L::load(std::array::from_fn(|j| {
            block.dmin.to_f32() * f32::from(packed[j] >> 4)
        }));
        affine_levels_again(3, x, d, m, &mut levels[half]);
        untranspose::<L>(&levels[half], &mut in_order[128 * half..][..128]);
    }
    block.qs = pack_two_bits(&in_order);
    block
}

/// The largest scale and minimum become 15.
#[inline(always)]
fn plain_scales(scales: &[f32; 16], mins: &[f32; 16]) -> BlockQ2K {
    let fit = |x: &[f32; 16]| {
        let max = x
            .iter()
            .fold(0.0f32, |max, &x| if x > max { x } else { max });
        if max > 0.0 {
            let inverse = 15.0 / max;
            (
                Half::from_f32(max / 15.0),
                x.map(|x| nearest(inverse * x) as u8),
            )
        } else {
            (Half::default(), [0; 16])
        }
    };
    let ((d, scales), (dmin, mins)) = (fit(scales), fit(mins));
    BlockQ2K {
        scales: std::array::from_fn(|j| scales[j] | (mins[j] << 4)),
        qs: [0; 64],
        d,
        dmin,
    }
}

/// The scales and the minima are themselves fitted, each sub-block weighted with its sum of weights.
#[inline(always)]
fn weighted_scales(scales: &[f32; 16], mins: &[f32; 16], sums: &[f32; 16]) -> BlockQ2K {
    let (mut scale_levels, mut min_levels) = ([0; 16], [0; 16]);
    let d = Half::from_f32(fit_positive(15, scales, sums, &mut scale_levels));
    let dmin = Half::from_f32(fit_positive(15, mins, sums, &mut min_levels));
    let scales = std::array::from_fn(|j| scale_levels[j] | (min_levels[j] << 4));
    BlockQ2K {
        scales,
        qs: [0; 64],
        d,
        dmin,
    }
}

impl Dot for BlockQ2K {
    type With = BlockQ8K;

    fn dot(&self, with: &BlockQ8K) -> f64 {
        let levels = unpack_two_bits(&self.qs);
        let (mut scaled, mut offset) = (0, 0);
        for (j, (q, y)) in levels
            .chunks_exact(16)
            .zip(with.qs.chunks_exact(16))
            .enumerate()
        {
            scaled += i32::from(self.scales[j] & 15) * dot_i32(q.iter().map(|&q| i32::from(q)), y);
            offset += i32::from(self.scales[j] >> 4) * with.sum(j);
        }
        let y = f64::from(with.scale());
        f64::from(self.d.to_f32()) * y * f64::from(scaled)
            - f64::from(self.dmin.to_f32()) * y * f64::from(offset)
    }
}
