//! The block structs: what the bytes of each quantized type are.
//!
//! Every field is a byte or an array of bytes, so a block has alignment 1 and any byte slice of the right
//! length can be viewed as blocks; numbers are stored low byte first.

pub use crate::grid::values::*;
pub use crate::half_float::Half;
pub use crate::nonlinear::NONLINEAR_LEVELS;
pub use crate::types::blocks::*;
