//! Weights times activations: which kernel runs for a type, and the types of 32 elements.

use bytemuck::Pod;
use gristmill_quant::block::{
    BlockIq4Nl, BlockIq4Xs, BlockQ2K, BlockQ3K, BlockQ4_0, BlockQ4_1, BlockQ4K, BlockQ5_0,
    BlockQ5_1, BlockQ5K, BlockQ6K, BlockQ8_0, Half, NONLINEAR_LEVELS,
};
use gristmill_quant::{self as quant, TensorType};

use super::columns::{Columns, Rounded32, Rounding};
use super::floats::{Bf16, Single};
use super::super_blocks::{Plain, Repacked};
use super::{Lanes, add_scaled, sum_lanes, wide};
use crate::error::check_length;
use crate::split::{RowTile, for_each_row_tile};
use crate::{KernelError, Pool};

/// A type whose products are followed.
struct Followed {
    ty: TensorType,
    rounding: Rounding,
    product: fn(&Product<'_>, &mut RowTile<'_>),
}

/// The rows of a weight and the columns that they are multiplied with.
pub(super) struct Product<'a> {
    weights: &'a [u8],
    row_bytes: usize,
    columns: &'a Columns,
}

/// The blocks of a type, whose rows can be multiplied with a column.
pub(super) trait RowDot: Pod {
    fn dot(row: &[Self], columns: &Columns, column: usize) -> f32;
}

/// llama.cpp repacks Q4_0, Q4_K and IQ4_NL where the rows are a multiple of 8, and has other kernels for what is repacked;
/// these are meant here.
static FOLLOWED: &[Followed] = &[
    followed::<Single>(quant::F32, Rounding::F32),
    followed::<Half>(quant::F16, Rounding::F16),
    followed::<Bf16>(quant::BF16, Rounding::Bf16),
    followed::<BlockQ4_0>(quant::Q4_0, Rounding::Per32),
    followed::<BlockQ4_1>(quant::Q4_1, Rounding::Per32),
    followed::<BlockQ5_0>(quant::Q5_0, Rounding::Per32),
    followed::<BlockQ5_1>(quant::Q5_1, Rounding::Per32),
    followed::<BlockQ8_0>(quant::Q8_0, Rounding::Per32),
    followed::<Plain<BlockQ2K>>(quant::Q2_K, Rounding::Per256),
    followed::<Plain<BlockQ3K>>(quant::Q3_K, Rounding::Per256),
    followed::<Repacked<BlockQ4K>>(quant::Q4_K, Rounding::Per256InFours),
    followed::<Plain<BlockQ5K>>(quant::Q5_K, Rounding::Per256),
    followed::<Plain<BlockQ6K>>(quant::Q6_K, Rounding::Per256),
    followed::<BlockIq4Nl>(quant::IQ4_NL, Rounding::Per32),
    followed::<Plain<BlockIq4Xs>>(quant::IQ4_XS, Rounding::Per256),
];

const fn followed<B: RowDot>(ty: TensorType, rounding: Rounding) -> Followed {
    Followed {
        ty,
        rounding,
        product: rows::<B>,
    }
}

fn of(ty: TensorType) -> Result<&'static Followed, KernelError> {
    let found = FOLLOWED.iter().find(|followed| followed.ty == ty);
    found.ok_or(KernelError::UnsupportedType { ty })
}

/// Whether products with weights of this type are followed.
pub fn supports(ty: TensorType) -> bool {
    of(ty).is_ok()
}

/// Prepares the columns `x` (of `n` elements each) for products with weights of type `ty`. What is prepared already is left
/// alone if `is_same` says that it came of the same columns.
///
/// # Errors
/// `UnsupportedType`, and `Length` where the elements are not whole columns of whole blocks.
pub fn round_columns(
    ty: TensorType,
    x: &[f32],
    n: usize,
    is_same: bool,
    columns: &mut Columns,
) -> Result<(), KernelError> {
    let rounding = of(ty)?.rounding;
    if is_same && columns.rounding == rounding && columns.n == n {
        return Ok(());
    }
    ty.row_bytes(n as u64)?;
    check_length("activations", x.len(), x.len().next_multiple_of(n.max(1)))?;
    columns.set(rounding, x, n);
    Ok(())
}

/// Multiplies weights of type `ty` (`n_rows` rows) with columns into `out` [n_rows, n_columns], the row index contiguous.
///
/// # Errors
/// `UnsupportedType`; `Layout` where the columns were prepared for another kind of type; `Length` of a buffer.
pub fn matmul(
    pool: &Pool,
    ty: TensorType,
    weights: &[u8],
    n_rows: usize,
    columns: &Columns,
    out: &mut [f32],
) -> Result<(), KernelError> {
    let followed = of(ty)?;
    if columns.rounding != followed.rounding {
        return Err(KernelError::Layout { ty });
    }
    let row_bytes = usize::try_from(ty.row_bytes(columns.n as u64)?).unwrap_or(usize::MAX);
    check_length("weights", weights.len(), row_bytes.saturating_mul(n_rows))?;
    let n_out = n_rows.saturating_mul(columns.n_columns);
    check_length("product", out.len(), n_out)?;
    let product = Product {
        weights,
        row_bytes,
        columns,
    };
    let rows_per_tile = n_rows.div_ceil(8 * pool.n_threads()).max(8);
    let tile = (rows_per_tile, columns.n_columns);
    for_each_row_tile(pool, out, n_rows, tile, |mut tile| {
        (followed.product)(&product, &mut tile);
    });
    Ok(())
}

wide! {
    fn rows<B: RowDot>(product: &Product<'_>, tile: &mut RowTile<'_>) {
        for (index, row) in tile.rows().enumerate() {
            let bytes = &product.weights[row * product.row_bytes..][..product.row_bytes];
            let row: &[B] = bytemuck::cast_slice(bytes);
            for column in tile.columns() {
                tile.column(column)[index] = B::dot(row, product.columns, column);
            }
        }
    }
}

/// Products of four neighbours each, added up.
#[inline(always)]
pub(super) fn sums_of_four(weights: &[i8; 32], codes: &[i8; 32]) -> [i32; 8] {
    let mut sums = [0; 8];
    for (lane, sum) in sums.iter_mut().enumerate() {
        for i in 4 * lane..4 * lane + 4 {
            *sum += i32::from(weights[i]) * i32::from(codes[i]);
        }
    }
    sums
}

/// The sum over blocks of `scale * (weights · codes)`, lane by lane.
#[inline(always)]
fn dot_of_blocks<B>(
    row: &[B],
    column: &[Rounded32],
    levels: impl Fn(&B) -> (f32, [i8; 32]),
) -> f32 {
    let mut sums = Lanes::default();
    for (block, x) in row.iter().zip(column) {
        let (scale, levels) = levels(block);
        add_scaled(&mut sums, scale * x.scale, &sums_of_four(&levels, &x.codes));
    }
    sum_lanes(sums)
}

/// The sum over blocks of `minimum * (sum of the elements)`, one after the other.
#[inline(always)]
fn dot_of_minima(minima: impl Iterator<Item = f32>, column: &[Rounded32]) -> f32 {
    minima
        .zip(column)
        .fold(0.0, |sum, (minimum, x)| minimum.mul_add(x.sum, sum))
}

#[inline(always)]
pub(super) fn nibbles(qs: &[u8; 16]) -> [i8; 32] {
    let mut levels = [0; 32];
    for (i, q) in qs.iter().enumerate() {
        (levels[i], levels[i + 16]) = ((q & 15) as i8, (q >> 4) as i8);
    }
    levels
}

/// Nibbles with their fifth bits.
#[inline(always)]
fn five_bits(qs: &[u8; 16], qh: &[u8; 4]) -> [i8; 32] {
    let high = u32::from_le_bytes(*qh);
    let mut levels = nibbles(qs);
    for (i, level) in levels.iter_mut().enumerate() {
        *level |= ((high >> i & 1) << 4) as i8;
    }
    levels
}

impl RowDot for BlockQ4_1 {
    #[inline(always)]
    fn dot(row: &[Self], columns: &Columns, column: usize) -> f32 {
        let x = columns.per_32(column);
        let levels = |block: &Self| (block.d.to_f32(), nibbles(&block.qs));
        dot_of_blocks(row, x, levels) + dot_of_minima(row.iter().map(|block| block.m.to_f32()), x)
    }
}

impl RowDot for BlockQ5_0 {
    #[inline(always)]
    fn dot(row: &[Self], columns: &Columns, column: usize) -> f32 {
        dot_of_blocks(row, columns.per_32(column), |block| {
            let levels = five_bits(&block.qs, &block.qh).map(|level| level - 16);
            (block.d.to_f32(), levels)
        })
    }
}

impl RowDot for BlockQ5_1 {
    #[inline(always)]
    fn dot(row: &[Self], columns: &Columns, column: usize) -> f32 {
        let x = columns.per_32(column);
        let levels = |block: &Self| (block.d.to_f32(), five_bits(&block.qs, &block.qh));
        dot_of_blocks(row, x, levels) + dot_of_minima(row.iter().map(|block| block.m.to_f32()), x)
    }
}

impl RowDot for BlockQ8_0 {
    #[inline(always)]
    fn dot(row: &[Self], columns: &Columns, column: usize) -> f32 {
        dot_of_blocks(row, columns.per_32(column), |block| {
            (block.d.to_f32(), block.qs)
        })
    }
}

/// One sum per row of repacked weights: the products of a block are added up exactly.
#[inline(always)]
fn dot_in_order<B>(row: &[B], column: &[Rounded32], levels: impl Fn(&B) -> (f32, [i8; 32])) -> f32 {
    let mut all = 0.0f32;
    for (block, x) in row.iter().zip(column) {
        let (scale, levels) = levels(block);
        let sum: i32 = sums_of_four(&levels, &x.codes).iter().sum();
        all = (sum as f32).mul_add(scale * x.scale, all);
    }
    all
}

impl RowDot for BlockQ4_0 {
    #[inline(always)]
    fn dot(row: &[Self], columns: &Columns, column: usize) -> f32 {
        dot_in_order(row, columns.per_32(column), |block| {
            (block.d.to_f32(), nibbles(&block.qs).map(|q| q - 8))
        })
    }
}

impl RowDot for BlockIq4Nl {
    #[inline(always)]
    fn dot(row: &[Self], columns: &Columns, column: usize) -> f32 {
        dot_in_order(row, columns.per_32(column), |block| {
            let levels = nibbles(&block.qs).map(|q| NONLINEAR_LEVELS[q as usize]);
            (block.d.to_f32(), levels)
        })
    }
}
