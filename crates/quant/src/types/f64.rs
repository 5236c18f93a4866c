//! IEEE 754 binary64: data that a model file may carry, never computed with.

use crate::policy::Policy;
use crate::registry::{Format, TensorType};

/// IEEE 754 binary64, low byte first.
pub const F64: TensorType = TensorType(&FORMAT);

static FORMAT: Format = Format {
    id: 28,
    name: "f64",
    block_len: 1,
    block_bytes: size_of::<f64>(),
    wide_fields: &[(0, 8, 1)],
    quantized: false,
    activation: None,
    policy: Policy::NONE,
    codec: None,
};
