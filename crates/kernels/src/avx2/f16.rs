//! F16 weights.

use std::arch::x86_64::*;

use crate::table::TypeKernels;
use crate::x86::float::{self, FloatWeights};
use crate::x86::lanes::load_f16;

pub(super) const KERNELS: TypeKernels = float::kernels::<Weights>(gristmill_quant::F16)
    .with_encoder(super::encode::rows::<gristmill_quant::block::BlockF16>);

struct Weights;

impl FloatWeights for Weights {
    const BYTES: usize = 2;

    #[inline(always)]
    unsafe fn load(bytes: *const u8) -> __m256 {
        // SAFETY: the caller has the instruction set and the bytes of eight weights.
        unsafe { load_f16(bytes) }
    }
}
