//! 1.56 bits per weight: eight-element ternary grid points, a shift and a 3-bit scale per 32.

use bytemuck::{Pod, Zeroable};

use crate::half_float::Half;
use crate::registry::{Format, TensorType};
use crate::types::Q8_K;

/// 256 elements in 50 bytes.
///
/// ```text
/// 0      2          34          50
/// | d    | qs[32]   | qh[8] u16  |
///
/// qs   low 8 bits of the grid index of each 8 elements
/// qh   per 32 elements: four 3-bit high parts, 3-bit scale (bits 12-14), sign of the shift (bit 15)
/// ```
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockIq1S {
    /// Super-block scale.
    pub d: Half,
    /// Low bits of the grid indices.
    pub qs: [u8; 32],
    /// High bits, scale and shift sign per 32 elements (u16, low byte first).
    pub qh: [[u8; 2]; 8],
}

const _: () = assert!(size_of::<BlockIq1S>() == 50);

/// 1.56 bits per weight: eight-element ternary grid points, a shift and a 3-bit scale per 32.
pub const IQ1_S: TensorType = TensorType(&FORMAT);

static FORMAT: Format = Format {
    id: 19,
    name: "iq1_s",
    block_len: 256,
    block_bytes: size_of::<BlockIq1S>(),
    wide_fields: &[(0, 2, 1), (34, 2, 8)],
    quantized: true,
    activation: Some(Q8_K),
    codec: None,
};
