//! Q5_0: 5.5 bits per weight, symmetric 5-bit levels under one scale.

use bytemuck::{Pod, Zeroable};

use crate::codec::{Block, Dot, Encode, dot_i32};
use crate::half_float::Half;
use crate::lanes::Lanes;
use crate::levels::{pack_fifth_bits, pack_nibbles, symmetric_levels, unpack_five_bits};
use crate::policy::{BySize, Policy};
use crate::registry::{Format, TensorType};
use crate::search::fit_row_symmetric;
use crate::types::Q8_0;
use crate::types::q8_0::BlockQ8_0;

/// 32 elements in 22 bytes.
///
/// ```text
/// 0      2         6          22
/// | d    | qh[4]   | qs[16]   |
///
/// qs[i]  low nibble: element i, high nibble: element i + 16
/// qh     a u32, bit i: bit 4 of element i; value (q - 16) * d
/// ```
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockQ5_0 {
    /// Scale.
    pub d: Half,
    /// Fifth bits.
    pub qh: [u8; 4],
    /// Low four bits, two levels per byte.
    pub qs: [u8; 16],
}

const _: () = assert!(size_of::<BlockQ5_0>() == 22);

/// Q5_0: 5.5 bits per weight, symmetric 5-bit levels under one scale.
pub const Q5_0: TensorType = TensorType(&FORMAT);

static FORMAT: Format = Format {
    activation: Some(Q8_0),
    policy: Policy {
        for_cache: true,
        by_size: BySize::ShortRows,
        ..Policy::NONE
    },
    ..Format::full::<BlockQ5_0>(6, "q5_0", &[(0, 2, 1), (2, 4, 1)])
};

impl BlockQ5_0 {
    #[inline(always)]
    fn new(d: f32, levels: &[u8; 32]) -> Self {
        BlockQ5_0 {
            d: Half::from_f32(d),
            qh: pack_fifth_bits(levels),
            qs: pack_nibbles(levels),
        }
    }
}

impl Block for BlockQ5_0 {
    const LEN: usize = 32;

    #[inline(always)]
    fn decode(&self, out: &mut [f32]) {
        let d = self.d.to_f32();
        for (out, q) in out.iter_mut().zip(unpack_five_bits(&self.qs, &self.qh)) {
            *out = (f32::from(q) - 16.0) * d;
        }
    }

    fn is_finite(&self) -> bool {
        self.d.is_finite()
    }
}

impl Encode for BlockQ5_0 {
    #[inline(always)]
    fn encode_row<L: Lanes>(x: &[f32], importance: Option<&[f32]>, blocks: &mut [Self]) {
        if let Some(importance) = importance {
            return fit_row_symmetric::<L>(16, x, importance, |i, d, levels| {
                blocks[i] = Self::new(d, &levels)
            });
        }
        for (x, block) in x.as_chunks().0.iter().zip(blocks) {
            let (d, levels) = symmetric_levels::<L>(x, 16);
            *block = Self::new(d, &levels);
        }
    }
}

impl Dot for BlockQ5_0 {
    type With = BlockQ8_0;

    fn dot(&self, with: &BlockQ8_0) -> f64 {
        let levels = unpack_five_bits(&self.qs, &self.qh)
            .into_iter()
            .map(|q| i32::from(q) - 16);
        f64::from(self.d.to_f32())
            * f64::from(with.d.to_f32())
            * f64::from(dot_i32(levels, &with.qs))
    }
}
