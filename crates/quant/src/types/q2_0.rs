//! 2.25 bits per weight: 2-bit levels under one scale.

use bytemuck::{Pod, Zeroable};

use crate::half_float::Half;
use crate::registry::{Format, TensorType};
use crate::types::Q8_0;

/// 64 elements in 18 bytes.
///
/// ```text
/// 0      2          18
/// | d    | qs[16]   |
///
/// qs[i]  elements 4i..4i+3, low bits first; value (q - 1) * d
/// ```
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockQ2_0 {
    /// Scale.
    pub d: Half,
    /// Four levels per byte.
    pub qs: [u8; 16],
}

const _: () = assert!(size_of::<BlockQ2_0>() == 18);

/// 2.25 bits per weight: 2-bit levels under one scale.
pub const Q2_0: TensorType = TensorType(&FORMAT);

static FORMAT: Format = Format {
    id: 42,
    name: "q2_0",
    block_len: 64,
    block_bytes: size_of::<BlockQ2_0>(),
    wide_fields: &[(0, 2, 1)],
    quantized: true,
    activation: Some(Q8_0),
    codec: None,
};
