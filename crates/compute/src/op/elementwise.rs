//! Ops on single elements.

use crate::{ComputeError, Shape, Tensor};

/// Adds `row` to every row.
#[derive(Clone, Debug, PartialEq)]
pub struct AddRow {
    /// F32 `[n]`.
    pub row: Tensor,
}

/// Multiplies every row by `row`.
#[derive(Clone, Debug, PartialEq)]
pub struct MulRow {
    /// F32 `[n]`.
    pub row: Tensor,
}

/// A gated linear unit: `activation(gate) * up`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Glu {
    /// Applied to the gate.
    pub activation: Activation,
}

/// Activation functions, exact to f32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Activation {
    /// `x / (1 + exp(-x))`
    Silu,
    /// `x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))`
    GeluTanh,
    /// `x / 2 * (1 + erf(x / sqrt(2)))`
    GeluErf,
    /// `max(x, 0)`
    Relu,
}

pub(super) fn same_shape(op: &'static str, a: Shape, b: Shape) -> Result<Shape, ComputeError> {
    if a != b {
        return Err(ComputeError::Shape {
            op,
            what: "the operands differ",
            left: a,
            right: b,
        });
    }
    Ok(a)
}

pub(super) fn check_cap(op: &'static str, cap: f32) -> Result<(), ComputeError> {
    if !(cap.is_finite() && cap > 0.0) {
        return Err(ComputeError::Parameter {
            op,
            what: "the cap (finite, positive)",
            found: f64::from(cap),
        });
    }
    Ok(())
}
