//! 64-bit signed integers: data that a model file may carry, never computed with.

use crate::registry::{Format, TensorType};

/// 64-bit signed integers, low byte first.
pub const I64: TensorType = TensorType(&FORMAT);

static FORMAT: Format = Format::sized::<i64>(27, "i64", &[(0, 8, 1)]);
