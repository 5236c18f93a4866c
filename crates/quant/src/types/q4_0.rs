//! Q4_0: 4.5 bits per weight, symmetric 4-bit levels under one scale.

use bytemuck::{Pod, Zeroable};

use crate::codec::{Block, Dot, Encode, dot_i32};
use crate::half_float::Half;
use crate::lanes::Lanes;
use crate::levels::{pack_nibbles, symmetric_levels, unpack_nibbles};
use crate::policy::{BySize, Policy};
use crate::registry::{Format, TensorType};
use crate::search::fit_row_symmetric;
use crate::types::Q8_0;
use crate::types::q8_0::BlockQ8_0;

/// 32 elements in 18 bytes.
///
/// ```text
/// 0      2          18
/// | d    | qs[16]   |
///
/// qs[i]  low nibble: element i, high nibble: element i + 16; value (q - 8) * d
/// ```
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockQ4_0 {
    /// Scale.
    pub d: Half,
    /// Two levels per byte.
    pub qs: [u8; 16],
}

const _: () = assert!(size_of::<BlockQ4_0>() == 18);

/// Q4_0: 4.5 bits per weight, symmetric 4-bit levels under one scale.
pub const Q4_0: TensorType = TensorType(&FORMAT);

static FORMAT: Format = Format {
    activation: Some(Q8_0),
    policy: Policy {
        for_cache: true,
        by_size: BySize::ShortRows,
        ..Policy::NONE
    },
    ..Format::full::<BlockQ4_0>(2, "q4_0", &[(0, 2, 1)])
};

impl BlockQ4_0 {
    #[inline(always)]
    fn new(d: f32, levels: &[u8; 32]) -> Self {
        BlockQ4_0 {
            d: Half::from_f32(d),
            qs: pack_nibbles(levels),
        }
    }
}

impl Block for BlockQ4_0 {
    const LEN: usize = 32;

    #[inline(always)]
    fn decode(&self, out: &mut [f32]) {
        let d = self.d.to_f32();
        for (out, q) in out.iter_mut().zip(unpack_nibbles(&self.qs)) {
            *out = (f32::from(q) - 8.0) * d;
        }
    }

    fn is_finite(&self) -> bool {
        self.d.is_finite()
    }
}

impl Encode for BlockQ4_0 {
    #[inline(always)]
    fn encode_row<L: Lanes>(x: &[f32], importance: Option<&[f32]>, blocks: &mut [Self]) {
        if let Some(importance) = importance {
            return fit_row_symmetric::<L>(8, x, importance, |i, d, levels| {
                blocks[i] = Self::new(d, &levels)
            });
        }
        for (x, block) in x.as_chunks().0.iter().zip(blocks) {
            let (d, levels) = symmetric_levels::<L>(x, 8);
            *block = Self::new(d, &levels);
        }
    }
}

impl Dot for BlockQ4_0 {
    type With = BlockQ8_0;

    fn dot(&self, with: &BlockQ8_0) -> f64 {
        let levels = unpack_nibbles(&self.qs)
            .into_iter()
            .map(|q| i32::from(q) - 8);
        f64::from(self.d.to_f32())
            * f64::from(with.d.to_f32())
            * f64::from(dot_i32(levels, &with.qs))
    }
}
