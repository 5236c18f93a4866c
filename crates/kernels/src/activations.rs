//! Columns of f32 activations, prepared for a product with weights of one type.

use gristmill_quant::TensorType;

use crate::error::check_length;
use crate::split::for_each_chunk;
use crate::table::{Kernels, kernels};
use crate::{KernelError, Pool};

/// Elements that share one scale in the [`Layout::Int8`] layout.
pub(crate) const GROUP: usize = 32;

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

/// [`GROUP`] activations in the [`Layout::Int8`] layout: value = scale * code.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct ActivationGroup {
    /// -127..=127.
    pub codes: [i8; GROUP],
    pub scale: f32,
    /// scale * sum of the codes.
    pub scaled_sum: f32,
    /// Sums of the codes of each half.
    pub sums: [i16; 2],
}

const _: () = assert!(size_of::<ActivationGroup>() == 44);

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
    /// [n / 32, n_columns], `Int8` only.
    pub(crate) groups: Vec<ActivationGroup>,
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

    /// Bytes that so many columns take, prepared for weights of type `ty`.
    pub fn bytes_of(ty: TensorType, n: usize, n_columns: usize) -> usize {
        let column = match Layout::of(ty) {
            Layout::Float => n * size_of::<f32>(),
            Layout::Int8 => n / GROUP * size_of::<ActivationGroup>(),
        };
        column.saturating_mul(n_columns)
    }

    fn resize(&mut self, layout: Layout, n: usize, n_columns: usize) {
        (self.layout, self.n, self.n_columns) = (layout, n, n_columns);
        match layout {
            Layout::Float => self.floats.resize(n * n_columns, 0.0),
            Layout::Int8 => self
                .groups
                .resize(n / GROUP * n_columns, ActivationGroup::default()),
        }
    }

    /// One `Float` column.
    pub(crate) fn float_column(&self, column: usize) -> &[f32] {
        &self.floats[column * self.n..][..self.n]
    }

    /// One `Int8` column.
    pub(crate) fn int8_column(&self, column: usize) -> &[ActivationGroup] {
        let n_groups = self.n / GROUP;
        &self.groups[column * n_groups..][..n_groups]
    }

    /// The values that the product sees: what was given, or for quantized weights its 8-bit rounding.
    pub fn values(&self, column: usize, out: &mut [f32]) {
        match self.layout {
            Layout::Float => out.copy_from_slice(self.float_column(column)),
            Layout::Int8 => {
                for (out, group) in out.chunks_exact_mut(GROUP).zip(self.int8_column(column)) {
                    for (out, &code) in out.iter_mut().zip(&group.codes) {
                        *out = group.scale * f32::from(code);
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
    // A chunk of about 16 thousand elements takes longer than handing it out.
    let columns_per_chunk = (16384 / n).max(1);
    for_each_chunk(
        pool,
        &mut out.groups,
        columns_per_chunk * (n / GROUP),
        |chunk, groups| {
            let x = &x[chunk * columns_per_chunk * n..][..groups.len() * GROUP];
            (kernels.quantize)(x, groups);
        },
    );
}
