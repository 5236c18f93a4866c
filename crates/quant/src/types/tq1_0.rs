//! TQ1_0: 1.69 bits per weight, five ternary digits per byte.

use bytemuck::{Pod, Zeroable};

use crate::codec::{Block, Dot, Encode, dot_i32};
use crate::half_float::Half;
use crate::lanes::{Lanes, map_levels};
use crate::levels::{largest_magnitude, reciprocal, round_away};
use crate::policy::{Policy, Readers};
use crate::registry::{Format, TensorType};
use crate::types::q8_k::BlockQ8K;
use crate::types::{Q4_0, Q8_K};

/// 256 elements in 54 bytes.
///
/// ```text
/// 0         48       52     54
/// | qs[48]  | qh[4]  | d    |
///
/// qs   five digits per byte: bytes 0-31, digit n, element 32n + byte; bytes 32-47: 160 + 16n + byte
/// qh   four digits per byte: element 240 + 4n + byte
/// ```
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockTq1_0 {
    /// Five digits per byte.
    pub qs: [u8; 48],
    /// Four digits per byte.
    pub qh: [u8; 4],
    /// Scale.
    pub d: Half,
}

const _: () = assert!(size_of::<BlockTq1_0>() == 54);

/// TQ1_0: 1.69 bits per weight, five ternary digits per byte.
pub const TQ1_0: TensorType = TensorType(&FORMAT);

static FORMAT: Format = Format {
    activation: Some(Q8_K),
    policy: Policy {
        fallback: Some(Q4_0),
        readers: Readers::Newest,
        ..Policy::NONE
    },
    ..Format::full::<BlockTq1_0>(34, "tq1_0", &[(52, 2, 1)])
};

/// Powers of three: factor `n` moves digit `n` of a byte to its top.
const POWERS: [u8; 5] = [1, 3, 9, 27, 81];

/// Values -1..=1.
#[inline(always)]
fn digit(byte: u8, n: usize) -> i8 {
    ((u16::from(byte.wrapping_mul(POWERS[n])) * 3) >> 8) as i8 - 1
}

/// Five digits as a fraction of 3^5, rounded up to a fraction of 256.
#[inline(always)]
fn pack(number: u8) -> u8 {
    (u32::from(number) * 256).div_ceil(243) as u8
}

impl BlockTq1_0 {
    /// Values -1..=1.
    #[inline(always)]
    fn digits(&self) -> [i8; 256] {
        let mut digits = [0; 256];
        let mut rest = &mut digits[..];
        for (bytes, n_digits) in [(&self.qs[..32], 5), (&self.qs[32..], 5), (&self.qh[..], 4)] {
            let (part, others) = rest.split_at_mut(n_digits * bytes.len());
            for (n, out) in part.chunks_exact_mut(bytes.len()).enumerate() {
                for (out, &byte) in out.iter_mut().zip(bytes) {
                    *out = digit(byte, n);
                }
            }
            rest = others;
        }
        digits
    }
}

impl Block for BlockTq1_0 {
    const LEN: usize = 256;

    fn decode(&self, out: &mut [f32]) {
        let d = self.d.to_f32();
        for (out, digit) in out.iter_mut().zip(self.digits()) {
            *out = f32::from(digit) * d;
        }
    }

    fn is_finite(&self) -> bool {
        self.d.is_finite()
    }
}

/// Scale and digits 0..=2 of 256 values; what is no digit (of a block that is all subnormal or holds an infinity) is kept
/// modulo 256.
#[inline(always)]
pub(crate) fn ternary_digits<L: Lanes>(x: &[f32; 256]) -> (f32, [u8; 256]) {
    let d = largest_magnitude(x);
    let inverse = L::splat(reciprocal(d));
    (
        d,
        map_levels(x, |x: L| L::add_int(round_away(x * inverse), 1)),
    )
}

impl Encode for BlockTq1_0 {
    const TAKES_IMPORTANCE: bool = false;

    #[inline(always)]
    fn encode_row<L: Lanes>(x: &[f32], _importance: Option<&[f32]>, blocks: &mut [Self]) {
        for (x, block) in x.as_chunks().0.iter().zip(blocks) {
            let (d, digits) = ternary_digits::<L>(x);
            let number = |first: usize, step: usize, n_digits: usize| {
                (0..n_digits).fold(0u8, |number, n| {
                    number
                        .wrapping_mul(3)
                        .wrapping_add(digits[first + n * step])
                })
            };
            *block = BlockTq1_0 {
                qs: std::array::from_fn(|i| {
                    pack(if i < 32 {
                        number(i, 32, 5)
                    } else {
                        number(128 + i, 16, 5)
                    })
                }),
                // The fifth digit is 0.
                qh: std::array::from_fn(|i| pack(number(240 + i, 4, 4).wrapping_mul(3))),
                d: Half::from_f32(d),
            };
        }
    }
}

impl Dot for BlockTq1_0 {
    type With = BlockQ8K;

    fn dot(&self, with: &BlockQ8K) -> f64 {
        f64::from(self.d.to_f32())
            * f64::from(with.scale())
            * f64::from(dot_i32(self.digits().into_iter().map(i32::from), &with.qs))
    }
}
