//! Products of float weights with f32 activations.
//!
//! Each (row, column) has one register of eight partial sums: lane i adds the products of elements i, i + 8, i + 16 and so on, in order,
//! and the lanes are added up at the end. How many rows and columns go together does not change that.

use std::arch::x86_64::*;

use crate::split::RowTile;
use crate::table::Product;
use crate::x86::lanes::{LANES, load_part, sum_lanes};

/// Rows that go together when there is one column.
pub(crate) const ROWS: usize = 8;
/// Rows and columns that go together otherwise.
const BLOCK: (usize, usize) = (4, 3);

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

/// Writes a tile of the product: the body of each type's kernel.
///
/// # Safety
/// AVX2, FMA and F16C; the product's lengths fit each other and the tile.
#[inline(always)]
pub(crate) unsafe fn product<T: FloatWeights>(product: &Product<'_>, tile: &mut RowTile<'_>) {
    let (rows, columns) = (tile.rows(), tile.columns());
    // SAFETY: rows and columns stay inside the tile.
    unsafe {
        if columns.len() == 1 {
            strip::<T, ROWS, 1>(product, tile, columns.start);
            return;
        }
        let whole = columns.len() - columns.len() % BLOCK.1;
        for row in rows.clone().step_by(BLOCK.0) {
            for column in (columns.start..columns.start + whole).step_by(BLOCK.1) {
                block::<T, { BLOCK.0 }, { BLOCK.1 }>(product, tile, row, column);
            }
            match columns.len() - whole {
                0 => {}
                1 => block::<T, { BLOCK.0 }, 1>(product, tile, row, columns.start + whole),
                _ => block::<T, { BLOCK.0 }, 2>(product, tile, row, columns.start + whole),
            }
        }
    }
}

/// # Safety
/// As [`product`].
#[inline(always)]
unsafe fn strip<T: FloatWeights, const R: usize, const C: usize>(
    product: &Product<'_>,
    tile: &mut RowTile<'_>,
    column: usize,
) {
    for row in tile.rows().step_by(R) {
        // SAFETY: the row is inside the tile.
        unsafe { block::<T, R, C>(product, tile, row, column) }
    }
}

/// `R` rows from `row` on (fewer at the end of the tile) times `C` columns.
///
/// # Safety
/// As [`product`]; `row` and the columns are inside the tile.
#[inline(always)]
unsafe fn block<T: FloatWeights, const R: usize, const C: usize>(
    product: &Product<'_>,
    tile: &mut RowTile<'_>,
    row: usize,
    column: usize,
) {
    let range = tile.rows();
    // Rows past the end repeat the last one; their results are not stored.
    let rows: [*const u8; R] =
        std::array::from_fn(|r| product.row(usize::min(row + r, range.end - 1)));
    let columns: [*const f32; C] =
        std::array::from_fn(|c| product.activations.float_column(column + c).as_ptr());
    let whole = product.n - product.n % LANES;
    // SAFETY: eight elements from each multiple of eight below `whole` are inside rows and columns; the rest goes through a buffer.
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
                let mut bytes = [0; LANES * 4];
                rows[r]
                    .add(whole * T::BYTES)
                    .copy_to_nonoverlapping(bytes.as_mut_ptr(), rest * T::BYTES);
                let weights = T::load(bytes.as_ptr());
                for c in 0..C {
                    sums[r][c] = _mm256_fmadd_ps(
                        weights,
                        load_part(columns[c].add(whole), rest),
                        sums[r][c],
                    );
                }
            }
        }
        for c in 0..C {
            let out = &mut tile.column(column + c)[row - range.start..];
            for (r, out) in out.iter_mut().take(R).enumerate() {
                *out = sum_lanes(sums[r][c]);
            }
        }
    }
}
