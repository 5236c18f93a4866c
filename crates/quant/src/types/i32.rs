//! 32-bit signed integers: data that a model file may carry, never computed with.

use crate::registry::{Format, TensorType};

/// 32-bit signed integers, low byte first.
pub const I32: TensorType = TensorType(&FORMAT);

static FORMAT: Format = Format::sized::<i32>(26, "i32", &[(0, 4, 1)]);
