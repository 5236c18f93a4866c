//! F32 weights.

use crate::split::RowTile;
use crate::table::{Product, ProductKernel};
use crate::x86::float;

pub(super) const PRODUCT: ProductKernel = ProductKernel {
    ty: gristmill_quant::F32,
    run,
    row_step: float::ROWS,
};

fn run(product: &Product<'_>, tile: &mut RowTile<'_>) {
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn run(product: &Product<'_>, tile: &mut RowTile<'_>) {
        // SAFETY: this function enables the instruction set; the caller's lengths fit.
        unsafe { float::product::<float::Single>(product, tile) }
    }
    // SAFETY: this table is in use only where the CPU has AVX2, FMA and F16C; `matmul` checked the lengths.
    unsafe { run(product, tile) }
}
