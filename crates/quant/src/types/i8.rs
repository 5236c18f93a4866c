//! 8-bit signed integers: data that a model file may carry, never computed with.

use crate::policy::Policy;
use crate::registry::{Format, TensorType};

/// 8-bit signed integers, low byte first.
pub const I8: TensorType = TensorType(&FORMAT);

static FORMAT: Format = Format {
    id: 24,
    name: "i8",
    block_len: 1,
    block_bytes: size_of::<i8>(),
    wide_fields: &[],
    quantized: false,
    activation: None,
    policy: Policy::NONE,
    codec: None,
};
