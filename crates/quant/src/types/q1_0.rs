//! 1.125 bits per weight: signs under one scale.

use bytemuck::{Pod, Zeroable};

use crate::half_float::Half;
use crate::registry::{Format, TensorType};
use crate::types::Q8_0;

/// 128 elements in 18 bytes.
///
/// ```text
/// 0      2          18
/// | d    | qs[16]   |
///
/// bit i  set: +d, clear: -d
/// ```
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockQ1_0 {
    /// Scale.
    pub d: Half,
    /// One sign bit per element.
    pub qs: [u8; 16],
}

const _: () = assert!(size_of::<BlockQ1_0>() == 18);

/// 1.125 bits per weight: signs under one scale.
pub const Q1_0: TensorType = TensorType(&FORMAT);

static FORMAT: Format = Format {
    id: 41,
    name: "q1_0",
    block_len: 128,
    block_bytes: size_of::<BlockQ1_0>(),
    wide_fields: &[(0, 2, 1)],
    quantized: true,
    activation: Some(Q8_0),
    codec: None,
};
