//! binary16 and bfloat16, bit by bit.
//!
//! Written out rather than taken from the processor so that every machine gives the same bits, and so
//! that the loops over them vectorize.

use bytemuck::{Pod, Zeroable};

/// A binary16 number as it lies in a block: two bytes, low byte first, no alignment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pod, Zeroable)]
#[repr(transparent)]
pub struct Half(pub [u8; 2]);

impl Half {
    /// The number rounded to nearest, ties to even.
    #[inline(always)]
    pub fn from_f32(x: f32) -> Self {
        Half(f32_to_f16(x).to_le_bytes())
    }

    /// The exact value.
    #[inline(always)]
    pub fn to_f32(self) -> f32 {
        f16_to_f32(self.bits())
    }

    /// The 16 bits.
    #[inline(always)]
    pub fn bits(self) -> u16 {
        u16::from_le_bytes(self.0)
    }

    /// Neither infinite nor NaN.
    #[inline(always)]
    pub fn is_finite(self) -> bool {
        self.bits() & 0x7c00 != 0x7c00
    }
}

/// The value of a binary16 bit pattern (exact; NaN payloads are kept).
#[inline(always)]
pub fn f16_to_f32(bits: u16) -> f32 {
    let sign = u32::from(bits & 0x8000) << 16;
    let shifted = u32::from(bits & 0x7fff) << 13;
    // Read as binary32 the exponent is 112 too small; one exact product mends normal and subnormal alike.
    let scaled = (f32::from_bits(shifted) * f32::from_bits((127 + 112) << 23)).to_bits();
    let magnitude = if shifted >= 0x7c00 << 13 {
        shifted | 0x7f80_0000
    } else {
        scaled
    };
    f32::from_bits(sign | magnitude)
}

/// The binary16 bit pattern nearest to `x` (ties to even; overflow gives infinity, any NaN the quiet one).
#[inline(always)]
pub fn f32_to_f16(x: f32) -> u16 {
    const SMALLEST_NORMAL: u32 = (127 - 14) << 23;
    const FIRST_INFINITE: u32 = 0x477f_f000; // 65520, halfway past the largest finite 65504
    let sign = (x.to_bits() >> 16) & 0x8000;
    let magnitude = x.to_bits() & 0x7fff_ffff;
    let rounded = magnitude.wrapping_add(0xfff + ((magnitude >> 13) & 1));
    let normal = rounded.wrapping_sub(112 << 23) >> 13;
    // In [0.5, 1) one unit in the last place is 2^-24, the step of binary16 subnormals: the addition rounds.
    let subnormal = (f32::from_bits(magnitude) + 0.5)
        .to_bits()
        .wrapping_sub(0.5f32.to_bits());
    let finite = if magnitude < SMALLEST_NORMAL {
        subnormal
    } else {
        normal
    };
    let bits = if magnitude > 0x7f80_0000 {
        0x7e00
    } else if magnitude >= FIRST_INFINITE {
        0x7c00
    } else {
        finite
    };
    (sign | bits) as u16
}

/// The value of a bfloat16 bit pattern: the upper half of a binary32.
#[inline(always)]
pub fn bf16_to_f32(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// The bfloat16 bit pattern nearest to `x` (ties to even; NaN is made quiet).
#[inline(always)]
pub fn f32_to_bf16(x: f32) -> u16 {
    let bits = x.to_bits();
    let nan = (bits >> 16) | 64;
    let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
    (if bits & 0x7fff_ffff > 0x7f80_0000 {
        nan
    } else {
        rounded
    }) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_survives_a_round_trip() {
        for bits in 0..=u16::MAX {
            let value = f16_to_f32(bits);
            if value.is_nan() {
                assert_eq!(f32_to_f16(value) & 0x7fff, 0x7e00);
            } else {
                assert_eq!(f32_to_f16(value), bits);
            }
        }
    }

    #[test]
    fn half_rounds_to_even_and_overflows_to_infinity() {
        assert_eq!(f32_to_f16(65519.996), 0x7bff);
        assert_eq!(f32_to_f16(65520.0), 0x7c00);
        assert_eq!(f32_to_f16(-70144.0), 0xfc00);
        assert_eq!(f32_to_f16(1.0 + 1.0 / 2048.0), 0x3c00); // tie, even below
        assert_eq!(f32_to_f16(1.0 + 3.0 / 2048.0), 0x3c02); // tie, even above
        assert_eq!(f32_to_f16(2f32.powi(-25)), 0); // tie with zero
        assert_eq!(f32_to_f16(2f32.powi(-24)), 1);
    }

    #[test]
    fn brain_float_rounds_to_even() {
        assert_eq!(f32_to_bf16(f32::from_bits(0x3f80_8000)), 0x3f80);
        assert_eq!(f32_to_bf16(f32::from_bits(0x3f81_8000)), 0x3f82);
        assert_eq!(f32_to_bf16(f32::from_bits(0x7f80_0001)), 0x7fc0);
    }
}
