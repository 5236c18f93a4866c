//! 64-bit signed integers: data that a model file may carry, never computed with.

use crate::policy::Policy;
use crate::registry::{Format, TensorType};

/// 64-bit signed integers, low byte first.
pub const I64: TensorType = TensorType(&FORMAT);

static FORMAT: Format = Format {
    id: 27,
    name: "i64",
    block_len: 1,
    block_bytes: size_of::<i64>(),
    wide_fields: &[(0, 8, 1)],
    quantized: false,
    activation: None,
    policy: Policy::NONE,
    codec: None,
};
