//! IEEE 754 binary64: data that a model file may carry, never computed with.

use crate::registry::{Format, TensorType};

/// IEEE 754 binary64, low byte first.
pub const F64: TensorType = TensorType(&FORMAT);

static FORMAT: Format = Format::sized::<f64>(28, "f64", &[(0, 8, 1)]);
