//! Q4_K: 4.5 bits per weight, 4-bit levels above a minimum, a 6-bit scale and minimum per 32.

use bytemuck::{Pod, Zeroable};

use crate::codec::{Block, Dot, Encode};
use crate::half_float::Half;
use crate::lanes::Lanes;
use crate::policy::{BySize, Policy};
use crate::registry::{Format, TensorType};
use crate::search::AffineSearch;
use crate::super_block::{
    decode_affine, dot_affine, encode_affine, pack_nibble_pairs, unpack_nibble_pairs,
};
use crate::types::q8_k::BlockQ8K;
use crate::types::{Q5_0, Q8_K};

/// 256 elements in 144 bytes.
///
/// ```text
/// 0      2      4            16          144
/// | d    | dmin | scales[12] | qs[128]   |
///
/// scales  sc and mn of elements 32j..32j+31, packed in six bits (see `super_block.rs`)
/// qs      per 64 elements 32 bytes; byte l: low nibble element l, high nibble element l + 32
/// value   (d * sc) * q - dmin * mn
/// ```
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockQ4K {
    /// Scale of the scales.
    pub d: Half,
    /// Scale of the minima.
    pub dmin: Half,
    /// Eight 6-bit scales and eight 6-bit minima.
    pub scales: [u8; 12],
    /// Two levels per byte.
    pub qs: [u8; 128],
}

const _: () = assert!(size_of::<BlockQ4K>() == 144);

/// Q4_K: 4.5 bits per weight, 4-bit levels above a minimum, a 6-bit scale and minimum per 32.
pub const Q4_K: TensorType = TensorType(&FORMAT);

static FORMAT: Format = Format {
    activation: Some(Q8_K),
    policy: Policy {
        fallback: Some(Q5_0),
        by_size: BySize::AnyRows,
        ..Policy::NONE
    },
    ..Format::full::<BlockQ4K>(12, "q4_K", &[(0, 2, 2)])
};

const SEARCH: AffineSearch = AffineSearch {
    n_max: 15,
    first: -1.0,
    step: 0.1,
    n_steps: 20,
    absolute: false,
    saturate: false,
};

impl Block for BlockQ4K {
    const LEN: usize = 256;

    fn decode(&self, out: &mut [f32]) {
        decode_affine(
            self.d,
            self.dmin,
            &self.scales,
            &unpack_nibble_pairs(&self.qs),
            out,
        );
    }

    fn is_finite(&self) -> bool {
        self.d.is_finite() && self.dmin.is_finite()
    }
}

impl Encode for BlockQ4K {
    #[inline(always)]
    fn encode_row<L: Lanes>(x: &[f32], importance: Option<&[f32]>, blocks: &mut [Self]) {
        for (i, (x, block)) in x.chunks_exact(256).zip(blocks).enumerate() {
            let encoded =
                encode_affine::<L>(x, importance.map(|row| &row[256 * i..][..256]), &SEARCH);
            *block = BlockQ4K {
                d: encoded.d,
                dmin: encoded.dmin,
                scales: encoded.scales,
                qs: pack_nibble_pairs(&encoded.levels),
            };
        }
    }
}

impl Dot for BlockQ4K {
    type With = BlockQ8K;

    fn dot(&self, with: &BlockQ8K) -> f64 {
        dot_affine(
            self.d,
            self.dmin,
            &self.scales,
            &unpack_nibble_pairs(&self.qs),
            with,
        )
    }
}
