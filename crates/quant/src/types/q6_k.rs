//! Q6_K: 6.56 bits per weight, symmetric 6-bit levels, an 8-bit scale per 16.

use bytemuck::{Pod, Zeroable};

use crate::half_float::Half;
use crate::registry::{Format, TensorType};
use crate::types::Q8_K;

/// 256 elements in 210 bytes.
///
/// ```text
/// 0         128      192           208    210
/// | ql[128] | qh[64] | scales[16]  | d    |
///
/// per half of 128 elements 64 bytes of ql and 32 of qh; for l < 32
/// ql[l]       low nibble element l, high nibble element l + 64 (their low four bits)
/// ql[l + 32]  low nibble element l + 32, high nibble element l + 96
/// qh[l]       high two bits of elements l, l + 32, l + 64, l + 96, low bits first
/// value       (d * scales[element / 16]) * (q - 32)
/// ```
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockQ6K {
    /// Low four bits, two levels per byte.
    pub ql: [u8; 128],
    /// High two bits, four levels per byte.
    pub qh: [u8; 64],
    /// Scale per 16 elements.
    pub scales: [i8; 16],
    /// Scale of the scales.
    pub d: Half,
}

const _: () = assert!(size_of::<BlockQ6K>() == 210);

/// Q6_K: 6.56 bits per weight, symmetric 6-bit levels, an 8-bit scale per 16.
pub const Q6_K: TensorType = TensorType(&FORMAT);

static FORMAT: Format = Format {
    id: 14,
    name: "q6_K",
    block_len: 256,
    block_bytes: size_of::<BlockQ6K>(),
    quantized: true,
    activation: Some(Q8_K),
    codec: None,
};
