//! MXFP4 (OCP microscaling): 4.25 bits per weight, E2M1 elements under a power-of-two scale.

use bytemuck::{Pod, Zeroable};

use crate::codec::{Block, Dot, Encode, dot_i32};
use crate::lanes::Lanes;
use crate::levels::{largest_magnitude, pack_nibbles, truncate, unpack_nibbles};
use crate::policy::{Policy, Readers};
use crate::registry::{Format, TensorType};
use crate::types::Q8_0;
use crate::types::q8_0::BlockQ8_0;

/// 32 elements in 17 bytes.
///
/// ```text
/// 0      1          17
/// | e    | qs[16]   |
///
/// e      exponent of the scale, bias 127
/// qs[i]  low nibble: element i, high nibble: element i + 16
/// ```
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockMxfp4 {
    /// E8M0 scale.
    pub e: u8,
    /// Two E2M1 codes per byte.
    pub qs: [u8; 16],
}

const _: () = assert!(size_of::<BlockMxfp4>() == 17);

/// MXFP4 (OCP microscaling): 4.25 bits per weight, E2M1 elements under a power-of-two scale.
pub const MXFP4: TensorType = TensorType(&FORMAT);

static FORMAT: Format = Format {
    activation: Some(Q8_0),
    policy: Policy {
        readers: Readers::Newest,
        ..Policy::NONE
    },
    ..Format::full::<BlockMxfp4>(39, "mxfp4", &[])
};

/// What the E2M1 codes stand for, doubled: a sign, two bits of exponent and one of mantissa.
pub const E2M1_DOUBLED: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

/// Codes of the nearest elements under scale `d`, which is halved; of two equally near ones the smaller.
#[inline(always)]
pub(crate) fn e2m1_codes<const N: usize>(x: &[f32; N], d: f32) -> [u8; N] {
    let mut codes = [0; N];
    for (x, codes) in x.as_chunks().0.iter().zip(codes.as_chunks_mut().0) {
        *codes = eight_e2m1_codes(x, d);
    }
    codes
}

/// Eight codes, which is what vectorizes. An element of the other sign is never nearer than 0.
#[inline(always)]
fn eight_e2m1_codes(x: &[f32; 8], d: f32) -> [u8; 8] {
    let sizes = x.map(f32::abs);
    let (mut codes, mut errors) = ([0u32; 8], sizes);
    for code in 1..8 {
        let value = f32::from(E2M1_DOUBLED[code as usize]) * d;
        for i in 0..8 {
            let error = (value - sizes[i]).abs();
            let nearer = error < errors[i];
            codes[i] = if nearer { code } else { codes[i] };
            errors[i] = if nearer { error } else { errors[i] };
        }
    }
    std::array::from_fn(|i| {
        let negative = x[i] < 0.0 && codes[i] != 0;
        (codes[i] | u32::from(negative) << 3) as u8
    })
}

/// The exponent whose largest element, 6, covers a block: two below that of the largest magnitude.
///
/// The logarithm is rounded to binary32, so that what lies just below a power of two counts as that power. The byte of a
/// block below the range wraps around: its codes are all 0.
#[inline(always)]
fn exponent(largest: f32) -> u8 {
    let (exponent, mantissa) = (largest.to_bits() >> 23, largest.to_bits() & 0x007f_ffff);
    // Far enough below the next power of two, at the cost of a logarithm otherwise: no more than 2^6 numbers round up.
    if (3..255).contains(&exponent) && mantissa < 0x007f_ff00 {
        return (exponent - 2) as u8;
    }
    if largest > 0.0 {
        let log = f64::from(largest).log2() as f32;
        truncate(log.floor() + 125.0) as u8
    } else {
        0
    }
}

impl BlockMxfp4 {
    /// Half the scale: 2^(e - 128), for elements are doubled.
    #[inline(always)]
    fn half_scale(e: u8) -> f32 {
        f32::from_bits(match e {
            0 | 1 => 0x0020_0000 << e, // subnormal
            _ => u32::from(e - 1) << 23,
        })
    }
}

impl Block for BlockMxfp4 {
    const LEN: usize = 32;

    fn decode(&self, out: &mut [f32]) {
        let d = Self::half_scale(self.e);
        for (out, code) in out.iter_mut().zip(unpack_nibbles(&self.qs)) {
            *out = f32::from(E2M1_DOUBLED[usize::from(code)]) * d;
        }
    }

    /// 255 stands for NaN.
    fn is_finite(&self) -> bool {
        self.e != 255
    }
}

impl Encode for BlockMxfp4 {
    const TAKES_IMPORTANCE: bool = false;

    #[inline(always)]
    fn encode_row<L: Lanes>(x: &[f32], _importance: Option<&[f32]>, blocks: &mut [Self]) {
        for (x, block) in x.as_chunks().0.iter().zip(blocks) {
            let e = exponent(largest_magnitude(x));
            *block = BlockMxfp4 {
                e,
                qs: pack_nibbles(&e2m1_codes(x, Self::half_scale(e))),
            };
        }
    }
}

impl Dot for BlockMxfp4 {
    type With = BlockQ8_0;

    fn dot(&self, with: &BlockQ8_0) -> f64 {
        let elements = unpack_nibbles(&self.qs)
            .into_iter()
            .map(|code| i32::from(E2M1_DOUBLED[usize::from(code)]));
        f64::from(Self::half_scale(self.e))
            * f64::from(with.d.to_f32())
            * f64::from(dot_i32(elements, &with.qs))
    }
}
