//! The product of a weight matrix with activation columns.

use crate::{ComputeError, Shape, Tensor};

/// `weight` `[n_in, n_out]` times a value `[n_in, ..]` gives `[n_out, ..]`. Above this op quantization is invisible.
#[derive(Clone, Debug, PartialEq)]
pub struct MatMul {
    /// The weight, of any type with a codec.
    pub weight: Tensor,
}

impl MatMul {
    pub(super) fn output_shape(&self, x: Shape) -> Result<Shape, ComputeError> {
        let op = "matmul";
        let [n_in, n_out, depth, outer] = self.weight.shape.dims();
        if n_in != x.row_len() || n_in == 0 || depth != 1 || outer != 1 {
            return Err(ComputeError::Shape {
                op,
                what: "value and weight",
                left: x,
                right: self.weight.shape,
            });
        }
        check_weight(op, &self.weight)?;
        x.with(0, n_out)
    }
}

/// Checks that a weight can be multiplied with, and that its bytes can be counted.
pub(super) fn check_weight(op: &'static str, weight: &Tensor) -> Result<(), ComputeError> {
    if !weight.ty.can_decode() {
        return Err(ComputeError::Type {
            op,
            ty: weight.ty,
            what: "it has no decoder yet",
        });
    }
    weight.n_bytes()?;
    Ok(())
}
