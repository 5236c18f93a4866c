//! Sums of products of floats.

use bytemuck::{Pod, Zeroable};
use gristmill_quant::bf16_to_f32;
use gristmill_quant::block::Half;

use super::columns::Columns;
use super::product::RowDot;
use super::{Lanes, sum_lanes};

/// An f32, low byte first.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(transparent)]
pub(super) struct Single([u8; 4]);

/// A bfloat16, low byte first.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(transparent)]
pub(super) struct Bf16([u8; 2]);

/// A sum of products in four registers.
#[inline(always)]
pub(super) fn dot(x: &[f32], y: &[f32]) -> f32 {
    dot_alone(x, y, |x| x, sum_neighbours)
}

/// A column alone: four registers, which `end` makes one number of when they are added up.
#[inline(always)]
fn dot_alone<T: Copy>(
    x: &[T],
    y: &[f32],
    value: impl Fn(T) -> f32,
    end: impl Fn(Lanes) -> f32,
) -> f32 {
    let ((x, x_rest), (y, y_rest)) = (x.as_chunks::<32>(), y.as_chunks::<32>());
    let mut sums = [0.0f32; 32];
    for (x, y) in x.iter().zip(y) {
        for (sum, (&x, &y)) in sums.iter_mut().zip(x.iter().zip(y)) {
            *sum = value(x).mul_add(y, *sum);
        }
    }
    let sum = end(std::array::from_fn(|i| {
        (sums[i] + sums[i + 16]) + (sums[i + 8] + sums[i + 24])
    }));
    let rest = x_rest.iter().zip(y_rest);
    rest.fold(f64::from(sum), |sum, (&x, y)| sum + f64::from(value(x) * y)) as f32
}

/// Several columns: one register each.
#[inline(always)]
fn dot_in_batch<T: Copy>(x: &[T], y: &[f32], value: impl Fn(T) -> f32) -> f32 {
    let ((x, x_rest), (y, y_rest)) = (x.as_chunks::<8>(), y.as_chunks::<8>());
    let mut sums = Lanes::default();
    for (x, y) in x.iter().zip(y) {
        for (sum, (&x, &y)) in sums.iter_mut().zip(x.iter().zip(y)) {
            *sum = value(x).mul_add(y, *sum);
        }
    }
    for (sum, (&x, &y)) in sums.iter_mut().zip(x_rest.iter().zip(y_rest)) {
        *sum = value(x).mul_add(y, *sum);
    }
    sum_lanes(sums)
}

/// The sum of the lanes, neighbours first after the halves.
#[inline(always)]
fn sum_neighbours([a, b, c, d, e, f, g, h]: Lanes) -> f32 {
    ((a + e) + (b + f)) + ((c + g) + (d + h))
}

#[inline(always)]
fn dot_of<T: Copy>(
    row: &[T],
    columns: &Columns,
    column: usize,
    value: impl Fn(T) -> f32,
    end: impl Fn(Lanes) -> f32,
) -> f32 {
    let x = columns.floats(column);
    if columns.n_columns == 1 {
        dot_alone(row, x, value, end)
    } else {
        dot_in_batch(row, x, value)
    }
}

impl RowDot for Single {
    #[inline(always)]
    fn dot(row: &[Self], columns: &Columns, column: usize) -> f32 {
        let value = |Self(bytes)| f32::from_le_bytes(bytes);
        dot_of(row, columns, column, value, sum_neighbours)
    }
}

impl RowDot for Half {
    #[inline(always)]
    fn dot(row: &[Self], columns: &Columns, column: usize) -> f32 {
        dot_of(row, columns, column, Half::to_f32, sum_neighbours)
    }
}

impl RowDot for Bf16 {
    #[inline(always)]
    fn dot(row: &[Self], columns: &Columns, column: usize) -> f32 {
        let value = |Self(bytes)| bf16_to_f32(u16::from_le_bytes(bytes));
        dot_of(row, columns, column, value, sum_lanes)
    }
}
