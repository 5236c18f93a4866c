//! The block structs: what the bytes of each quantized type are.
//!
//! Every field is a byte or an array of bytes, so a block has alignment 1 and any byte slice of the right
//! length can be viewed as blocks; numbers are stored low byte first.

pub use crate::grid::values::*;
pub use crate::half_float::Half;
pub use crate::nonlinear::NONLINEAR_LEVELS;
pub use crate::types::bf16::BlockBf16;
pub use crate::types::f16::BlockF16;
pub use crate::types::f32::BlockF32;
pub use crate::types::iq1_m::BlockIq1M;
pub use crate::types::iq1_s::BlockIq1S;
pub use crate::types::iq2_s::BlockIq2S;
pub use crate::types::iq2_xs::BlockIq2Xs;
pub use crate::types::iq2_xxs::BlockIq2Xxs;
pub use crate::types::iq3_s::BlockIq3S;
pub use crate::types::iq3_xxs::BlockIq3Xxs;
pub use crate::types::iq4_nl::BlockIq4Nl;
pub use crate::types::iq4_xs::BlockIq4Xs;
pub use crate::types::mxfp4::{BlockMxfp4, E2M1_DOUBLED};
pub use crate::types::nvfp4::BlockNvfp4;
pub use crate::types::q1_0::BlockQ1_0;
pub use crate::types::q2_0::BlockQ2_0;
pub use crate::types::q2_k::BlockQ2K;
pub use crate::types::q3_k::BlockQ3K;
pub use crate::types::q4_0::BlockQ4_0;
pub use crate::types::q4_1::BlockQ4_1;
pub use crate::types::q4_k::BlockQ4K;
pub use crate::types::q5_0::BlockQ5_0;
pub use crate::types::q5_1::BlockQ5_1;
pub use crate::types::q5_k::BlockQ5K;
pub use crate::types::q6_k::BlockQ6K;
pub use crate::types::q8_0::BlockQ8_0;
pub use crate::types::q8_1::BlockQ8_1;
pub use crate::types::q8_k::BlockQ8K;
pub use crate::types::tq1_0::BlockTq1_0;
pub use crate::types::tq2_0::BlockTq2_0;
