//! 2.06 bits per weight: eight-element grid points of 256, 7-bit sign words, a 4-bit scale per 32.

use bytemuck::{Pod, Zeroable};

use crate::half_float::Half;
use crate::registry::{Format, TensorType};
use crate::types::Q8_K;

/// 256 elements in 66 bytes.
///
/// ```text
/// 0      2              66
/// | d    | qs[32] u16   |
///
/// qs   per 32 elements four words: two with four 8-bit grid indices, two with four 7-bit sign words and the scale (bits 28-31);
///      the indices are read as bytes, the signs and the scale as one u32, and that is how they stand in a big-endian file
/// ```
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockIq2Xxs {
    /// Super-block scale.
    pub d: Half,
    /// Indices, sign words and scales (u16, low byte first).
    pub qs: [[u8; 2]; 32],
}

const _: () = assert!(size_of::<BlockIq2Xxs>() == 66);

/// 2.06 bits per weight: eight-element grid points of 256, 7-bit sign words, a 4-bit scale per 32.
pub const IQ2_XXS: TensorType = TensorType(&FORMAT);

static FORMAT: Format = Format {
    id: 16,
    name: "iq2_xxs",
    block_len: 256,
    block_bytes: size_of::<BlockIq2Xxs>(),
    wide_fields: &[
        (0, 2, 1),
        (6, 4, 1),
        (14, 4, 1),
        (22, 4, 1),
        (30, 4, 1),
        (38, 4, 1),
        (46, 4, 1),
        (54, 4, 1),
        (62, 4, 1),
    ],
    quantized: true,
    activation: Some(Q8_K),
    codec: None,
};
