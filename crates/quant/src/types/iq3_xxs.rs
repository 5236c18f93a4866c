//! 3.06 bits per weight: four-element grid points of 256, 7-bit sign words, a 4-bit scale per 32.

use bytemuck::{Pod, Zeroable};

use crate::half_float::Half;
use crate::registry::{Format, TensorType};
use crate::types::Q8_K;

/// 256 elements in 98 bytes.
///
/// ```text
/// 0      2                    66                    98
/// | d    | qs[0..64] indices | qs[64..96] u32 x 8 |
///
/// u32  per 32 elements: four 7-bit sign words (bits 0-27), scale (bits 28-31)
/// ```
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockIq3Xxs {
    /// Super-block scale.
    pub d: Half,
    /// Grid indices, then sign words and scales.
    pub qs: [u8; 96],
}

const _: () = assert!(size_of::<BlockIq3Xxs>() == 98);

/// 3.06 bits per weight: four-element grid points of 256, 7-bit sign words, a 4-bit scale per 32.
pub const IQ3_XXS: TensorType = TensorType(&FORMAT);

static FORMAT: Format = Format {
    id: 18,
    name: "iq3_xxs",
    block_len: 256,
    block_bytes: size_of::<BlockIq3Xxs>(),
    wide_fields: &[(0, 2, 1), (66, 4, 8)],
    quantized: true,
    activation: Some(Q8_K),
    codec: None,
};
