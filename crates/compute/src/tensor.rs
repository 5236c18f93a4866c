//! Shapes, buffer ids and tensor handles.

use crate::ComputeError;
use gristmill_quant::TensorType;
use std::fmt;
use std::ops::Range;

/// Four extents in ggml's order: the first is contiguous in memory; missing ones are 1.
///
/// Their product fits a `usize` by construction. An extent may be 0: a batch without outputs is legal.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Shape([usize; 4]);

impl Shape {
    /// No elements: the result of an op that only stores.
    pub const EMPTY: Self = Self([0, 1, 1, 1]);

    /// The shape of `dims`, which has one to four extents.
    ///
    /// # Errors
    /// `TooLarge` when there are more than four or when their product overflows.
    pub fn new(dims: &[usize]) -> Result<Self, ComputeError> {
        let too_large = ComputeError::TooLarge {
            what: "tensor shape",
        };
        if dims.is_empty() || dims.len() > 4 {
            return Err(too_large);
        }
        let mut extents = [1; 4];
        extents[..dims.len()].copy_from_slice(dims);
        let product = extents
            .iter()
            .try_fold(1usize, |n, &e| n.checked_mul(e.max(1)));
        // A quarter of the range leaves room for byte sizes of f32 elements.
        match product {
            Some(n) if n <= usize::MAX / 8 => Ok(Self(extents)),
            _ => Err(too_large),
        }
    }

    /// The four extents.
    pub fn dims(&self) -> [usize; 4] {
        self.0
    }

    /// First extent: elements of one contiguous row.
    pub fn row_len(&self) -> usize {
        self.0[0]
    }

    /// Product of all extents but the first.
    pub fn n_rows(&self) -> usize {
        self.0[1] * self.0[2] * self.0[3]
    }

    /// Number of elements.
    pub fn n_elements(&self) -> usize {
        self.0[0] * self.n_rows()
    }

    /// The same shape with another extent along one axis (0..4).
    pub(crate) fn with(mut self, axis: usize, extent: usize) -> Result<Self, ComputeError> {
        self.0[axis] = extent;
        Self::new(&self.0)
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rank = self
            .0
            .iter()
            .rposition(|&e| e != 1)
            .map_or(1, |last| last + 1);
        write!(f, "[")?;
        for (axis, extent) in self.0[..rank].iter().enumerate() {
            write!(f, "{}{extent}", if axis == 0 { "" } else { ", " })?;
        }
        write!(f, "]")
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A buffer of one backend; ids of different backends are unrelated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BufferId(pub u32);

/// A handle to a weight or a cache in a backend's memory. Holds no memory; copies are free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// Index of the device (backend) that owns the buffer.
    pub device: usize,
    /// The buffer.
    pub buffer: BufferId,
    /// First byte in the buffer.
    pub offset: usize,
    /// Element type.
    pub ty: TensorType,
    /// Extents, contiguous one first. Rows follow each other without gaps.
    pub shape: Shape,
}

impl Tensor {
    /// Bytes of one row.
    ///
    /// # Errors
    /// `Quant` when the row length is no multiple of the type's block length.
    pub fn row_bytes(&self) -> Result<usize, ComputeError> {
        let bytes = self
            .ty
            .row_bytes(self.shape.row_len() as u64)
            .map_err(|source| ComputeError::Quant {
                op: "tensor",
                source,
            })?;
        usize::try_from(bytes).map_err(|_| ComputeError::TooLarge { what: "tensor row" })
    }

    /// Rows of a matrix, as a matrix in the same memory: one of the parts that are stored as one weight.
    ///
    /// # Errors
    /// `Shape` for a tensor that is no matrix or lacks the rows, and as [`Tensor::row_bytes`].
    pub fn rows(&self, rows: Range<usize>) -> Result<Tensor, ComputeError> {
        let [row_len, n_rows, depth, outer] = self.shape.dims();
        let shape = Shape::new(&[row_len, rows.len()])?;
        if rows.end > n_rows || rows.start > rows.end || (depth, outer) != (1, 1) {
            return Err(ComputeError::Shape {
                op: "tensor",
                what: "rows of a weight",
                left: shape,
                right: self.shape,
            });
        }
        // No more than the bytes of the whole.
        let skipped = self.row_bytes()?.saturating_mul(rows.start);
        Ok(Tensor {
            offset: self.offset.saturating_add(skipped),
            shape,
            ..*self
        })
    }

    /// Elements of a vector of floats, as a vector in the same memory.
    ///
    /// # Errors
    /// As [`Tensor::rows`].
    pub fn elements(&self, elements: Range<usize>) -> Result<Tensor, ComputeError> {
        let column = Tensor {
            shape: Shape::new(&[1, self.shape.row_len()])?,
            ..*self
        };
        let shape = Shape::new(&[elements.len()])?;
        Ok(Tensor {
            shape,
            ..column.rows(elements)?
        })
    }

    /// Bytes of the whole tensor.
    ///
    /// # Errors
    /// As [`Tensor::row_bytes`], and `TooLarge` when the product overflows.
    pub fn n_bytes(&self) -> Result<usize, ComputeError> {
        self.row_bytes()?
            .checked_mul(self.shape.n_rows())
            .ok_or(ComputeError::TooLarge { what: "tensor" })
    }
}
