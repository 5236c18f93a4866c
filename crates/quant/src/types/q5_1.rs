//! Q5_1: 6 bits per weight, 5-bit levels above a minimum.

use bytemuck::{Pod, Zeroable};

use crate::codec::{Block, Dot, Encode, dot_i32};
use crate::half_float::Half;
use crate::lanes::Lanes;
use crate::levels::{affine_levels, pack_fifth_bits, pack_nibbles, unpack_five_bits};
use crate::policy::{BySize, OwnRecipe, Policy};
use crate::registry::{Format, TensorType};
use crate::search::fit_row_affine;
use crate::types::Q8_1;
use crate::types::q8_1::BlockQ8_1;

/// 32 elements in 24 bytes.
///
/// ```text
/// 0      2      4         8          24
/// | d    | m    | qh[4]   | qs[16]   |
///
/// qs[i]  low nibble: element i, high nibble: element i + 16
/// qh     a u32, bit i: bit 4 of element i; value q * d + m
/// ```
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockQ5_1 {
    /// Scale.
    pub d: Half,
    /// Minimum.
    pub m: Half,
    /// Fifth bits.
    pub qh: [u8; 4],
    /// Low four bits, two levels per byte.
    pub qs: [u8; 16],
}

const _: () = assert!(size_of::<BlockQ5_1>() == 24);

/// Q5_1: 6 bits per weight, 5-bit levels above a minimum.
pub const Q5_1: TensorType = TensorType(&FORMAT);

static FORMAT: Format = Format {
    activation: Some(Q8_1),
    policy: Policy {
        for_cache: true,
        by_size: BySize::ShortRows,
        recipe: Some(OwnRecipe {
            file_type: 9,
            name: "Q5_1",
            help: "6 bits: Q5_0 with a minimum per block",
        }),
        ..Policy::NONE
    },
    ..Format::full::<BlockQ5_1>(7, "q5_1", &[(0, 2, 2), (4, 4, 1)])
};

impl BlockQ5_1 {
    #[inline(always)]
    fn new(d: f32, m: f32, levels: &[u8; 32]) -> Self {
        BlockQ5_1 {
            d: Half::from_f32(d),
            m: Half::from_f32(m),
            qh: pack_fifth_bits(levels),
            qs: pack_nibbles(levels),
        }
    }
}

impl Block for BlockQ5_1 {
    const LEN: usize = 32;

    #[inline(always)]
    fn decode(&self, out: &mut [f32]) {
        let (d, m) = (self.d.to_f32(), self.m.to_f32());
        for (out, q) in out.iter_mut().zip(unpack_five_bits(&self.qs, &self.qh)) {
            *out = f32::from(q) * d + m;
        }
    }

    fn is_finite(&self) -> bool {
        self.d.is_finite() && self.m.is_finite()
    }
}

impl Encode for BlockQ5_1 {
    #[inline(always)]
    fn encode_row<L: Lanes>(x: &[f32], importance: Option<&[f32]>, blocks: &mut [Self]) {
        if let Some(importance) = importance {
            return fit_row_affine::<L>(31, x, importance, |i, d, m, levels| {
                blocks[i] = Self::new(d, m, &levels)
            });
        }
        for (x, block) in x.as_chunks().0.iter().zip(blocks) {
            let (d, m, levels) = affine_levels::<L>(x, 31);
            *block = Self::new(d, m, &levels);
        }
    }
}

impl Dot for BlockQ5_1 {
    type With = BlockQ8_1;

    /// The minimum meets the activation block's stored sum `s`, as in the reference.
    fn dot(&self, with: &BlockQ8_1) -> f64 {
        let levels = unpack_five_bits(&self.qs, &self.qh)
            .into_iter()
            .map(i32::from);
        let scaled = f64::from(self.d.to_f32())
            * f64::from(with.d.to_f32())
            * f64::from(dot_i32(levels, &with.qs));
        scaled + f64::from(self.m.to_f32()) * f64::from(with.s.to_f32())
    }
}
