//! 1.69 bits per weight: five ternary digits per byte.

use bytemuck::{Pod, Zeroable};

use crate::half_float::Half;
use crate::registry::{Format, TensorType};
use crate::types::Q8_K;

/// 256 elements in 54 bytes.
///
/// ```text
/// 0         48       52     54
/// | qs[48]  | qh[4]  | d    |
///
/// qs   five digits per byte: bytes 0-31, digit n, element 32n + byte; bytes 32-47: 160 + 16n + byte
/// qh   four digits per byte: element 240 + 4n + byte
/// ```
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockTq1_0 {
    /// Five digits per byte.
    pub qs: [u8; 48],
    /// Four digits per byte.
    pub qh: [u8; 4],
    /// Scale.
    pub d: Half,
}

const _: () = assert!(size_of::<BlockTq1_0>() == 54);

/// 1.69 bits per weight: five ternary digits per byte.
pub const TQ1_0: TensorType = TensorType(&FORMAT);

static FORMAT: Format = Format {
    id: 34,
    name: "tq1_0",
    block_len: 256,
    block_bytes: size_of::<BlockTq1_0>(),
    wide_fields: &[(52, 2, 1)],
    quantized: true,
    activation: Some(Q8_K),
    codec: None,
};
