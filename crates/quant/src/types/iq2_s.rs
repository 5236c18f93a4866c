//! 2.56 bits per weight: eight-element grid points of 1024, explicit signs, a 4-bit scale per 16.

use bytemuck::{Pod, Zeroable};

use crate::half_float::Half;
use crate::registry::{Format, TensorType};
use crate::types::Q8_K;

/// 256 elements in 82 bytes.
///
/// ```text
/// 0      2          66         74          82
/// | d    | qs[64]   | qh[8]    | scales[8] |
///
/// qs   32 bytes of low index bits, then 32 bytes of signs (one per 8 elements)
/// qh   two high index bits per 8 elements
/// ```
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockIq2S {
    /// Super-block scale.
    pub d: Half,
    /// Low index bits, then signs.
    pub qs: [u8; 64],
    /// High index bits.
    pub qh: [u8; 8],
    /// One nibble per 16 elements.
    pub scales: [u8; 8],
}

const _: () = assert!(size_of::<BlockIq2S>() == 82);

/// 2.56 bits per weight: eight-element grid points of 1024, explicit signs, a 4-bit scale per 16.
pub const IQ2_S: TensorType = TensorType(&FORMAT);

static FORMAT: Format = Format {
    id: 22,
    name: "iq2_s",
    block_len: 256,
    block_bytes: size_of::<BlockIq2S>(),
    wide_fields: &[(0, 2, 1)],
    quantized: true,
    activation: Some(Q8_K),
    codec: None,
};
