//! x86-64 with AVX2, FMA and F16C.

#![allow(
    clippy::needless_range_loop,
    reason = "one index walks several arrays of registers"
)]

mod attention;
mod bf16;
mod encode;
mod f16;
mod f32;
mod iq1_m;
mod iq1_s;
mod iq2_s;
mod iq2_xs;
mod iq2_xxs;
mod iq3_s;
mod iq3_xxs;
mod iq4_nl;
mod iq4_xs;
mod mxfp4;
mod nvfp4;
mod q1_0;
mod q2_0;
mod q2_k;
mod q3_k;
mod q4_0;
mod q4_1;
mod q4_k;
mod q5_0;
mod q5_1;
mod q5_k;
mod q6_k;
mod q8_0;
mod quantize;
mod tq1_0;
mod tq2_0;
mod vector;

use crate::table::Kernels;

/// In use only where the CPU has AVX2, FMA and F16C.
pub(crate) static KERNELS: Kernels = Kernels {
    #[cfg(test)]
    isa: crate::Isa::Avx2,
    products: &[
        bf16::PRODUCT,
        f16::PRODUCT,
        f32::PRODUCT,
        iq1_m::PRODUCT,
        iq1_s::PRODUCT,
        iq2_s::PRODUCT,
        iq2_xs::PRODUCT,
        iq2_xxs::PRODUCT,
        iq3_s::PRODUCT,
        iq3_xxs::PRODUCT,
        iq4_nl::PRODUCT,
        iq4_xs::PRODUCT,
        mxfp4::PRODUCT,
        nvfp4::PRODUCT,
        q1_0::PRODUCT,
        q2_0::PRODUCT,
        q2_k::PRODUCT,
        q3_k::PRODUCT,
        q4_0::PRODUCT,
        q4_1::PRODUCT,
        q4_k::PRODUCT,
        q5_0::PRODUCT,
        q5_1::PRODUCT,
        q5_k::PRODUCT,
        q6_k::PRODUCT,
        q8_0::PRODUCT,
        tq1_0::PRODUCT,
        tq2_0::PRODUCT,
    ],
    quantize: quantize::quantize,
    encoders: encode::KERNELS,
    vector: vector::KERNELS,
    attention: attention::KERNELS,
};
