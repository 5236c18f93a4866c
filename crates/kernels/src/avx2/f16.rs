//! F16 weights.

use std::arch::x86_64::*;

use crate::split::RowTile;
use crate::table::{Product, ProductKernel};
use crate::x86::float::{self, FloatWeights};
use crate::x86::lanes::load_f16;

pub(super) const PRODUCT: ProductKernel = ProductKernel {
    ty: gristmill_quant::F16,
    run,
    row_step: float::ROWS,
};

fn run(product: &Product<'_>, tile: &mut RowTile<'_>) {
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn run(product: &Product<'_>, tile: &mut RowTile<'_>) {
        // SAFETY: this function enables the instruction set; the caller's lengths fit.
        unsafe { float::product::<Weights>(product, tile) }
    }
    // SAFETY: this table is in use only where the CPU has AVX2, FMA and F16C; `matmul` checked the lengths.
    unsafe { run(product, tile) }
}

struct Weights;

impl FloatWeights for Weights {
    const BYTES: usize = 2;

    #[inline(always)]
    unsafe fn load(bytes: *const u8) -> __m256 {
        // SAFETY: the caller has the instruction set and the bytes of eight weights.
        unsafe { load_f16(bytes) }
    }
}
