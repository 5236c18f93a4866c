//! Q4_K: 4.5 bits per weight, 4-bit levels above a minimum, a 6-bit scale and minimum per 32.

use bytemuck::{Pod, Zeroable};

use crate::half_float::Half;
use crate::registry::{Format, TensorType};
use crate::types::Q8_K;

/// 256 elements in 144 bytes.
///
/// ```text
/// 0      2      4            16          144
/// | d    | dmin | scales[12] | qs[128]   |
///
/// scales  sc and mn of elements 32j..32j+31, packed as crate::super_block tells
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
    id: 12,
    name: "q4_K",
    block_len: 256,
    block_bytes: size_of::<BlockQ4K>(),
    quantized: true,
    activation: Some(Q8_K),
    codec: None,
};
