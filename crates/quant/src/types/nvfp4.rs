//! NVIDIA FP4: E2M1 elements, a UE4M3 scale per 16.

use bytemuck::{Pod, Zeroable};

use crate::registry::{Format, TensorType};
use crate::types::Q8_0;

/// 64 elements in 36 bytes.
///
/// ```text
/// 0        4          36
/// | d[4]   | qs[32]   |
///
/// d[s]          scale of elements 16s..16s+15
/// qs[8s + i]    low nibble: element 16s + i, high nibble: element 16s + i + 8
/// ```
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockNvfp4 {
    /// UE4M3 scales.
    pub d: [u8; 4],
    /// Two E2M1 codes per byte.
    pub qs: [u8; 32],
}

const _: () = assert!(size_of::<BlockNvfp4>() == 36);

/// NVIDIA FP4: E2M1 elements, a UE4M3 scale per 16.
pub const NVFP4: TensorType = TensorType(&FORMAT);

static FORMAT: Format = Format {
    id: 40,
    name: "nvfp4",
    block_len: 64,
    block_bytes: size_of::<BlockNvfp4>(),
    wide_fields: &[],
    quantized: true,
    activation: Some(Q8_0),
    codec: None,
};
