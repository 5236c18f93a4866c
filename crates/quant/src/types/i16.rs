//! 16-bit signed integers: data that a model file may carry, never computed with.

use crate::registry::{Format, TensorType};

/// 16-bit signed integers, low byte first.
pub const I16: TensorType = TensorType(&FORMAT);

static FORMAT: Format = Format::sized::<i16>(25, "i16", &[(0, 2, 1)]);
