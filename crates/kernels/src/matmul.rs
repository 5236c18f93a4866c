//! Weights times activations.

use gristmill_quant::TensorType;

use crate::activations::Activations;
use crate::error::check_length;
use crate::split::for_each_row_tile;
use crate::table::{Kernels, Product, ProductKernel, kernels};
use crate::{KernelError, Pool, plain};

/// Whether [`matmul`] takes weights of this type.
pub fn supports(ty: TensorType) -> bool {
    ty.can_decode()
}

/// Multiplies weights of type `ty` (`n_rows` rows of `n` elements) with prepared columns into
/// `out` [n_rows, n_columns], the row index contiguous.
///
/// The bits of `out[row, column]` depend on that row and that column alone. For quantized types the columns are
/// rounded to 8 bits by [`prepare`](crate::prepare), as the reference does; float weights see them unrounded.
///
/// # Errors
/// `UnsupportedType` when the type has no decoder; `Layout` when `activations` were prepared for another kind of type;
/// `Length` when a buffer does not have the length that its shape gives.
pub fn matmul(
    pool: &Pool,
    ty: TensorType,
    weights: &[u8],
    n: usize,
    n_rows: usize,
    activations: &Activations,
    out: &mut [f32],
) -> Result<(), KernelError> {
    matmul_with(kernels(), pool, ty, weights, n, n_rows, activations, out)
}

#[expect(
    clippy::too_many_arguments,
    reason = "the table is the only addition to the public function"
)]
pub(crate) fn matmul_with(
    kernels: &Kernels,
    pool: &Pool,
    ty: TensorType,
    weights: &[u8],
    n: usize,
    n_rows: usize,
    activations: &Activations,
    out: &mut [f32],
) -> Result<(), KernelError> {
    if !supports(ty) {
        return Err(KernelError::UnsupportedType { ty });
    }
    if !activations.is_for(ty) {
        return Err(KernelError::Layout { ty });
    }
    let row_bytes = usize::try_from(ty.row_bytes(n as u64)?).unwrap_or(usize::MAX);
    check_length("weights", weights.len(), row_bytes.saturating_mul(n_rows))?;
    check_length("activation column", activations.n, n)?;
    check_length(
        "product",
        out.len(),
        n_rows.saturating_mul(activations.n_columns),
    )?;
    if n == 0 {
        out.fill(0.0);
        return Ok(());
    }
    let product = Product {
        ty,
        weights,
        row_bytes,
        n,
        activations,
    };
    let plain = ProductKernel {
        ty,
        run: plain::product,
        row_step: 1,
    };
    let kernel = kernels
        .products
        .iter()
        .find(|kernel| kernel.ty == ty)
        .unwrap_or(&plain);
    let tile = tile_shape(pool, n, n_rows, activations.n_columns, kernel.row_step);
    for_each_row_tile(pool, out, n_rows, tile, |mut tile| {
        (kernel.run)(&product, &mut tile)
    });
    Ok(())
}

/// Multiplications that make a chunk worth handing out.
const CHUNK_WORK: usize = 1 << 17;
/// Chunks per thread, so that a thread that loses its core holds up little.
const CHUNKS_PER_THREAD: usize = 8;

/// Rows and columns of one chunk: all columns unless that leaves too few chunks.
fn tile_shape(
    pool: &Pool,
    n: usize,
    n_rows: usize,
    n_columns: usize,
    row_step: usize,
) -> (usize, usize) {
    if pool.n_threads() == 1 {
        return (n_rows, n_columns);
    }
    let work = n.saturating_mul(n_rows).saturating_mul(n_columns);
    let n_chunks = (work / CHUNK_WORK).clamp(1, pool.n_threads() * CHUNKS_PER_THREAD);
    let rows = n_rows.div_ceil(n_chunks).next_multiple_of(row_step);
    let down = n_rows.div_ceil(rows);
    let across = n_chunks.div_ceil(down).min(n_columns);
    (rows, n_columns.div_ceil(across))
}
