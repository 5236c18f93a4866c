//! 3.44 bits per weight: four-element grid points of 512, explicit signs, a 4-bit scale per 32.

use bytemuck::{Pod, Zeroable};

use crate::half_float::Half;
use crate::registry::{Format, TensorType};
use crate::types::Q8_K;

/// 256 elements in 110 bytes.
///
/// ```text
/// 0      2         66       74          106        110
/// | d    | qs[64] | qh[8]  | signs[32] | scales[4] |
/// ```
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockIq3S {
    /// Super-block scale.
    pub d: Half,
    /// Low 8 index bits per 4 elements.
    pub qs: [u8; 64],
    /// High index bit per 4 elements.
    pub qh: [u8; 8],
    /// One sign bit per element.
    pub signs: [u8; 32],
    /// One nibble per 32 elements.
    pub scales: [u8; 4],
}

const _: () = assert!(size_of::<BlockIq3S>() == 110);

/// 3.44 bits per weight: four-element grid points of 512, explicit signs, a 4-bit scale per 32.
pub const IQ3_S: TensorType = TensorType(&FORMAT);

static FORMAT: Format = Format {
    id: 21,
    name: "iq3_s",
    block_len: 256,
    block_bytes: size_of::<BlockIq3S>(),
    wide_fields: &[(0, 2, 1)],
    quantized: true,
    activation: Some(Q8_K),
    codec: None,
};
