//! 8-bit signed integers: data that a model file may carry, never computed with.

use crate::registry::{Format, TensorType};

/// 8-bit signed integers, low byte first.
pub const I8: TensorType = TensorType(&FORMAT);

static FORMAT: Format = Format::sized::<i8>(24, "i8", &[]);
