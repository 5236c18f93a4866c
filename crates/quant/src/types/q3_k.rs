//! Q3_K: 3.44 bits per weight, symmetric 3-bit levels, a 6-bit scale per 16.

use bytemuck::{Pod, Zeroable};

use crate::codec::{Block, Dot, Encode, dot_i32};
use crate::half_float::Half;
use crate::lanes::{Lanes, sum, transpose, untranspose};
use crate::levels::{largest_signed, nearest};
use crate::policy::{BySize, Policy};
use crate::registry::{Format, TensorType};
use crate::search::{fit_by_descent, fit_symmetric};
use crate::super_block::{
    importance_weights, pack_bit_planes, pack_two_bits, sum_of_squares, symmetric_levels_again,
    unpack_two_bits,
};
use crate::types::q8_k::BlockQ8K;
use crate::types::{Q4_0, Q8_K};

/// 256 elements in 110 bytes.
///
/// ```text
/// 0           32       96           108    110
/// | hmask[32] | qs[64] | scales[12] | d    |
///
/// hmask[l]   bit g: bit 2 of element 32g + l
/// qs         low two bits; per half of 128 elements 32 bytes; byte l: elements l, l + 32, l + 64, l + 96
/// scales     sc of elements 16j..16j+15, plus 32: low four bits in the nibbles of bytes 0-7 (j < 8 low, else high),
///            high two bits in byte 8 + j % 4 at 2 * (j / 4)
/// value      (d * sc) * (q - 4)
/// ```
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockQ3K {
    /// High bit of each level.
    pub hmask: [u8; 32],
    /// Low two bits, four levels per byte.
    pub qs: [u8; 64],
    /// Sixteen 6-bit scales.
    pub scales: [u8; 12],
    /// Scale of the scales.
    pub d: Half,
}

const _: () = assert!(size_of::<BlockQ3K>() == 110);

/// Q3_K: 3.44 bits per weight, symmetric 3-bit levels, a 6-bit scale per 16.
pub const Q3_K: TensorType = TensorType(&FORMAT);

static FORMAT: Format = Format {
    activation: Some(Q8_K),
    policy: Policy {
        fallback: Some(Q4_0),
        by_size: BySize::AnyRows,
        ..Policy::NONE
    },
    ..Format::full::<BlockQ3K>(11, "q3_K", &[(108, 2, 1)])
};

/// Sixteen 6-bit numbers in 12 bytes, as the drawing of [`BlockQ3K`] tells.
#[inline(always)]
fn pack_scales(scales: &[u8; 16]) -> [u8; 12] {
    let mut packed = [0; 12];
    for (j, scale) in scales.iter().enumerate() {
        packed[j % 8] |= (scale & 15) << (j / 8 * 4);
        packed[8 + j % 4] |= (scale >> 4) << (j / 4 * 2);
    }
    packed
}

impl BlockQ3K {
    /// Sub-block scales -32..=31.
    fn scales(&self) -> [i8; 16] {
        std::array::from_fn(|j| {
            let low = self.scales[j % 8] >> (j / 8 * 4) & 15;
            let high = self.scales[8 + j % 4] >> (j / 4 * 2) & 3;
            (low | high << 4) as i8 - 32
        })
    }

    /// Levels -4..=3.
    fn levels(&self) -> [i8; 256] {
        let low = unpack_two_bits(&self.qs);
        std::array::from_fn(|i| {
            let high = self.hmask[i % 32] >> (i / 32) & 1;
            (low[i] | high << 2) as i8 - 4
        })
    }
}

impl Block for BlockQ3K {
    const LEN: usize = 256;

    fn decode(&self, out: &mut [f32]) {
        let (d, scales) = (self.d.to_f32(), self.scales());
        for (i, (out, q)) in out.iter_mut().zip(self.levels()).enumerate() {
            *out = d * f32::from(scales[i / 16]) * f32::from(q);
        }
    }

    fn is_finite(&self) -> bool {
        self.d.is_finite()
    }
}

impl Encode for BlockQ3K {
    #[inline(always)]
    fn encode_row<L: Lanes>(x: &[f32], importance: Option<&[f32]>, blocks: &mut [Self]) {
        for (i, (x, block)) in x.chunks_exact(256).zip(blocks).enumerate() {
            *block = encode::<L>(x, importance.map(|row| &row[256 * i..][..256]));
        }
    }
}

/// Sixteen sub-blocks, eight at a time.
#[inline(always)]
fn encode<L: Lanes>(x: &[f32], importance: Option<&[f32]>) -> BlockQ3K {
    let halves = [transpose::<L, 16>(&x[..128]), transpose::<L, 16>(&x[128..])];
    let mut levels = [[L::splat_int(0); 16]; 2];
    let (mut scales, mut sums) = ([0.0; 16], [0.0; 16]);
    let mean_square = 2.0 * sum_of_squares(x) / 256.0;
    for (half, x) in halves.iter().enumerate() {
        let first = 8 * half;
        let scale = match importance {
            None => fit_by_descent(4, x, &mut levels[half]),
            Some(importance) => {
                let weights = importance_weights(x, &importance[16 * first..], mean_square);
                sums[first..first + 8].copy_from_slice(&sum(&weights).store());
                fit_symmetric(4, x, &weights, &mut levels[half])
            }
        };
        scales[first..first + 8].copy_from_slice(&scale.store());
    }
    let (d, scale_levels) = match importance {
        None => plain_scales(&scales),
        Some(_) => weighted_scales::<L>(&scales, &sums),
    };
    let mut block = BlockQ3K {
        hmask: [0; 32],
        qs: [0; 64],
        scales: pack_scales(&scale_levels),
        d: Half::from_f32(d),
    };
    let rounded = block.scales();
    let mut in_order = [0; 256];
    for (half, x) in halves.iter().enumerate() {
        let d = L::load(std::array::from_fn(|j| {
            block.d.to_f32() * f32::from(rounded[8 * half + j])
        }));
        symmetric_levels_again(4, x, d, &mut levels[half]);
        untranspose::<L>(&levels[half], &mut in_order[128 * half..][..128]);
    }
    block.hmask = pack_bit_planes(&in_order, 2);
    block.qs = pack_two_bits(&in_order);
    block
}

/// The scale of largest magnitude becomes -32 exactly.
#[inline(always)]
fn plain_scales(scales: &[f32; 16]) -> (f32, [u8; 16]) {
    let largest = largest_signed(scales);
    if largest == 0.0 {
        return (0.0, [0; 16]);
    }
    let inverse = -32.0 / largest;
    (
        1.0 / inverse,
        scales.map(|scale| ((nearest(inverse * scale) as i8).clamp(-32, 31) + 32) as u8),
    )
}

/// The scales are themselves fitted, each sub-block weighted with its sum of weights.
#[inline(always)]
fn weighted_scales<L: Lanes>(scales: &[f32; 16], sums: &[f32; 16]) -> (f32, [u8; 16]) {
    // One search only: all lanes do the same.
    let mut levels = [L::splat_int(0); 16];
    let d = fit_symmetric(32, &scales.map(L::splat), &sums.map(L::splat), &mut levels);
    (
        d.store()[0],
        levels.map(|level| L::store_ints(level)[0] as u8),
    )
}

impl Dot for BlockQ3K {
    type With = BlockQ8K;

    fn dot(&self, with: &BlockQ8K) -> f64 {
        let (levels, scales) = (self.levels(), self.scales());
        let mut scaled = 0;
        for (j, (q, y)) in levels
            .chunks_exact(16)
            .zip(with.qs.chunks_exact(16))
            .enumerate()
        {
            scaled += i32::from(scales[j]) * dot_i32(q.iter().map(|&q| i32::from(q)), y);
        }
        f64::from(self.d.to_f32()) * f64::from(with.scale()) * f64::from(scaled)
    }
}
