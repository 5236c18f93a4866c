//! 32-bit signed integers: data that a model file may carry, never computed with.

use crate::policy::Policy;
use crate::registry::{Format, TensorType};

/// 32-bit signed integers, low byte first.
pub const I32: TensorType = TensorType(&FORMAT);

static FORMAT: Format = Format {
    id: 26,
    name: "i32",
    block_len: 1,
    block_bytes: size_of::<i32>(),
    wide_fields: &[(0, 4, 1)],
    quantized: false,
    activation: None,
    policy: Policy::NONE,
    codec: None,
};
