//! F16 weights.

use std::arch::x86_64::*;

use crate::table::ProductKernel;
use crate::x86::float::{self, FloatWeights};
use crate::x86::lanes::load_f16;

pub(super) const PRODUCT: ProductKernel = float::kernel::<Weights>(gristmill_quant::F16);

struct Weights;

impl FloatWeights for Weights {
    const BYTES: usize = 2;

    #[inline(always)]
    unsafe fn load(bytes: *const u8) -> __m256 {
        // SAFETY: the caller has the instruction set and the bytes of eight weights.
        unsafe { load_f16(bytes) }
    }
}
