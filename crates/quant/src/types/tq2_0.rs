//! 2.06 bits per weight: ternary digits in two bits each.

use bytemuck::{Pod, Zeroable};

use crate::half_float::Half;
use crate::registry::{Format, TensorType};
use crate::types::Q8_K;

/// 256 elements in 66 bytes.
///
/// ```text
/// 0         64     66
/// | qs[64]  | d    |
///
/// qs   per half of 128 elements 32 bytes; byte l: elements l, l + 32, l + 64, l + 96, low bits first; value (q - 1) * d
/// ```
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockTq2_0 {
    /// Four digits per byte.
    pub qs: [u8; 64],
    /// Scale.
    pub d: Half,
}

const _: () = assert!(size_of::<BlockTq2_0>() == 66);

/// 2.06 bits per weight: ternary digits in two bits each.
pub const TQ2_0: TensorType = TensorType(&FORMAT);

static FORMAT: Format = Format {
    id: 35,
    name: "tq2_0",
    block_len: 256,
    block_bytes: size_of::<BlockTq2_0>(),
    wide_fields: &[(64, 2, 1)],
    quantized: true,
    activation: Some(Q8_K),
    codec: None,
};
