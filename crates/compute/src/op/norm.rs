//! Norms over the first extent.

use super::{float_vector, row_operand};
use crate::{ComputeError, Shape, Tensor};

/// `x / sqrt(mean(x^2) + eps) * weight`, row by row; reshape to `[head_dim, n_head * n_tokens]` for norms per head.
#[derive(Clone, Debug, PartialEq)]
pub struct RmsNorm {
    /// F32 `[n]`; none multiplies by 1.
    pub weight: Option<Tensor>,
    /// Added to the mean square.
    pub eps: f32,
}

impl RmsNorm {
    pub(super) fn output_shape(&self, x: Shape) -> Result<Shape, ComputeError> {
        check_eps("rms_norm", self.eps)?;
        if let Some(weight) = &self.weight {
            row_operand("rms_norm", weight, x)?;
        }
        Ok(x)
    }
}

/// `(x - mean(x)) / sqrt(variance(x) + eps) * weight + bias`, row by row, variance over n.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerNorm {
    /// F32 `[n]`.
    pub weight: Tensor,
    /// F32 `[n]`.
    pub bias: Option<Tensor>,
    /// Added to the variance.
    pub eps: f32,
}

impl LayerNorm {
    pub(super) fn output_shape(&self, x: Shape) -> Result<Shape, ComputeError> {
        check_eps("layer_norm", self.eps)?;
        row_operand("layer_norm", &self.weight, x)?;
        if let Some(bias) = &self.bias {
            float_vector("layer_norm", bias, x.row_len(), x)?;
        }
        Ok(x)
    }
}

fn check_eps(op: &'static str, eps: f32) -> Result<(), ComputeError> {
    if !(eps.is_finite() && eps >= 0.0) {
        return Err(ComputeError::Parameter {
            op,
            what: "eps (finite, not negative)",
            found: f64::from(eps),
        });
    }
    Ok(())
}
