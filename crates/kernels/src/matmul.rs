//! Weights times activations.

use gristmill_quant::TensorType;

use crate::activations::Activations;
use crate::error::check_length;
use crate::split::{RowTile, RowTiles};
use crate::table::{Kernels, Product, kernels};
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

/// One of several products with the same columns.
pub struct MatrixProduct<'a> {
    /// Type of the weights.
    pub ty: TensorType,
    /// The rows of the weights.
    pub weights: &'a [u8],
    /// Their number.
    pub n_rows: usize,
    /// [n_rows, n_columns]
    pub out: &'a mut [f32],
}

/// Several products with the same prepared columns of `n` elements, shared among the threads as one job: queries, keys
/// and values of a single token are too little work for three jobs. The bits are those of [`matmul`].
///
/// # Errors
/// As [`matmul`]; then no output is whole.
pub fn matmul_many<'a>(
    pool: &Pool,
    n: usize,
    activations: &Activations,
    products: impl IntoIterator<Item = MatrixProduct<'a>>,
) -> Result<(), KernelError> {
    many_with(kernels(), pool, n, activations, products)
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
    let product = MatrixProduct {
        ty,
        weights,
        n_rows,
        out,
    };
    many_with(kernels, pool, n, activations, [product])
}

/// Products that make one job; more are done in several.
pub(crate) const PRODUCTS_PER_JOB: usize = 4;

pub(crate) fn many_with<'a>(
    kernels: &Kernels,
    pool: &Pool,
    n: usize,
    activations: &Activations,
    products: impl IntoIterator<Item = MatrixProduct<'a>>,
) -> Result<(), KernelError> {
    let mut products = products.into_iter();
    loop {
        // An array, so that a step of decoding allocates nothing.
        let mut parts = [const { None }; PRODUCTS_PER_JOB];
        for (part, product) in parts.iter_mut().zip(&mut products) {
            *part = Some(Part::new(kernels, n, activations, product)?);
        }
        if parts[0].is_none() {
            return Ok(());
        }
        run_parts(pool, parts);
    }
}

/// Writes the rows and columns of a tile.
pub(crate) type RunProduct = fn(&Product<'_>, &mut RowTile<'_>);

/// The kernel for products with weights of a type, and the rows that it handles together.
pub(crate) fn kernel_of(kernels: &Kernels, ty: TensorType) -> (RunProduct, usize) {
    kernels.of(ty).map_or((plain::product, 1), |kernels| {
        (kernels.product, kernels.row_step)
    })
}

/// Bytes of a row of weights, which must go with the activations.
///
/// # Errors
/// `UnsupportedType`, `Layout`, and rows that are no whole blocks.
pub(crate) fn row_bytes_for(
    ty: TensorType,
    n: usize,
    activations: &Activations,
) -> Result<usize, KernelError> {
    if !supports(ty) {
        return Err(KernelError::UnsupportedType { ty });
    }
    if !activations.is_for(ty) {
        return Err(KernelError::Layout { ty });
    }
    Ok(usize::try_from(ty.row_bytes(n as u64)?).unwrap_or(usize::MAX))
}

/// A checked product, and where it goes.
struct Part<'a> {
    product: Product<'a>,
    run: RunProduct,
    row_step: usize,
    n_rows: usize,
    out: &'a mut [f32],
}

impl<'a> Part<'a> {
    fn new(
        kernels: &Kernels,
        n: usize,
        activations: &'a Activations,
        product: MatrixProduct<'a>,
    ) -> Result<Self, KernelError> {
        let MatrixProduct {
            ty,
            weights,
            n_rows,
            out,
        } = product;
        let row_bytes = row_bytes_for(ty, n, activations)?;
        check_length("weights", weights.len(), row_bytes.saturating_mul(n_rows))?;
        check_length("activation column", activations.n, n)?;
        check_length(
            "product",
            out.len(),
            n_rows.saturating_mul(activations.n_columns),
        )?;
        let (run, row_step) = kernel_of(kernels, ty);
        let product = Product {
            ty,
            weights,
            row_bytes,
            n,
            activations,
            picked: None,
        };
        if n == 0 {
            out.fill(0.0);
            return Ok(Self {
                product,
                run,
                row_step,
                n_rows: 0,
                out: &mut [],
            });
        }
        Ok(Self {
            product,
            run,
            row_step,
            n_rows,
            out,
        })
    }

    /// Multiplications of the whole product.
    fn work(&self) -> usize {
        self.product.n.saturating_mul(self.out.len())
    }
}

/// Multiplications that make a chunk worth handing out.
const CHUNK_WORK: usize = 1 << 15;
/// Chunks per thread, so that a thread that loses its core holds up little.
const CHUNKS_PER_THREAD: usize = 8;

/// Cuts all products into tiles and shares these among the threads.
fn run_parts(pool: &Pool, parts: [Option<Part<'_>>; PRODUCTS_PER_JOB]) {
    let work = parts.iter().flatten().map(Part::work);
    let chunk_work = chunk_work(pool, work.fold(0, usize::saturating_add));
    let mut first = 0;
    let parts = parts.map(|part| {
        part.map(|part| {
            let n_columns = part.out.len().checked_div(part.n_rows).unwrap_or(0);
            let shape = (part.n_rows, n_columns);
            let tile = tile_shape(shape, part.row_step, part.work(), chunk_work);
            let tiles = RowTiles::new(part.out, part.n_rows, tile);
            first += tiles.len();
            (part.product, part.run, first - tiles.len(), tiles)
        })
    });
    pool.run(first, |index| {
        let holds =
            |first: usize, tiles: &RowTiles<'_>| (first..first + tiles.len()).contains(&index);
        let part = parts
            .iter()
            .flatten()
            .find(|(_, _, first, tiles)| holds(*first, tiles));
        if let Some((product, run, first, tiles)) = part {
            // SAFETY: the pool calls this once for each index, and the parts' ranges of indices do not overlap.
            run(product, &mut unsafe { tiles.tile(index - first) });
        }
    });
}

/// Multiplications of one chunk, of so many in all.
pub(crate) fn chunk_work(pool: &Pool, work: usize) -> usize {
    match pool.n_threads() {
        1 => usize::MAX,
        n_threads => CHUNK_WORK.max(work / (n_threads * CHUNKS_PER_THREAD)),
    }
}

/// Rows and columns of one chunk of a product of this shape and work: all columns unless that leaves too few chunks.
pub(crate) fn tile_shape(
    (n_rows, n_columns): (usize, usize),
    row_step: usize,
    work: usize,
    chunk_work: usize,
) -> (usize, usize) {
    let n_chunks = (work / chunk_work).max(1);
    let rows = n_rows.div_ceil(n_chunks).next_multiple_of(row_step);
    let down = n_rows.div_ceil(rows.max(1)).max(1);
    let across = n_chunks.div_ceil(down).clamp(1, n_columns.max(1));
    (rows, n_columns.div_ceil(across))
}
