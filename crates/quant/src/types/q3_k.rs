//! Q3_K: 3.44 bits per weight, symmetric 3-bit levels, a 6-bit scale per 16.

use bytemuck::{Pod, Zeroable};

use crate::half_float::Half;
use crate::registry::{Format, TensorType};
use crate::types::Q8_K;

/// 256 elements in 110 bytes.
///
/// ```text
/// 0           32       96           108    110
/// | hmask[32] | qs[64] | scales[12] | d    |
///
/// hmask[l]   bit g: bit 2 of element 32g + l
/// qs         low two bits; per half of 128 elements 32 bytes; byte l: elements l, l + 32, l + 64, l + 96
/// scales     sc of elements 16j..16j+15, plus 32: low four bits in the nibbles of bytes 0-7 (j < 8 low, else high),
///            high two bits in byte 8 + j % 4 at 2 * (j / 4)
/// value      (d * sc) * (q - 4)
/// ```
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockQ3K {
    /// High bit of each level.
    pub hmask: [u8; 32],
    /// Low two bits, four levels per byte.
    pub qs: [u8; 64],
    /// Sixteen 6-bit scales.
    pub scales: [u8; 12],
    /// Scale of the scales.
    pub d: Half,
}

const _: () = assert!(size_of::<BlockQ3K>() == 110);

/// Q3_K: 3.44 bits per weight, symmetric 3-bit levels, a 6-bit scale per 16.
pub const Q3_K: TensorType = TensorType(&FORMAT);

static FORMAT: Format = Format {
    id: 11,
    name: "q3_K",
    block_len: 256,
    block_bytes: size_of::<BlockQ3K>(),
    quantized: true,
    activation: Some(Q8_K),
    codec: None,
};
