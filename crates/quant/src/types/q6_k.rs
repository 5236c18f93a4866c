//! Q6_K: 6.56 bits per weight, symmetric 6-bit levels, an 8-bit scale per 16.

use bytemuck::{Pod, Zeroable};

use crate::codec::{Block, Dot, Encode, dot_i32};
use crate::half_float::Half;
use crate::lanes::{Lanes, map_lanes, transpose, untranspose};
use crate::levels::{largest_signed, nearest};
use crate::policy::{BySize, OwnRecipe, Policy};
use crate::registry::{Format, TensorType};
use crate::search::{ZERO_MAGNITUDE, fit_symmetric};
use crate::super_block::symmetric_levels_again;
use crate::types::q8_k::BlockQ8K;
use crate::types::{Q8_0, Q8_K};

/// 256 elements in 210 bytes.
///
/// ```text
/// 0         128      192           208    210
/// | ql[128] | qh[64] | scales[16]  | d    |
///
/// per half of 128 elements 64 bytes of ql and 32 of qh; for l < 32
/// ql[l]       low nibble element l, high nibble element l + 64 (their low four bits)
/// ql[l + 32]  low nibble element l + 32, high nibble element l + 96
/// qh[l]       high two bits of elements l, l + 32, l + 64, l + 96, low bits first
/// value       (d * scales[element / 16]) * (q - 32)
/// ```
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockQ6K {
    /// Low four bits, two levels per byte.
    pub ql: [u8; 128],
    /// High two bits, four levels per byte.
    pub qh: [u8; 64],
    /// Scale per 16 elements.
    pub scales: [i8; 16],
    /// Scale of the scales.
    pub d: Half,
}

const _: () = assert!(size_of::<BlockQ6K>() == 210);

/// Q6_K: 6.56 bits per weight, symmetric 6-bit levels, an 8-bit scale per 16.
pub const Q6_K: TensorType = TensorType(&FORMAT);

static FORMAT: Format = Format {
    activation: Some(Q8_K),
    policy: Policy {
        fallback: Some(Q8_0),
        by_size: BySize::AnyRows,
        recipe: Some(OwnRecipe {
            file_type: 18,
            name: "Q6_K",
            help: "6.6 bits: hardly any loss",
        }),
        ..Policy::NONE
    },
    ..Format::full::<BlockQ6K>(14, "q6_K", &[(208, 2, 1)])
};

impl BlockQ6K {
    /// Levels -32..=31.
    fn levels(&self) -> [i8; 256] {
        std::array::from_fn(|i| {
            let (half, quarter, l) = (i / 128, i % 128 / 32, i % 32);
            let low = self.ql[64 * half + quarter % 2 * 32 + l] >> (quarter / 2 * 4) & 15;
            let high = self.qh[32 * half + l] >> (2 * quarter) & 3;
            (low | high << 4) as i8 - 32
        })
    }

    #[inline(always)]
    fn set_levels(&mut self, levels: &[u8; 256]) {
        for half in 0..2 {
            let levels = &levels[128 * half..][..128];
            for l in 0..32 {
                let quarters = [levels[l], levels[l + 32], levels[l + 64], levels[l + 96]];
                self.ql[64 * half + l] = (quarters[0] & 15) | (quarters[2] << 4);
                self.ql[64 * half + l + 32] = (quarters[1] & 15) | (quarters[3] << 4);
                self.qh[32 * half + l] =
                    (0..4).fold(0, |byte, g| byte | (quarters[g] >> 4) << (2 * g));
            }
        }
    }
}

impl Block for BlockQ6K {
    const LEN: usize = 256;

    fn decode(&self, out: &mut [f32]) {
        let d = self.d.to_f32();
        for (i, (out, q)) in out.iter_mut().zip(self.levels()).enumerate() {
            *out = d * f32::from(self.scales[i / 16]) * f32::from(q);
        }
    }

    fn is_finite(&self) -> bool {
        self.d.is_finite()
    }
}

impl Encode for BlockQ6K {
    #[inline(always)]
    fn encode_row<L: Lanes>(x: &[f32], importance: Option<&[f32]>, blocks: &mut [Self]) {
        for (i, (x, block)) in x.chunks_exact(256).zip(blocks).enumerate() {
            *block = encode::<L>(x, importance.map(|row| &row[256 * i..][..256]));
        }
    }
}

/// Sixteen sub-blocks, eight at a time; the scale of largest magnitude becomes -128 exactly.
#[inline(always)]
fn encode<L: Lanes>(x: &[f32], importance: Option<&[f32]>) -> BlockQ6K {
    let halves = [transpose::<L, 16>(&x[..128]), transpose::<L, 16>(&x[128..])];
    let mut levels = [[L::splat_int(0); 16]; 2];
    let mut scales = [0.0; 16];
    for (half, x) in halves.iter().enumerate() {
        let weights = match importance {
            None => map_lanes(x, |x| x * x),
            Some(importance) => transpose(&importance[128 * half..][..128]),
        };
        scales[8 * half..][..8]
            .copy_from_slice(&fit_symmetric(32, x, &weights, &mut levels[half]).store());
    }
    let mut block = BlockQ6K::zeroed();
    let largest = largest_signed(&scales);
    if largest.abs() < ZERO_MAGNITUDE {
        return block;
    }
    let inverse = -128.0 / largest;
    block.d = Half::from_f32(1.0 / inverse);
    block.scales = scales.map(|scale| nearest(inverse * scale).min(127) as i8);
    let mut in_order = [0; 256];
    for (half, x) in halves.iter().enumerate() {
        let d = L::load(std::array::from_fn(|j| {
            block.d.to_f32() * f32::from(block.scales[8 * half + j])
        }));
        symmetric_levels_again(32, x, d, &mut levels[half]);
        untranspose::<L>(&levels[half], &mut in_order[128 * half..][..128]);
    }
    block.set_levels(&in_order);
    block
}

impl Dot for BlockQ6K {
    type With = BlockQ8K;

    fn dot(&self, with: &BlockQ8K) -> f64 {
        let levels = self.levels();
        let mut scaled = 0;
        for (j, (q, y)) in levels
            .chunks_exact(16)
            .zip(with.qs.chunks_exact(16))
            .enumerate()
        {
            scaled += i32::from(self.scales[j]) * dot_i32(q.iter().map(|&q| i32::from(q)), y);
        }
        f64::from(self.d.to_f32()) * f64::from(with.scale()) * f64::from(scaled)
    }
}
