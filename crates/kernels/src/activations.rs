//! Columns of f32 activations, prepared for a product with weights of one type.

use gristmill_quant::TensorType;

use crate::error::check_length;
use crate::split::SendPtr;
use crate::table::{Kernels, kernels};
use crate::{KernelError, Pool};

/// Elements that share one scale in the [`Layout::Int8`] layout.
pub(crate) const GROUP: usize = 32;
/// Elements whose codes are summed together.
pub(crate) const SUM_GROUP: usize = 16;

/// How activations are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Layout {
    /// As they are: for weights that are plain floats.
    #[default]
    Float,
    /// 8-bit codes with one f32 scale per [`GROUP`]: for quantized weights.
    Int8,
}

impl Layout {
    /// The layout that goes with weights of type `ty`.
    pub(crate) fn of(ty: TensorType) -> Self {
        if ty.is_quantized() {
            Self::Int8
        } else {
            Self::Float
        }
    }
}

/// f32 columns in the layout that a product wants; keeps its allocations between uses.
///
/// All quantized weight types share one layout and all float types another, so columns prepared for one type
/// serve every other of its kind ([`is_for`](Self::is_for)).
#[derive(Debug, Default)]
pub struct Activations {
    pub(crate) layout: Layout,
    pub(crate) n: usize,
    pub(crate) n_columns: usize,
    /// [n, n_columns], `Float` only.
    pub(crate) floats: Vec<f32>,
    /// [n, n_columns], `Int8` only, as all below. -127..=127.
    pub(crate) codes: Vec<i8>,
    /// [n / 32, n_columns]: value = scale * code.
    pub(crate) scales: Vec<f32>,
    /// [n / 32, n_columns]: scale * sum of the group's codes.
    pub(crate) scaled_sums: Vec<f32>,
    /// [n / 16, n_columns]: sums of codes.
    pub(crate) sums: Vec<i16>,
}

/// One column of `Int8` activations, to be written.
pub(crate) struct Int8Column<'a> {
    pub codes: &'a mut [i8],
    pub scales: &'a mut [f32],
    pub scaled_sums: &'a mut [f32],
    pub sums: &'a mut [i16],
}

impl Activations {
    /// No columns yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Elements per column.
    pub fn n(&self) -> usize {
        self.n
    }

    /// Number of columns.
    pub fn n_columns(&self) -> usize {
        self.n_columns
    }

    /// Whether these columns can be multiplied with weights of type `ty`.
    pub fn is_for(&self, ty: TensorType) -> bool {
        self.layout == Layout::of(ty)
    }

    fn resize(&mut self, layout: Layout, n: usize, n_columns: usize) {
        (self.layout, self.n, self.n_columns) = (layout, n, n_columns);
        match layout {
            Layout::Float => self.floats.resize(n * n_columns, 0.0),
            Layout::Int8 => {
                self.codes.resize(n * n_columns, 0);
                self.scales.resize(n / GROUP * n_columns, 0.0);
                self.scaled_sums.resize(n / GROUP * n_columns, 0.0);
                self.sums.resize(n / SUM_GROUP * n_columns, 0);
            }
        }
    }

    /// The values that the product sees: what was given, or for quantized weights its 8-bit rounding.
    pub fn values(&self, column: usize, out: &mut [f32]) {
        match self.layout {
            Layout::Float => out.copy_from_slice(&self.floats[column * self.n..][..self.n]),
            Layout::Int8 => {
                let codes = self.codes[column * self.n..][..self.n].chunks_exact(GROUP);
                let scales = &self.scales[column * (self.n / GROUP)..];
                for ((out, codes), scale) in out.chunks_exact_mut(GROUP).zip(codes).zip(scales) {
                    for (out, &code) in out.iter_mut().zip(codes) {
                        *out = scale * f32::from(code);
                    }
                }
            }
        }
    }
}

/// Prepares the columns `x` [n, n_columns] for products with weights of type `ty`.
///
/// # Errors
/// `Length` when `x` has another length than n * n_columns, or `n` is not a whole number of blocks of `ty`.
pub fn prepare(
    pool: &Pool,
    ty: TensorType,
    x: &[f32],
    n: usize,
    n_columns: usize,
    out: &mut Activations,
) -> Result<(), KernelError> {
    prepare_with(kernels(), pool, ty, x, n, n_columns, out)
}

pub(crate) fn prepare_with(
    kernels: &Kernels,
    pool: &Pool,
    ty: TensorType,
    x: &[f32],
    n: usize,
    n_columns: usize,
    out: &mut Activations,
) -> Result<(), KernelError> {
    check_length("activations", x.len(), n.saturating_mul(n_columns))?;
    let layout = Layout::of(ty);
    if layout == Layout::Int8 {
        check_length("activation column", n, n.next_multiple_of(GROUP))?;
    }
    out.resize(layout, n, n_columns);
    if x.is_empty() {
        return Ok(());
    }
    match layout {
        Layout::Float => out.floats.copy_from_slice(x),
        Layout::Int8 => quantize_columns(kernels, pool, x, out),
    }
    Ok(())
}

fn quantize_columns(kernels: &Kernels, pool: &Pool, x: &[f32], out: &mut Activations) {
    let n = out.n;
    let (n_groups, n_sums) = (n / GROUP, n / SUM_GROUP);
    let codes = SendPtr(out.codes.as_mut_ptr());
    let scales = SendPtr(out.scales.as_mut_ptr());
    let scaled_sums = SendPtr(out.scaled_sums.as_mut_ptr());
    let sums = SendPtr(out.sums.as_mut_ptr());
    // A chunk of about 16 thousand elements takes longer than handing it out.
    let columns_per_chunk = (16384 / n).max(1);
    pool.run(out.n_columns.div_ceil(columns_per_chunk), |chunk| {
        let first = chunk * columns_per_chunk;
        for column in first..(first + columns_per_chunk).min(out.n_columns) {
            // SAFETY: column < n_columns and the vectors were resized to n_columns parts of these lengths; each column
            // is handed out once while `out` is borrowed mutably.
            let part = unsafe {
                Int8Column {
                    codes: std::slice::from_raw_parts_mut(codes.get().add(column * n), n),
                    scales: std::slice::from_raw_parts_mut(
                        scales.get().add(column * n_groups),
                        n_groups,
                    ),
                    scaled_sums: std::slice::from_raw_parts_mut(
                        scaled_sums.get().add(column * n_groups),
                        n_groups,
                    ),
                    sums: std::slice::from_raw_parts_mut(sums.get().add(column * n_sums), n_sums),
                }
            };
            (kernels.quantize_column)(&x[column * n..][..n], part);
        }
    });
}
