//! BF16 weights.

use std::arch::x86_64::*;

use crate::table::TypeKernels;
use crate::x86::float::{self, FloatWeights};

pub(super) const KERNELS: TypeKernels = float::kernels::<Weights>(gristmill_quant::BF16)
    .with_encoder(super::encode::rows::<gristmill_quant::block::BlockBf16>)
    .with_decoder(super::encode::decode::<gristmill_quant::block::BlockBf16>);

struct Weights;

impl FloatWeights for Weights {
    const BYTES: usize = 2;

    #[inline(always)]
    unsafe fn load(bytes: *const u8) -> __m256 {
        // SAFETY: the caller has the instruction set and the bytes of eight weights.
        unsafe {
            _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(
                _mm_loadu_si128(bytes.cast()),
            )))
        }
    }
}
