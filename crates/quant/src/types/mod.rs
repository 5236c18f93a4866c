//! One file per tensor type: layout, block, codec, and what quantization makes of it.
//!
//! Alphabetical. To add one: its `mod` line, and its line in `types!` with the constant and the block.

use crate::registry::TensorType;

pub(crate) mod bf16;
pub(crate) mod f16;
pub(crate) mod f32;
pub(crate) mod f64;
pub(crate) mod i16;
pub(crate) mod i32;
pub(crate) mod i64;
pub(crate) mod i8;
pub(crate) mod iq1_m;
pub(crate) mod iq1_s;
pub(crate) mod iq2_s;
pub(crate) mod iq2_xs;
pub(crate) mod iq2_xxs;
pub(crate) mod iq3_s;
pub(crate) mod iq3_xxs;
pub(crate) mod iq4_nl;
pub(crate) mod iq4_xs;
pub(crate) mod mxfp4;
pub(crate) mod nvfp4;
pub(crate) mod q1_0;
pub(crate) mod q2_0;
pub(crate) mod q2_k;
pub(crate) mod q3_k;
pub(crate) mod q4_0;
pub(crate) mod q4_1;
pub(crate) mod q4_k;
pub(crate) mod q5_0;
pub(crate) mod q5_1;
pub(crate) mod q5_k;
pub(crate) mod q6_k;
pub(crate) mod q8_0;
pub(crate) mod q8_1;
pub(crate) mod q8_k;
pub(crate) mod tq1_0;
pub(crate) mod tq2_0;

macro_rules! types {
    ($($file:ident::{$constant:ident $(, $block:ident)*};)*) => {
        /// The handles of all types.
        pub(crate) mod constants {
            $(pub use super::$file::$constant;)*
        }

        /// What the bytes of blocks are.
        pub(crate) mod blocks {
            $($(pub use super::$file::$block;)*)*
        }

        /// The registry.
        pub(crate) static FORMATS: &[TensorType] = &[$($file::$constant),*];

        pub(crate) use constants::*;
    };
}

types! {
    bf16::{BF16, BlockBf16};
    f16::{F16, BlockF16};
    f32::{F32, BlockF32};
    f64::{F64};
    i16::{I16};
    i32::{I32};
    i64::{I64};
    i8::{I8};
    iq1_m::{IQ1_M, BlockIq1M};
    iq1_s::{IQ1_S, BlockIq1S};
    iq2_s::{IQ2_S, BlockIq2S};
    iq2_xs::{IQ2_XS, BlockIq2Xs};
    iq2_xxs::{IQ2_XXS, BlockIq2Xxs};
    iq3_s::{IQ3_S, BlockIq3S};
    iq3_xxs::{IQ3_XXS, BlockIq3Xxs};
    iq4_nl::{IQ4_NL, BlockIq4Nl};
    iq4_xs::{IQ4_XS, BlockIq4Xs};
    mxfp4::{MXFP4, BlockMxfp4, E2M1_DOUBLED};
    nvfp4::{NVFP4, BlockNvfp4};
    q1_0::{Q1_0, BlockQ1_0};
    q2_0::{Q2_0, BlockQ2_0};
    q2_k::{Q2_K, BlockQ2K};
    q3_k::{Q3_K, BlockQ3K};
    q4_0::{Q4_0, BlockQ4_0};
    q4_1::{Q4_1, BlockQ4_1};
    q4_k::{Q4_K, BlockQ4K};
    q5_0::{Q5_0, BlockQ5_0};
    q5_1::{Q5_1, BlockQ5_1};
    q5_k::{Q5_K, BlockQ5K};
    q6_k::{Q6_K, BlockQ6K};
    q8_0::{Q8_0, BlockQ8_0};
    q8_1::{Q8_1, BlockQ8_1};
    q8_k::{Q8_K, BlockQ8K};
    tq1_0::{TQ1_0, BlockTq1_0};
    tq2_0::{TQ2_0, BlockTq2_0};
}
