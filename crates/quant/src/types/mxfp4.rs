//! Microscaling FP4 (OCP): E2M1 elements under a power-of-two scale.

use bytemuck::{Pod, Zeroable};

use crate::registry::{Format, TensorType};
use crate::types::Q8_0;

/// 32 elements in 17 bytes.
///
/// ```text
/// 0      1          17
/// | e    | qs[16]   |
///
/// e      exponent of the scale, bias 127
/// qs[i]  low nibble: element i, high nibble: element i + 16
/// ```
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockMxfp4 {
    /// E8M0 scale.
    pub e: u8,
    /// Two E2M1 codes per byte.
    pub qs: [u8; 16],
}

const _: () = assert!(size_of::<BlockMxfp4>() == 17);

/// Microscaling FP4 (OCP): E2M1 elements under a power-of-two scale.
pub const MXFP4: TensorType = TensorType(&FORMAT);

static FORMAT: Format = Format {
    id: 39,
    name: "mxfp4",
    block_len: 32,
    block_bytes: size_of::<BlockMxfp4>(),
    wide_fields: &[],
    quantized: true,
    activation: Some(Q8_0),
    codec: None,
};
