//! 2.31 bits per weight: eight-element grid points of 512, 7-bit sign words, a 4-bit scale per 16.

use bytemuck::{Pod, Zeroable};

use crate::half_float::Half;
use crate::registry::{Format, TensorType};
use crate::types::Q8_K;

/// 256 elements in 74 bytes.
///
/// ```text
/// 0      2              66          74
/// | d    | qs[32] u16   | scales[8] |
///
/// qs   per 8 elements: grid index (bits 0-8), sign word (bits 9-15)
/// ```
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockIq2Xs {
    /// Super-block scale.
    pub d: Half,
    /// Index and sign word per 8 elements (u16, low byte first).
    pub qs: [[u8; 2]; 32],
    /// One nibble per 16 elements.
    pub scales: [u8; 8],
}

const _: () = assert!(size_of::<BlockIq2Xs>() == 74);

/// 2.31 bits per weight: eight-element grid points of 512, 7-bit sign words, a 4-bit scale per 16.
pub const IQ2_XS: TensorType = TensorType(&FORMAT);

static FORMAT: Format = Format {
    id: 17,
    name: "iq2_xs",
    block_len: 256,
    block_bytes: size_of::<BlockIq2Xs>(),
    wide_fields: &[(0, 2, 1), (2, 2, 32)],
    quantized: true,
    activation: Some(Q8_K),
    codec: None,
};
