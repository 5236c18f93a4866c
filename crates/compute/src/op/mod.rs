//! The closed list of ops. An op is plain data; each family file holds the data of its ops and, beside it, the
//! rule for the shape of their result. Backends dispatch on [`Op`].

mod attention;
mod elementwise;
mod experts;
mod matmul;
mod norm;
mod rope;
mod rows;

pub use attention::{Attend, Attention, KvLayer, StoreKv};
pub use elementwise::{Activation, AddRow, Glu, MulRow};
pub use experts::{ExpertMatMul, Route};
pub use matmul::MatMul;
pub use norm::{LayerNorm, RmsNorm};
pub use rope::{Rope, RopeStyle, Rotate, Yarn};
pub use rows::{Embed, RowIndex};

use crate::{BatchShape, ComputeError, Shape, Tensor};
use gristmill_quant as quant;

/// One op with its parameters and tensors. Values (activations) are f32 and not part of it.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// Rows of a table by token id or position: `-> [n_embd, n_tokens]`.
    Embed(Embed),
    /// Rows of a value by output index: `[n, n_tokens] -> [n, n_outputs]`.
    SelectOutputs,
    /// The same elements under another shape; no work.
    Reshape(Shape),
    /// Weight times columns: `[n_in, ..] -> [n_out, ..]`.
    MatMul(MatMul),
    /// Each token's experts and their weights: `[n_experts, n_tokens] -> [2 * n_used, n_tokens]`.
    Route(Route),
    /// Weights of each token's experts times columns: `-> [n_out, n_used, n_tokens]`.
    ExpertMatMul(ExpertMatMul),
    /// Sum of what a token's experts gave, by their weights: `[n, n_used, n_tokens] -> [n, n_tokens]`.
    Combine,
    /// Adds a row to every row.
    AddRow(AddRow),
    /// Multiplies every row by a row.
    MulRow(MulRow),
    /// Sum of two values of one shape.
    Add,
    /// Product, element by element.
    Mul,
    /// Multiplies by a number.
    Scale(f32),
    /// `cap * tanh(x / cap)`.
    Softcap(f32),
    /// Root mean square norm of each row.
    RmsNorm(RmsNorm),
    /// Mean and variance norm of each row.
    LayerNorm(LayerNorm),
    /// An activation function.
    Activate(Activation),
    /// `activation(gate) * up`.
    Glu(Glu),
    /// Cosines and sines of every position: `-> [n_dims, n_tokens]`, per token all cosines, then all sines.
    RopeTable(Rope),
    /// Rotates pairs of each head by a rope table.
    Rotate(Rotate),
    /// Writes keys and values of the batch into the cache. Its result is empty.
    StoreKv(StoreKv),
    /// Attention of each query to its sequence's cache: `-> [value_dim * n_head, n_tokens]`.
    Attend(Attend),
}

impl Op {
    /// The op's name, as errors print it.
    pub fn name(&self) -> &'static str {
        match self {
            Op::Embed(_) => "embed",
            Op::SelectOutputs => "select_outputs",
            Op::Reshape(_) => "reshape",
            Op::MatMul(_) => "matmul",
            Op::Route(_) => "route",
            Op::ExpertMatMul(_) => "expert_matmul",
            Op::Combine => "combine",
            Op::AddRow(_) => "add_row",
            Op::MulRow(_) => "mul_row",
            Op::Add => "add",
            Op::Mul => "mul",
            Op::Scale(_) => "scale",
            Op::Softcap(_) => "softcap",
            Op::RmsNorm(_) => "rms_norm",
            Op::LayerNorm(_) => "layer_norm",
            Op::Activate(_) => "activate",
            Op::Glu(_) => "glu",
            Op::RopeTable(_) => "rope_table",
            Op::Rotate(_) => "rope",
            Op::StoreKv(_) => "store_kv",
            Op::Attend(_) => "attention",
        }
    }

    /// The weights and caches that the op reads or writes.
    pub fn tensors(&self) -> impl Iterator<Item = &Tensor> {
        let pair = match self {
            Op::Embed(op) => [Some(&op.table), None],
            Op::MatMul(op) => [Some(&op.weight), None],
            Op::ExpertMatMul(op) => [Some(&op.weight), None],
            Op::AddRow(op) => [Some(&op.row), None],
            Op::MulRow(op) => [Some(&op.row), None],
            Op::RmsNorm(op) => [op.weight.as_ref(), None],
            Op::LayerNorm(op) => [Some(&op.weight), op.bias.as_ref()],
            Op::RopeTable(op) => [op.factors.as_ref(), None],
            Op::StoreKv(op) => [Some(&op.layer.k), Some(&op.layer.v)],
            Op::Attend(op) => [Some(&op.layer.k), Some(&op.layer.v)],
            Op::SelectOutputs
            | Op::Reshape(_)
            | Op::Route(_)
            | Op::Combine
            | Op::Add
            | Op::Mul
            | Op::Scale(_)
            | Op::Softcap(_) => [None, None],
            Op::Activate(_) | Op::Glu(_) | Op::Rotate(_) => [None, None],
        };
        pair.into_iter().flatten()
    }

    /// Whether the result may take the memory of the first operand while it is computed.
    pub(crate) fn works_in_place(&self) -> bool {
        matches!(
            self,
            Op::AddRow(_)
                | Op::MulRow(_)
                | Op::Add
                | Op::Mul
                | Op::Scale(_)
                | Op::Softcap(_)
                | Op::Activate(_)
                | Op::Glu(_)
                | Op::Rotate(_)
        )
    }

    /// Shape of the result for operands of the given shapes.
    ///
    /// # Errors
    /// `Shape` naming the op and both shapes, `Type` for a tensor type that cannot take its place, `Parameter`.
    pub fn output_shape(
        &self,
        operands: &[Shape],
        batch: &BatchShape,
    ) -> Result<Shape, ComputeError> {
        match (self, operands) {
            (Op::Embed(op), []) => op.output_shape(batch),
            (Op::SelectOutputs, &[x]) => rows::selected_shape(x, batch),
            (Op::Reshape(shape), &[x]) => rows::reshaped(x, *shape),
            (Op::MatMul(op), &[x]) => op.output_shape(x),
            (Op::Route(op), &[logits]) => op.output_shape(logits),
            (Op::ExpertMatMul(op), &[x, routes]) => op.output_shape(x, routes),
            (Op::Combine, &[x, routes]) => experts::combined_shape(x, routes),
            (Op::AddRow(AddRow { row }) | Op::MulRow(MulRow { row }), &[x]) => {
                row_operand(self.name(), row, x).map(|()| x)
            }
            (Op::Add | Op::Mul | Op::Glu(_), &[a, b]) => elementwise::same_shape(self.name(), a, b),
            (Op::Scale(_) | Op::Activate(_), &[x]) => Ok(x),
            (Op::Softcap(cap), &[x]) => elementwise::check_cap(self.name(), *cap).map(|()| x),
            (Op::RmsNorm(op), &[x]) => op.output_shape(x),
            (Op::LayerNorm(op), &[x]) => op.output_shape(x),
            (Op::RopeTable(op), []) => op.table_shape(batch),
            (Op::Rotate(op), &[x, table]) => op.output_shape(x, table),
            (Op::StoreKv(op), &[k, v]) => op.output_shape(k, v, batch),
            (Op::Attend(op), &[q]) => op.output_shape(q, batch),
            // The builder is the only one who makes nodes, and it gives each op its operands.
            _ => Err(ComputeError::Parameter {
                op: self.name(),
                what: "the number of operands",
                found: operands.len() as f64,
            }),
        }
    }
}

/// Checks an F32 vector that is applied to every row of `x`: `[n]` for `[n, ..]`.
fn row_operand(op: &'static str, row: &Tensor, x: Shape) -> Result<(), ComputeError> {
    float_vector(op, row, x.row_len(), x)
}

/// Checks that `row` is an F32 vector of `n` elements; `x` is the shape to show beside it.
fn float_vector(op: &'static str, row: &Tensor, n: usize, x: Shape) -> Result<(), ComputeError> {
    if row.ty != quant::F32 {
        return Err(ComputeError::Type {
            op,
            ty: row.ty,
            what: "vectors are f32",
        });
    }
    if row.shape.dims() != [n, 1, 1, 1] {
        return Err(ComputeError::Shape {
            op,
            what: "value and vector",
            left: x,
            right: row.shape,
        });
    }
    Ok(())
}
