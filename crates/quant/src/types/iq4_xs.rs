//! 4.25 bits per weight: 4-bit indices into a non-linear table, a 6-bit scale per 32.

use bytemuck::{Pod, Zeroable};

use crate::half_float::Half;
use crate::registry::{Format, TensorType};
use crate::types::Q8_K;

/// 256 elements in 136 bytes.
///
/// ```text
/// 0      2           4              8            136
/// | d    | scales_h  | scales_l[4]  | qs[128]   |
///
/// scale j   nibble j of scales_l, two bits at 2j of scales_h, minus 32
/// ```
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockIq4Xs {
    /// Super-block scale.
    pub d: Half,
    /// Two high bits per sub-block scale (u16, low byte first).
    pub scales_h: [u8; 2],
    /// Four low bits per sub-block scale.
    pub scales_l: [u8; 4],
    /// Two table indices per byte.
    pub qs: [u8; 128],
}

const _: () = assert!(size_of::<BlockIq4Xs>() == 136);

/// 4.25 bits per weight: 4-bit indices into a non-linear table, a 6-bit scale per 32.
pub const IQ4_XS: TensorType = TensorType(&FORMAT);

static FORMAT: Format = Format {
    id: 23,
    name: "iq4_xs",
    block_len: 256,
    block_bytes: size_of::<BlockIq4Xs>(),
    wide_fields: &[(0, 2, 2)],
    quantized: true,
    activation: Some(Q8_K),
    codec: None,
};
