//! Q2_K: 2.625 bits per weight, 2-bit levels above a minimum, a 4-bit scale and minimum per 16.

use bytemuck::{Pod, Zeroable};

use crate::half_float::Half;
use crate::registry::{Format, TensorType};
use crate::types::Q8_K;

/// 256 elements in 84 bytes.
///
/// ```text
/// 0            16        80     82     84
/// | scales[16] | qs[64] | d    | dmin |
///
/// scales[j]  low nibble sc: scale, high nibble mn: minimum of elements 16j..16j+15
/// qs         per half of 128 elements 32 bytes; byte l: elements l, l + 32, l + 64, l + 96, low bits first
/// value      (d * sc) * q - dmin * mn
/// ```
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockQ2K {
    /// Scale and minimum per 16 elements.
    pub scales: [u8; 16],
    /// Four levels per byte.
    pub qs: [u8; 64],
    /// Scale of the scales.
    pub d: Half,
    /// Scale of the minima.
    pub dmin: Half,
}

const _: () = assert!(size_of::<BlockQ2K>() == 84);

/// Q2_K: 2.625 bits per weight, 2-bit levels above a minimum, a 4-bit scale and minimum per 16.
pub const Q2_K: TensorType = TensorType(&FORMAT);

static FORMAT: Format = Format {
    id: 10,
    name: "q2_K",
    block_len: 256,
    block_bytes: size_of::<BlockQ2K>(),
    quantized: true,
    activation: Some(Q8_K),
    codec: None,
};
