//! Products of float weights with f32 activations.
//!
//! Each (row, column) has one register of eight partial sums: lane i adds the products of elements i, i + 8, i + 16 and so on, in order,
//! and the lanes are added up at the end. How many rows and columns go together does not change that.

use std::arch::x86_64::*;
use std::cell::RefCell;

use gristmill_quant::TensorType;

use crate::split::RowTile;
use crate::table::{Product, TypeKernels};
use crate::x86::lanes::{LANES, load_part, store_part, sum_lanes};

/// Rows that go together when there is one column.
const ROWS: usize = 8;
/// Rows and columns that go together otherwise.
const BLOCK_ROWS: usize = 4;
const BLOCK_COLUMNS: usize = 3;

/// Weights that widen to f32 without loss.
pub(crate) trait FloatWeights {
    /// Bytes of a weight.
    const BYTES: usize;

    /// Eight weights.
    ///
    /// # Safety
    /// AVX2 and F16C; the bytes of eight weights at `bytes`.
    unsafe fn load(bytes: *const u8) -> __m256;
}

/// f32 itself.
pub(crate) struct Single;

impl FloatWeights for Single {
    const BYTES: usize = 4;

    #[inline(always)]
    unsafe fn load(bytes: *const u8) -> __m256 {
        // SAFETY: the caller has the instruction set and the bytes of eight weights.
        unsafe { _mm256_loadu_ps(bytes.cast()) }
    }
}

/// Columns from which on rows are widened once, to memory, and not for every few columns again.
const WIDEN_COLUMNS: usize = 7;

thread_local! {
    /// Widened rows of this thread.
    static WIDE: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
}

/// The kernels of a float type: its product.
pub(crate) const fn kernels<T: FloatWeights>(ty: TensorType) -> TypeKernels {
    TypeKernels::new(ty, run::<T>, ROWS)
}

fn run<T: FloatWeights>(of: &Product<'_>, tile: &mut RowTile<'_>) {
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn inner<T: FloatWeights>(of: &Product<'_>, tile: &mut RowTile<'_>) {
        // SAFETY: this function enables the instruction set; the caller's lengths fit.
        unsafe { product::<T>(of, tile) }
    }
    // SAFETY: whoever has this kernel has it from `avx2::kernels`, so the CPU has AVX2, FMA and F16C; `matmul` checked the
    // lengths.
    unsafe { inner::<T>(of, tile) }
}

/// Writes a tile of the product.
///
/// # Safety
/// AVX2, FMA and F16C; the product's lengths fit each other and the tile.
#[inline(always)]
unsafe fn product<T: FloatWeights>(product: &Product<'_>, tile: &mut RowTile<'_>) {
    let (rows, columns) = (tile.rows(), tile.columns());
    // SAFETY: rows and columns stay inside the tile; a widened row has `n` floats, and needs no more bytes than that.
    unsafe {
        if columns.len() == 1 {
            for row in rows.clone().step_by(ROWS) {
                let pointers = row_pointers::<ROWS>(product, row, rows.end);
                block::<T, ROWS, 1>(product, tile, &pointers, row, columns.start);
            }
            return;
        }
        let widen = T::BYTES < 4 && columns.len() >= WIDEN_COLUMNS;
        for row in rows.clone().step_by(BLOCK_ROWS) {
            let pointers = row_pointers(product, row, rows.end);
            if widen {
                WIDE.with_borrow_mut(|wide| {
                    let pointers = widened::<T>(product.n, &pointers, wide);
                    all_columns::<Single>(product, tile, &pointers, row);
                });
            } else {
                all_columns::<T>(product, tile, &pointers, row);
            }
        }
    }
}

/// Where `R` rows from `first` on begin; rows past `end` repeat the last one, and their results are not stored.
#[inline(always)]
fn row_pointers<const R: usize>(product: &Product<'_>, first: usize, end: usize) -> [*const u8; R] {
    std::array::from_fn(|r| product.row(usize::min(first + r, end - 1)))
}

/// The rows as f32, in `wide`.
///
/// # Safety
/// AVX2 and F16C; `n` weights at each pointer.
#[inline(always)]
unsafe fn widened<T: FloatWeights>(
    n: usize,
    rows: &[*const u8; BLOCK_ROWS],
    wide: &mut Vec<f32>,
) -> [*const u8; BLOCK_ROWS] {
    wide.resize(BLOCK_ROWS * n, 0.0);
    for (row, out) in rows.iter().zip(wide.chunks_exact_mut(n)) {
        for start in (0..n).step_by(LANES) {
            let len = LANES.min(n - start);
            // SAFETY: `len` weights of the row and `len` floats of `out` from `start` on.
            unsafe {
                let place = row.add(start * T::BYTES);
                let weights = if len == LANES {
                    T::load(place)
                } else {
                    load_last::<T>(place, len)
                };
                let out = out.as_mut_ptr().add(start);
                if len == LANES {
                    _mm256_storeu_ps(out, weights)
                } else {
                    store_part(out, len, weights)
                }
            }
        }
    }
    std::array::from_fn(|r| wide[r * n..].as_ptr().cast())
}

/// `len` < 8 weights, the other lanes zero.
///
/// # Safety
/// AVX2 and F16C; `len` weights at `bytes`.
#[inline(always)]
unsafe fn load_last<T: FloatWeights>(bytes: *const u8, len: usize) -> __m256 {
    let mut buffer = [0; LANES * 4];
    // SAFETY: at most 32 bytes go to the buffer, which holds at least eight weights.
    unsafe {
        bytes.copy_to_nonoverlapping(buffer.as_mut_ptr(), len * T::BYTES);
        T::load(buffer.as_ptr())
    }
}

/// # Safety
/// As [`product`]; `rows` point to `n` weights each.
#[inline(always)]
unsafe fn all_columns<T: FloatWeights>(
    product: &Product<'_>,
    tile: &mut RowTile<'_>,
    rows: &[*const u8; BLOCK_ROWS],
    row: usize,
) {
    let columns = tile.columns();
    let whole = columns.end - columns.len() % BLOCK_COLUMNS;
    // SAFETY: the columns are inside the tile.
    unsafe {
        for column in (columns.start..whole).step_by(BLOCK_COLUMNS) {
            block::<T, BLOCK_ROWS, BLOCK_COLUMNS>(product, tile, rows, row, column);
        }
        for column in whole..columns.end {
            block::<T, BLOCK_ROWS, 1>(product, tile, rows, row, column);
        }
    }
}

/// `R` rows, from `row` on (fewer at the end of the tile), times `C` columns.
///
/// # Safety
/// As [`product`]; `row` and the columns are inside the tile; `rows` point to `n` weights each.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn block<T: FloatWeights, const R: usize, const C: usize>(
    product: &Product<'_>,
    tile: &mut RowTile<'_>,
    rows: &[*const u8; R],
    row: usize,
    column: usize,
) {
    let columns: [*const f32; C] = std::array::from_fn(|c| {
        let column = product.activation_column(column + c);
        product.activations.float_column(column).as_ptr()
    });
    let whole = product.n - product.n % LANES;
    // SAFETY: eight elements from each multiple of eight below `whole` are inside rows and columns, then `rest` elements.
    unsafe {
        let mut sums = [[_mm256_setzero_ps(); C]; R];
        for start in (0..whole).step_by(LANES) {
            let mut x = [_mm256_setzero_ps(); C];
            for c in 0..C {
                x[c] = _mm256_loadu_ps(columns[c].add(start));
            }
            for r in 0..R {
                let weights = T::load(rows[r].add(start * T::BYTES));
                for c in 0..C {
                    sums[r][c] = _mm256_fmadd_ps(weights, x[c], sums[r][c]);
                }
            }
        }
        if whole < product.n {
            let rest = product.n - whole;
            for r in 0..R {
                let weights = load_last::<T>(rows[r].add(whole * T::BYTES), rest);
                for c in 0..C {
                    sums[r][c] = _mm256_fmadd_ps(
                        weights,
                        load_part(columns[c].add(whole), rest),
                        sums[r][c],
                    );
                }
            }
        }
        let offset = row - tile.rows().start;
        for c in 0..C {
            let out = &mut tile.column(column + c)[offset..];
            for (r, out) in out.iter_mut().take(R).enumerate() {
                *out = sum_lanes(sums[r][c]);
            }
        }
    }
}
