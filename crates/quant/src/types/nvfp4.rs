//! NVFP4: 4.5 bits per weight, E2M1 elements, a UE4M3 scale per 16.

use bytemuck::{Pod, Zeroable};

use crate::codec::{Block, Dot, Encode, dot_i32};
use crate::lanes::Lanes;
use crate::levels::largest_magnitude;
use crate::policy::{Policy, Readers};
use crate::registry::{Format, TensorType};
use crate::types::Q8_0;
use crate::types::mxfp4::{E2M1_DOUBLED, e2m1_codes};
use crate::types::q8_0::BlockQ8_0;

/// 64 elements in 36 bytes.
///
/// ```text
/// 0        4          36
/// | d[4]   | qs[32]   |
///
/// d[s]          scale of elements 16s..16s+15
/// qs[8s + i]    low nibble: element 16s + i, high nibble: element 16s + i + 8
/// ```
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockNvfp4 {
    /// UE4M3 scales.
    pub d: [u8; 4],
    /// Two E2M1 codes per byte.
    pub qs: [u8; 32],
}

const _: () = assert!(size_of::<BlockNvfp4>() == 36);

/// NVFP4: 4.5 bits per weight, E2M1 elements, a UE4M3 scale per 16.
pub const NVFP4: TensorType = TensorType(&FORMAT);

static FORMAT: Format = Format {
    activation: Some(Q8_0),
    policy: Policy {
        readers: Readers::Newest,
        ..Policy::NONE
    },
    ..Format::full::<BlockNvfp4>(40, "nvfp4", &[])
};

/// The largest finite UE4M3 number.
const UE4M3_MAX: u8 = 0x7e;
/// The UE4M3 number 256, the first of the last exponent.
const FROM_256: u8 = 0x78;

/// The UE4M3 number (four bits of exponent with bias 7, three of mantissa) nearest to `x`; of two the larger.
/// Whatever is not positive becomes 0, and everything from 256 on the largest number.
#[inline(always)]
fn to_ue4m3(x: f32) -> u8 {
    const SMALLEST_NORMAL: f32 = 1.0 / 64.0;
    if x.is_nan() || x <= 0.0 {
        return 0;
    }
    if x < SMALLEST_NORMAL {
        return ((x * 512.0 + 0.5) as u8).min(7);
    }
    if x >= 256.0 {
        return UE4M3_MAX;
    }
    // The fourth bit of the mantissa rounds, and may carry into the exponent; what it carries to 256 is 256.
    let rounded = ((x.to_bits() >> 19) + 1) >> 1;
    let bits = (rounded - ((127 - 7) << 3)) as u8;
    if bits >= FROM_256 { UE4M3_MAX } else { bits }
}

/// Half of a UE4M3 number: elements are doubled. The top bit does not count, and 0x7f (NaN) is taken for 0.
#[inline(always)]
fn half_ue4m3(bits: u8) -> f32 {
    if bits == 0x7f {
        return 0.0;
    }
    let (exponent, mantissa) = (u32::from(bits >> 3 & 15), bits & 7);
    match exponent {
        0 => f32::from(mantissa) / 1024.0,
        _ => f32::from_bits((exponent + 127 - 8) << 23 | u32::from(mantissa) << 20),
    }
}

impl BlockNvfp4 {
    /// The elements of a quarter, doubled.
    #[inline(always)]
    fn elements(qs: &[u8; 8]) -> [i8; 16] {
        std::array::from_fn(|i| {
            E2M1_DOUBLED[usize::from(if i < 8 { qs[i] & 15 } else { qs[i - 8] >> 4 })]
        })
    }
}

impl Block for BlockNvfp4 {
    const LEN: usize = 64;

    fn decode(&self, out: &mut [f32]) {
        let quarters = self.d.iter().zip(self.qs.as_chunks().0);
        for ((&d, qs), out) in quarters.zip(out.chunks_exact_mut(16)) {
            let d = half_ue4m3(d);
            for (out, element) in out.iter_mut().zip(Self::elements(qs)) {
                *out = f32::from(element) * d;
            }
        }
    }

    /// Every scale stands for a number.
    fn is_finite(&self) -> bool {
        true
    }
}

impl Encode for BlockNvfp4 {
    const TAKES_IMPORTANCE: bool = false;

    #[inline(always)]
    fn encode_row<L: Lanes>(x: &[f32], _importance: Option<&[f32]>, blocks: &mut [Self]) {
        for (x, block) in x.as_chunks::<64>().0.iter().zip(blocks) {
            let quarters = block.d.iter_mut().zip(block.qs.as_chunks_mut::<8>().0);
            for (x, (d, qs)) in x.as_chunks::<16>().0.iter().zip(quarters) {
                // The largest element is 6.
                *d = to_ue4m3(largest_magnitude(x) / 6.0);
                let codes = e2m1_codes(x, half_ue4m3(*d));
                *qs = std::array::from_fn(|i| codes[i] | codes[i + 8] << 4);
            }
        }
    }
}

impl Dot for BlockNvfp4 {
    /// Two of them to a block.
    type With = [BlockQ8_0; 2];

    fn dot(&self, with: &[BlockQ8_0; 2]) -> f64 {
        let quarters = self.d.iter().zip(self.qs.as_chunks().0).enumerate();
        let products = quarters.map(|(s, (&d, qs))| {
            let y = &with[s / 2];
            let elements = Self::elements(qs).into_iter().map(i32::from);
            let sum = dot_i32(elements, &y.qs[s % 2 * 16..][..16]);
            f64::from(half_ue4m3(d)) * f64::from(y.d.to_f32()) * f64::from(sum)
        });
        products.sum()
    }
}
