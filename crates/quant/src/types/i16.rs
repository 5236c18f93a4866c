//! 16-bit signed integers: data that a model file may carry, never computed with.

use crate::policy::Policy;
use crate::registry::{Format, TensorType};

/// 16-bit signed integers, low byte first.
pub const I16: TensorType = TensorType(&FORMAT);

static FORMAT: Format = Format {
    id: 25,
    name: "i16",
    block_len: 1,
    block_bytes: size_of::<i16>(),
    wide_fields: &[(0, 2, 1)],
    quantized: false,
    activation: None,
    policy: Policy::NONE,
    codec: None,
};
