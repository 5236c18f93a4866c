//! x86-64 with AVX2, FMA and F16C. To give a type kernels: its `mod` line and its line in [`KERNELS`].

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

use gristmill_quant::TensorType;

use crate::table::Kernels;

/// The kernels, where the CPU has AVX2, FMA and F16C. Nothing else gives them to anyone: that is why they may use these.
pub(crate) fn kernels() -> Option<&'static Kernels> {
    let can_run = is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("f16c");
    can_run.then_some(&KERNELS)
}

/// Whether a type has a product here, be it on another CPU.
pub(crate) fn has_product(ty: TensorType) -> bool {
    KERNELS.of(ty).is_some()
}

/// Whether a type has an encoder here, be it on another CPU.
#[cfg(test)]
pub(crate) fn has_encoder(ty: TensorType) -> bool {
    KERNELS
        .of(ty)
        .is_some_and(|kernels| kernels.encode.is_some())
}

static KERNELS: Kernels = Kernels {
    #[cfg(test)]
    isa: crate::Isa::Avx2,
    types: &[
        bf16::KERNELS,
        f16::KERNELS,
        f32::KERNELS,
        iq1_m::KERNELS,
        iq1_s::KERNELS,
        iq2_s::KERNELS,
        iq2_xs::KERNELS,
        iq2_xxs::KERNELS,
        iq3_s::KERNELS,
        iq3_xxs::KERNELS,
        iq4_nl::KERNELS,
        iq4_xs::KERNELS,
        mxfp4::KERNELS,
        nvfp4::KERNELS,
        q1_0::KERNELS,
        q2_0::KERNELS,
        q2_k::KERNELS,
        q3_k::KERNELS,
        q4_0::KERNELS,
        q4_1::KERNELS,
        q4_k::KERNELS,
        q5_0::KERNELS,
        q5_1::KERNELS,
        q5_k::KERNELS,
        q6_k::KERNELS,
        q8_0::KERNELS,
        tq1_0::KERNELS,
        tq2_0::KERNELS,
    ],
    quantize: quantize::quantize,
    vector: vector::KERNELS,
    attention: attention::KERNELS,
};
