//! 4.5 bits per weight: 4-bit indices into a non-linear table of 16 values.

use bytemuck::{Pod, Zeroable};

use crate::half_float::Half;
use crate::registry::{Format, TensorType};
use crate::types::Q8_0;

/// 32 elements in 18 bytes.
///
/// ```text
/// 0      2          18
/// | d    | qs[16]   |
///
/// qs[i]  low nibble: element i, high nibble: element i + 16
/// ```
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockIq4Nl {
    /// Scale.
    pub d: Half,
    /// Two table indices per byte.
    pub qs: [u8; 16],
}

const _: () = assert!(size_of::<BlockIq4Nl>() == 18);

/// 4.5 bits per weight: 4-bit indices into a non-linear table of 16 values.
pub const IQ4_NL: TensorType = TensorType(&FORMAT);

static FORMAT: Format = Format {
    id: 20,
    name: "iq4_nl",
    block_len: 32,
    block_bytes: size_of::<BlockIq4Nl>(),
    wide_fields: &[(0, 2, 1)],
    quantized: true,
    activation: Some(Q8_0),
    codec: None,
};
