//! TQ2_0: 2.06 bits per weight, ternary digits in two bits each.

use bytemuck::{Pod, Zeroable};

use crate::codec::{Block, Dot, Encode, dot_i32};
use crate::half_float::Half;
use crate::lanes::Lanes;
use crate::policy::{Policy, Readers};
use crate::registry::{Format, TensorType};
use crate::super_block::{pack_two_bits, unpack_two_bits};
use crate::types::q8_k::BlockQ8K;
use crate::types::tq1_0::ternary_digits;
use crate::types::{Q4_0, Q8_K};

/// 256 elements in 66 bytes.
///
/// ```text
/// 0         64     66
/// | qs[64]  | d    |
///
/// qs   per half of 128 elements 32 bytes; byte l: elements l, l + 32, l + 64, l + 96, low bits first; value (q - 1) * d
/// ```
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockTq2_0 {
    /// Four digits per byte.
    pub qs: [u8; 64],
    /// Scale.
    pub d: Half,
}

const _: () = assert!(size_of::<BlockTq2_0>() == 66);

/// TQ2_0: 2.06 bits per weight, ternary digits in two bits each.
pub const TQ2_0: TensorType = TensorType(&FORMAT);

static FORMAT: Format = Format {
    activation: Some(Q8_K),
    policy: Policy {
        fallback: Some(Q4_0),
        readers: Readers::Newest,
        ..Policy::NONE
    },
    ..Format::full::<BlockTq2_0>(35, "tq2_0", &[(64, 2, 1)])
};

impl Block for BlockTq2_0 {
    const LEN: usize = 256;

    fn decode(&self, out: &mut [f32]) {
        let d = self.d.to_f32();
        for (out, q) in out.iter_mut().zip(unpack_two_bits(&self.qs)) {
            *out = f32::from(q as i8 - 1) * d;
        }
    }

    fn is_finite(&self) -> bool {
        self.d.is_finite()
    }
}

impl Encode for BlockTq2_0 {
    const TAKES_IMPORTANCE: bool = false;

    #[inline(always)]
    fn encode_row<L: Lanes>(x: &[f32], _importance: Option<&[f32]>, blocks: &mut [Self]) {
        for (x, block) in x.as_chunks().0.iter().zip(blocks) {
            let (d, digits) = ternary_digits::<L>(x);
            *block = BlockTq2_0 {
                qs: pack_two_bits(&digits),
                d: Half::from_f32(d),
            };
        }
    }
}

impl Dot for BlockTq2_0 {
    type With = BlockQ8K;

    fn dot(&self, with: &BlockQ8K) -> f64 {
        let levels = unpack_two_bits(&self.qs)
            .into_iter()
            .map(|q| i32::from(q) - 1);
        f64::from(self.d.to_f32()) * f64::from(with.scale()) * f64::from(dot_i32(levels, &with.qs))
    }
}
