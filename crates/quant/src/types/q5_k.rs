//! Q5_K: 5.5 bits per weight, 5-bit levels above a minimum, a 6-bit scale and minimum per 32.

use bytemuck::{Pod, Zeroable};

use crate::half_float::Half;
use crate::registry::{Format, TensorType};
use crate::types::Q8_K;

/// 256 elements in 176 bytes.
///
/// ```text
/// 0      2      4            16       48          176
/// | d    | dmin | scales[12] | qh[32] | qs[128]   |
///
/// scales  sc and mn of elements 32j..32j+31, packed as crate::super_block tells
/// qh[l]   bit g: bit 4 of element 32g + l
/// qs      low four bits; per 64 elements 32 bytes; byte l: low nibble element l, high nibble element l + 32
/// value   (d * sc) * q - dmin * mn
/// ```
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockQ5K {
    /// Scale of the scales.
    pub d: Half,
    /// Scale of the minima.
    pub dmin: Half,
    /// Eight 6-bit scales and eight 6-bit minima.
    pub scales: [u8; 12],
    /// Fifth bits.
    pub qh: [u8; 32],
    /// Low four bits, two levels per byte.
    pub qs: [u8; 128],
}

const _: () = assert!(size_of::<BlockQ5K>() == 176);

/// Q5_K: 5.5 bits per weight, 5-bit levels above a minimum, a 6-bit scale and minimum per 32.
pub const Q5_K: TensorType = TensorType(&FORMAT);

static FORMAT: Format = Format {
    id: 13,
    name: "q5_K",
    block_len: 256,
    block_bytes: size_of::<BlockQ5K>(),
    quantized: true,
    activation: Some(Q8_K),
    codec: None,
};
