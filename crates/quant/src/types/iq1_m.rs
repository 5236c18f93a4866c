//! 1.75 bits per weight: eight-element ternary grid points, a shift and a 3-bit scale per 16.

use bytemuck::{Pod, Zeroable};

use crate::registry::{Format, TensorType};
use crate::types::Q8_K;

/// 256 elements in 56 bytes.
///
/// ```text
/// 0          32         48          56
/// | qs[32]   | qh[16]  | scales[8]  |
///
/// qs, qh     11-bit grid index of each 8 elements: 8 low bits in qs, 3 high bits in a nibble of qh; bit 3 of the nibble: sign of the shift
/// scales     four u16, 3-bit scales in the low 12 bits; their top nibbles together are the binary16 super-block scale
/// ```
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockIq1M {
    /// Low bits of the grid indices.
    pub qs: [u8; 32],
    /// High bits of the grid indices, and shift signs.
    pub qh: [u8; 16],
    /// Sub-block scales and, spread over the top nibbles, the super-block scale.
    pub scales: [u8; 8],
}

const _: () = assert!(size_of::<BlockIq1M>() == 56);

/// 1.75 bits per weight: eight-element ternary grid points, a shift and a 3-bit scale per 16.
pub const IQ1_M: TensorType = TensorType(&FORMAT);

static FORMAT: Format = Format {
    id: 29,
    name: "iq1_m",
    block_len: 256,
    block_bytes: size_of::<BlockIq1M>(),
    wide_fields: &[(48, 2, 4)],
    quantized: true,
    activation: Some(Q8_K),
    codec: None,
};
