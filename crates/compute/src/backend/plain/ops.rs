//! The formulas of all ops but attention. Sums run in f64.

use super::experts;
use super::memory::Memory;
use crate::op::{Glu, LayerNorm, RmsNorm, Rotate};
use crate::{Activation, ComputeError, Inputs, Op, Rope, RopeStyle, Step, Tensor};

/// The result of one step from its operands.
pub fn compute(
    memory: &Memory,
    step: &Step,
    mut x: Vec<f32>,
    y: &[f32],
    inputs: &Inputs<'_>,
) -> Result<Vec<f32>, ComputeError> {
    let row_len = step.shape.row_len();
    match &step.op {
        Op::Embed(op) => {
            let rows = (0..step.shape.n_rows())
                .map(|token| memory.decoded_row(&op.table, inputs.row(op.index, token)));
            return Ok(rows.collect::<Result<Vec<_>, _>>()?.concat());
        }
        Op::SelectOutputs => {
            let row = |&row: &i32| &x[row as usize * row_len..][..row_len];
            return Ok(inputs.output_rows.iter().flat_map(row).copied().collect());
        }
        Op::MatMul(op) => return matmul(memory, &op.weight, &x),
        Op::Route(op) => return Ok(experts::route(op, x, step)),
        Op::ExpertMatMul(op) => return experts::expert_matmul(memory, op, &x, y, step),
        Op::Combine => return Ok(experts::combine(&x, y, step)),
        Op::RopeTable(op) => return rope_table(memory, op, inputs),
        Op::AddRow(op) => rows_with(&mut x, &memory.decoded_row(&op.row, 0)?, |x, w| x + w),
        Op::MulRow(op) => rows_with(&mut x, &memory.decoded_row(&op.row, 0)?, |x, w| x * w),
        Op::Add => rows_with(&mut x, y, |x, y| x + y),
        Op::Mul => rows_with(&mut x, y, |x, y| x * y),
        Op::Glu(Glu { activation }) => {
            rows_with(&mut x, y, |gate, up| activate(*activation, gate) * up)
        }
        Op::Scale(factor) => x.iter_mut().for_each(|x| *x *= factor),
        Op::Softcap(cap) => x.iter_mut().for_each(|x| *x = cap * (*x / cap).tanh()),
        Op::Activate(activation) => x.iter_mut().for_each(|x| *x = activate(*activation, *x)),
        Op::RmsNorm(op) => rms_norm(memory, op, &mut x, row_len)?,
        Op::LayerNorm(op) => layer_norm(memory, op, &mut x, row_len)?,
        Op::Rotate(op) => rotate(op, &mut x, y, step),
        // Not steps of this function: a reshape never becomes a step, the cache ops are in `attention`.
        Op::Reshape(_) | Op::StoreKv(_) | Op::Attend(_) => {}
    }
    Ok(x)
}

/// Applies `f` to every element of `x` and the element of `row` in its column.
fn rows_with(x: &mut [f32], row: &[f32], f: impl Fn(f32, f32) -> f32) {
    for (x, &row) in x.iter_mut().zip(row.iter().cycle()) {
        *x = f(*x, row);
    }
}

fn activate(activation: Activation, x: f32) -> f32 {
    let wide = f64::from(x);
    let value = match activation {
        Activation::Silu => wide / (1.0 + (-wide).exp()),
        Activation::GeluTanh => {
            let inner = (2.0 / std::f64::consts::PI).sqrt() * (wide + 0.044715 * wide.powi(3));
            0.5 * wide * (1.0 + inner.tanh())
        }
        Activation::GeluErf => 0.5 * wide * (1.0 + erf(wide / std::f64::consts::SQRT_2)),
        Activation::Relu => wide.max(0.0),
    };
    value as f32
}

/// The error function by its Maclaurin series, right within 2e-8 up to 5; beyond, it is 1 within 2e-12.
fn erf(x: f64) -> f64 {
    if x.abs() > 5.0 {
        return x.signum();
    }
    let mut term = x;
    let mut sum = x;
    for n in 1..200 {
        term *= -x * x / f64::from(n);
        sum += term / f64::from(2 * n + 1);
    }
    sum * std::f64::consts::FRAC_2_SQRT_PI
}

fn matmul(memory: &Memory, weight: &Tensor, x: &[f32]) -> Result<Vec<f32>, ComputeError> {
    let (n, n_rows) = (weight.shape.row_len(), weight.shape.n_rows());
    let columns = columns_of(weight, x);
    let mut out = vec![0.0; columns.len() / n * n_rows];
    for row in 0..n_rows {
        let weights = memory.decoded_row(weight, row)?;
        for (index, column) in columns.chunks_exact(n).enumerate() {
            out[index * n_rows + row] = dot(&weights, column);
        }
    }
    Ok(out)
}

/// Columns as a product with these weights sees them.
pub fn columns_of(weight: &Tensor, x: &[f32]) -> Vec<f32> {
    match weight.ty.is_quantized() {
        true => x.chunks(GROUP).flat_map(rounded).collect(),
        false => x.to_vec(),
    }
}

pub fn dot(weights: &[f32], column: &[f32]) -> f32 {
    let products = weights.iter().zip(column);
    let products = products.map(|(&w, &x)| f64::from(w) * f64::from(x));
    products.sum::<f64>() as f32
}

/// Activations that share a scale where the weights are quantized.
const GROUP: usize = 32;

/// A group as products with quantized weights see it: multiples of a 127th of its largest magnitude.
fn rounded(group: &[f32]) -> Vec<f32> {
    let largest = group.iter().fold(0f32, |largest, x| largest.max(x.abs()));
    let unit = largest / 127.0;
    group
        .iter()
        .map(|x| {
            if unit == 0.0 {
                0.0
            } else {
                (x * (127.0 / largest)).round_ties_even() * unit
            }
        })
        .collect()
}

fn rms_norm(memory: &Memory, op: &RmsNorm, x: &mut [f32], n: usize) -> Result<(), ComputeError> {
    let weight = op
        .weight
        .map(|weight| memory.decoded_row(&weight, 0))
        .transpose()?;
    for row in x.chunks_exact_mut(n.max(1)) {
        let mean = row.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>() / n as f64;
        let scale = 1.0 / (mean + f64::from(op.eps)).sqrt();
        for (index, x) in row.iter_mut().enumerate() {
            let weight = weight.as_ref().map_or(1.0, |w| f64::from(w[index]));
            *x = (f64::from(*x) * scale * weight) as f32;
        }
    }
    Ok(())
}

fn layer_norm(
    memory: &Memory,
    op: &LayerNorm,
    x: &mut [f32],
    n: usize,
) -> Result<(), ComputeError> {
    let weight = memory.decoded_row(&op.weight, 0)?;
    let bias = op
        .bias
        .map(|bias| memory.decoded_row(&bias, 0))
        .transpose()?;
    for row in x.chunks_exact_mut(n.max(1)) {
        let mean = row.iter().map(|&x| f64::from(x)).sum::<f64>() / n as f64;
        let variance = row
            .iter()
            .map(|&x| (f64::from(x) - mean).powi(2))
            .sum::<f64>()
            / n as f64;
        let scale = 1.0 / (variance + f64::from(op.eps)).sqrt();
        for (index, x) in row.iter_mut().enumerate() {
            let bias = bias.as_ref().map_or(0.0, |b| f64::from(b[index]));
            *x = ((f64::from(*x) - mean) * scale * f64::from(weight[index]) + bias) as f32;
        }
    }
    Ok(())
}

fn rope_table(memory: &Memory, op: &Rope, inputs: &Inputs<'_>) -> Result<Vec<f32>, ComputeError> {
    let factors = op
        .factors
        .map(|factors| memory.decoded_row(&factors, 0))
        .transpose()?;
    let frequencies: Vec<f32> = op.frequencies(factors.as_deref()).collect();
    let mut table = Vec::with_capacity(inputs.positions.len() * op.n_dims);
    for &position in inputs.positions {
        // The angle is rounded to f32, as the models' own code does.
        let angles = frequencies
            .iter()
            .map(|frequency| f64::from(position as f32 * frequency));
        table.extend(
            angles
                .clone()
                .map(|angle| (angle.cos() * f64::from(op.magnitude())) as f32),
        );
        table.extend(angles.map(|angle| (angle.sin() * f64::from(op.magnitude())) as f32));
    }
    Ok(table)
}

fn rotate(op: &Rotate, x: &mut [f32], table: &[f32], step: &Step) {
    let [head_dim, n_head, ..] = step.shape.dims();
    if head_dim * n_head == 0 {
        return;
    }
    for (token, table) in x
        .chunks_exact_mut(head_dim * n_head)
        .zip(table.chunks_exact(op.n_dims))
    {
        for head in token.chunks_exact_mut(head_dim) {
            for pair in 0..op.n_dims / 2 {
                let (a, b) = match op.style {
                    RopeStyle::Normal => (2 * pair, 2 * pair + 1),
                    RopeStyle::NeoX => (pair, pair + op.n_dims / 2),
                };
                let (cos, sin) = (table[pair], table[pair + op.n_dims / 2]);
                (head[a], head[b]) = (head[a] * cos - head[b] * sin, head[a] * sin + head[b] * cos);
            }
        }
    }
}
