//! Ops that pick or rename rows.

use crate::{BatchShape, ComputeError, Shape, Tensor};

/// What picks a token's row of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowIndex {
    /// Its id.
    Token,
    /// Its position in its sequence.
    Position,
    /// None: each token gets the first row.
    First,
}

/// A row of `table` (`[n_embd, n_rows]`, any type that can be decoded) for each token.
#[derive(Clone, Debug, PartialEq)]
pub struct Embed {
    /// The table.
    pub table: Tensor,
    /// What picks the row.
    pub index: RowIndex,
}

impl Embed {
    pub(super) fn output_shape(&self, batch: &BatchShape) -> Result<Shape, ComputeError> {
        let op = "embed";
        let [n_embd, n_rows, depth, outer] = self.table.shape.dims();
        if depth != 1 || outer != 1 || n_embd == 0 || n_rows == 0 {
            let right = Shape::new(&[n_embd, batch.n_tokens])?;
            return Err(ComputeError::Shape {
                op,
                what: "the table is no matrix",
                left: self.table.shape,
                right,
            });
        }
        if !self.table.ty.can_decode() {
            return Err(ComputeError::Type {
                op,
                ty: self.table.ty,
                what: "it has no decoder yet",
            });
        }
        self.table.n_bytes()?;
        Shape::new(&[n_embd, batch.n_tokens])
    }
}

/// `[n, n_tokens] -> [n, n_outputs]`.
pub(super) fn selected_shape(x: Shape, batch: &BatchShape) -> Result<Shape, ComputeError> {
    if x.dims() != [x.row_len(), batch.n_tokens, 1, 1] {
        let right = Shape::new(&[x.row_len(), batch.n_tokens])?;
        let what = "the value must have one row per token";
        return Err(ComputeError::Shape {
            op: "select_outputs",
            what,
            left: x,
            right,
        });
    }
    x.with(1, batch.n_outputs)
}

/// The new shape, if it has as many elements.
pub(super) fn reshaped(x: Shape, shape: Shape) -> Result<Shape, ComputeError> {
    if x.n_elements() != shape.n_elements() {
        let what = "the number of elements differs";
        return Err(ComputeError::Shape {
            op: "reshape",
            what,
            left: x,
            right: shape,
        });
    }
    Ok(shape)
}
