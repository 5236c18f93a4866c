//! Norms and ops on single elements, row by row.

use super::parallel::for_rows;
use super::tensors::floats;
use super::{Run, output, output_and_operand, start_from_first};
use crate::op::{LayerNorm, RmsNorm};
use crate::{Activation, ComputeError, Step, Tensor};
use gristmill_kernels as kernels;

/// Work of an exponential, beside a load and a store.
pub const EXP_COST: usize = 8;

impl Run<'_> {
    /// `f` on every element of the operand.
    pub fn unary(
        &self,
        step: &Step,
        values: &mut [f32],
        f: impl Fn(&mut [f32]) + Sync,
    ) -> Result<(), ComputeError> {
        start_from_first(step, values)?;
        let out = output(step, values)?;
        for_rows(self.pool, out, step.shape.row_len(), EXP_COST, |_, x| f(x));
        Ok(())
    }

    /// `f` on every pair of elements.
    pub fn binary(
        &self,
        step: &Step,
        values: &mut [f32],
        f: impl Fn(&mut [f32], &[f32]) + Sync,
    ) -> Result<(), ComputeError> {
        self.binary_with_cost(step, values, 1, f)
    }

    pub fn binary_with_cost(
        &self,
        step: &Step,
        values: &mut [f32],
        cost: usize,
        f: impl Fn(&mut [f32], &[f32]) + Sync,
    ) -> Result<(), ComputeError> {
        start_from_first(step, values)?;
        let n = step.shape.row_len();
        let (out, other) = output_and_operand(step, step.operands[1], values)?;
        for_rows(self.pool, out, n, cost, |first, x| {
            f(x, &other[first * n..][..x.len()])
        });
        Ok(())
    }

    /// `f` on every row and one vector.
    pub fn with_row(
        &self,
        step: &Step,
        row: &Tensor,
        values: &mut [f32],
        f: impl Fn(&mut [f32], &[f32]) + Sync,
    ) -> Result<(), ComputeError> {
        start_from_first(step, values)?;
        let bytes = self.tensor(row)?;
        let row = floats(row, &bytes)?;
        let n = step.shape.row_len().max(1);
        for_rows(self.pool, output(step, values)?, n, 1, |_, rows| {
            rows.chunks_exact_mut(n).for_each(|x| f(x, row));
        });
        Ok(())
    }

    pub fn activate(
        &self,
        step: &Step,
        activation: Activation,
        values: &mut [f32],
    ) -> Result<(), ComputeError> {
        match activation {
            Activation::Silu => self.unary(step, values, kernels::silu_assign),
            Activation::GeluTanh => self.unary(step, values, kernels::gelu_tanh_assign),
            Activation::GeluErf => self.unary(step, values, gelu_erf_assign),
            Activation::Relu => self.unary(step, values, relu_assign),
        }
    }

    pub fn glu(
        &self,
        step: &Step,
        activation: Activation,
        values: &mut [f32],
    ) -> Result<(), ComputeError> {
        let then_mul = |f: fn(&mut [f32])| {
            move |gate: &mut [f32], up: &[f32]| {
                f(gate);
                kernels::mul_assign(gate, up);
            }
        };
        match activation {
            Activation::Silu => {
                self.binary_with_cost(step, values, EXP_COST, kernels::silu_mul_assign)
            }
            Activation::GeluTanh => {
                self.binary_with_cost(step, values, EXP_COST, kernels::gelu_tanh_mul_assign)
            }
            Activation::GeluErf => {
                self.binary_with_cost(step, values, EXP_COST, then_mul(gelu_erf_assign))
            }
            Activation::Relu => self.binary(step, values, then_mul(relu_assign)),
        }
    }

    pub fn rms_norm(
        &self,
        op: &RmsNorm,
        step: &Step,
        values: &mut [f32],
        kernel: impl Fn(&[f32], Option<&[f32]>, f32, &mut [f32]) + Sync,
    ) -> Result<(), ComputeError> {
        let bytes = op
            .weight
            .as_ref()
            .map(|weight| self.tensor(weight))
            .transpose()?;
        let weight = match (&op.weight, &bytes) {
            (Some(weight), Some(bytes)) => Some(floats(weight, bytes)?),
            _ => None,
        };
        self.norm(step, values, |x, out| kernel(x, weight, op.eps, out))
    }

    pub fn layer_norm(
        &self,
        op: &LayerNorm,
        step: &Step,
        values: &mut [f32],
    ) -> Result<(), ComputeError> {
        let second = op.bias.as_ref().unwrap_or(&op.weight);
        self.tensor_pair(&op.weight, second, |weight, bias| {
            let weight = floats(&op.weight, weight)?;
            let bias = floats(second, bias)?;
            let bias = op.bias.is_some().then_some(bias);
            self.norm(step, values, |x, out| {
                kernels::layer_norm(x, weight, bias, op.eps, out)
            })
        })
    }

    /// `f(x, out)` on every row.
    fn norm(
        &self,
        step: &Step,
        values: &mut [f32],
        f: impl Fn(&[f32], &mut [f32]) + Sync,
    ) -> Result<(), ComputeError> {
        let n = step.shape.row_len().max(1);
        let (out, x) = output_and_operand(step, step.operands[0], values)?;
        for_rows(self.pool, out, n, 2, |first, rows| {
            let x = x[first * n..].chunks_exact(n);
            rows.chunks_exact_mut(n)
                .zip(x)
                .for_each(|(out, x)| f(x, out));
        });
        Ok(())
    }
}

fn relu_assign(x: &mut [f32]) {
    x.iter_mut().for_each(|x| *x = x.max(0.0));
}

fn gelu_erf_assign(x: &mut [f32]) {
    let gelu = |x: f32| 0.5 * x * erfc(-f64::from(x) * std::f64::consts::FRAC_1_SQRT_2) as f32;
    x.iter_mut().for_each(|x| *x = gelu(*x));
}

/// `1 - erf(x)`, relative error below 1.2e-7 everywhere: the Chebyshev fit of Numerical Recipes, section 6.2.
fn erfc(x: f64) -> f64 {
    const FIT: [f64; 10] = [
        -1.265_512_23,
        1.000_023_68,
        0.374_091_96,
        0.096_784_18,
        -0.186_288_06,
        0.278_868_07,
        -1.135_203_98,
        1.488_515_87,
        -0.822_152_23,
        0.170_872_77,
    ];
    let t = 1.0 / (1.0 + 0.5 * x.abs());
    let fit = FIT.iter().rev().fold(0.0, |sum, &c| sum * t + c);
    let tail = t * (fit - x * x).exp();
    if x >= 0.0 { tail } else { 2.0 - tail }
}
