//! The graph and its builder. Shapes are checked as the graph is built.

use crate::op::{
    AddRow, Attend, Embed, ExpertMatMul, Glu, LayerNorm, MatMul, MulRow, RmsNorm, Rotate, Route,
    RowIndex, StoreKv,
};
use crate::{Activation, Attention, Changes, ComputeError, KvLayer, Op, Rope, Shape, Tensor};
use std::sync::Arc;

/// How many tokens one execution takes, and how much of everything else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct BatchShape {
    /// Tokens of the batch.
    pub n_tokens: usize,
    /// Rows that `select_outputs` keeps; may be 0.
    pub n_outputs: usize,
    /// Rows of the page table.
    pub n_sequences: usize,
    /// Entries of each row of the page table.
    pub max_pages: usize,
}

/// A value of a graph: `f32`, of a shape known when it is built. Only meaningful for the graph that made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Value(u32);

impl Value {
    /// Index of the node that computes it.
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// One op of a graph with its operands.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// What is computed.
    pub op: Op,
    /// The operands, earlier nodes of the same graph.
    pub operands: Vec<Value>,
    /// Shape of the result.
    pub shape: Shape,
    /// The device it was placed on; the tensors of the op decide where it has any.
    pub device: usize,
}

/// A checked graph: nodes in the order in which they were built, which is the order of execution.
#[derive(Clone, Debug, PartialEq)]
pub struct Graph {
    nodes: Vec<Node>,
    outputs: Vec<Value>,
    batch: BatchShape,
}

impl Graph {
    /// The nodes, operands before users.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The values that an execution returns, in the order given to `finish`.
    pub fn outputs(&self) -> &[Value] {
        &self.outputs
    }

    /// The batch that the graph is for.
    pub fn batch(&self) -> &BatchShape {
        &self.batch
    }

    /// Shape of a value of this graph.
    pub fn shape(&self, value: Value) -> Option<Shape> {
        self.nodes.get(value.index()).map(|node| node.shape)
    }
}

/// Builds a graph node by node.
///
/// Methods return values at once, so that a model reads as its formulas do. The first mistake is kept, what is
/// built on it is ignored, and [`GraphBuilder::finish`] reports it.
#[derive(Debug)]
pub struct GraphBuilder {
    nodes: Vec<Node>,
    batch: BatchShape,
    device: usize,
    tables: Vec<(Rope, usize, Value)>,
    error: Option<ComputeError>,
    /// What adapters change, where there are any.
    pub(crate) changes: Option<Arc<Changes>>,
}

impl GraphBuilder {
    /// An empty graph for one batch shape, placed on device 0.
    pub fn new(batch: BatchShape) -> Self {
        let error = Shape::new(&[batch.n_tokens, batch.n_outputs.max(1)]).err();
        let table = Shape::new(&[batch.max_pages, batch.n_sequences]).err();
        Self {
            nodes: Vec::new(),
            batch,
            device: 0,
            tables: Vec::new(),
            error: error.or(table),
            changes: None,
        }
    }

    /// The batch that the graph is for.
    pub fn batch(&self) -> &BatchShape {
        &self.batch
    }

    /// Places the following nodes on a device. Nodes with tensors run where these are, whatever is said here.
    pub fn place(&mut self, device: usize) {
        self.device = device;
    }

    /// Shape of a value; an empty shape after a mistake.
    pub fn shape(&self, value: Value) -> Shape {
        self.nodes
            .get(value.index())
            .map_or(Shape::EMPTY, |node| node.shape)
    }

    /// Rows of `table` (`[n_embd, n_vocab]`) for `Input::Tokens`: `[n_embd, n_tokens]`.
    pub fn embed(&mut self, table: &Tensor) -> Value {
        self.rows_of(table, RowIndex::Token)
    }

    /// Rows of `table` (`[n_embd, n_positions]`) for `Input::Positions`: `[n_embd, n_tokens]`.
    pub fn embed_positions(&mut self, table: &Tensor) -> Value {
        self.rows_of(table, RowIndex::Position)
    }

    fn rows_of(&mut self, table: &Tensor, index: RowIndex) -> Value {
        let rows = self.picked_rows(table, index);
        self.changed_rows(table, rows, |graph, table| graph.picked_rows(table, index))
    }

    pub(crate) fn picked_rows(&mut self, table: &Tensor, index: RowIndex) -> Value {
        let table = *table;
        self.push(Op::Embed(Embed { table, index }), &[])
    }

    /// `weight` `[n_in, n_out]` times `x` `[n_in, ..]`: `[n_out, ..]`, with what adapters change of it.
    pub fn matmul(&mut self, weight: &Tensor, x: Value) -> Value {
        let product = self.plain_product(weight, x);
        self.changed_product(weight, x, product)
    }

    pub(crate) fn plain_product(&mut self, weight: &Tensor, x: Value) -> Value {
        self.push(Op::MatMul(MatMul { weight: *weight }), &[x])
    }

    /// Each token's experts and their weights, by the router's logits `[n_experts, n_tokens]`.
    pub fn route(&mut self, logits: Value, route: &Route) -> Value {
        self.push(Op::Route(*route), &[logits])
    }

    /// `weight` `[n_in, n_out, n_experts]` of each token's experts times `x` `[n_in, n_tokens]`, or `[n_in, n_used, n_tokens]`
    /// with a column for each expert: `[n_out, n_used, n_tokens]`, with what adapters change of it.
    pub fn expert_matmul(&mut self, weight: &Tensor, x: Value, routes: Value) -> Value {
        let products = self.plain_experts(weight, x, routes);
        self.changed_experts(weight, x, routes, products)
    }

    pub(crate) fn plain_experts(&mut self, weight: &Tensor, x: Value, routes: Value) -> Value {
        let weight = *weight;
        self.push(Op::ExpertMatMul(ExpertMatMul { weight }), &[x, routes])
    }

    /// Sum of `x` `[n, n_used, n_tokens]` over each token's experts, by their weights: `[n, n_tokens]`.
    pub fn combine(&mut self, x: Value, routes: Value) -> Value {
        self.push(Op::Combine, &[x, routes])
    }

    /// `x + row`, for a row `[n]` (F32) and `x` `[n, ..]`.
    pub fn add_row(&mut self, x: Value, row: &Tensor) -> Value {
        self.push(Op::AddRow(AddRow { row: *row }), &[x])
    }

    /// `x * row`, for a row `[n]` (F32) and `x` `[n, ..]`.
    pub fn mul_row(&mut self, x: Value, row: &Tensor) -> Value {
        self.push(Op::MulRow(MulRow { row: *row }), &[x])
    }

    /// `a + b`, of one shape.
    pub fn add(&mut self, a: Value, b: Value) -> Value {
        self.push(Op::Add, &[a, b])
    }

    /// `a * b`, of one shape.
    pub fn mul(&mut self, a: Value, b: Value) -> Value {
        self.push(Op::Mul, &[a, b])
    }

    /// `x * factor`.
    pub fn scale(&mut self, x: Value, factor: f32) -> Value {
        self.push(Op::Scale(factor), &[x])
    }

    /// `x / sqrt(mean(x^2) + eps) * weight` over the first extent.
    pub fn rms_norm(&mut self, x: Value, weight: Option<&Tensor>, eps: f32) -> Value {
        self.push(
            Op::RmsNorm(RmsNorm {
                weight: weight.copied(),
                eps,
            }),
            &[x],
        )
    }

    /// `(x - mean) / sqrt(variance + eps) * weight + bias` over the first extent.
    pub fn layer_norm(
        &mut self,
        x: Value,
        weight: &Tensor,
        bias: Option<&Tensor>,
        eps: f32,
    ) -> Value {
        self.push(
            Op::LayerNorm(LayerNorm {
                weight: *weight,
                bias: bias.copied(),
                eps,
            }),
            &[x],
        )
    }

    /// The same elements under another shape.
    pub fn reshape(&mut self, x: Value, shape: Shape) -> Value {
        self.push(Op::Reshape(shape), &[x])
    }

    /// Rotary embedding of `x` `[head_dim, n_head, n_tokens]` at `Input::Positions`.
    pub fn rope(&mut self, x: Value, rope: &Rope) -> Value {
        let known = self
            .tables
            .iter()
            .find(|(r, device, _)| r == rope && *device == self.device);
        let table = match known {
            Some(&(_, _, table)) => table,
            None => {
                let table = self.push(Op::RopeTable(rope.clone()), &[]);
                self.tables.push((rope.clone(), self.device, table));
                table
            }
        };
        self.push(
            Op::Rotate(Rotate {
                style: rope.style,
                n_dims: rope.n_dims,
            }),
            &[x, table],
        )
    }

    /// `activation(gate) * up`, of one shape.
    pub fn glu(&mut self, gate: Value, up: Value, activation: Activation) -> Value {
        self.push(Op::Glu(Glu { activation }), &[gate, up])
    }

    /// `activation(x)`.
    pub fn activate(&mut self, x: Value, activation: Activation) -> Value {
        self.push(Op::Activate(activation), &[x])
    }

    /// `cap * tanh(x / cap)`.
    pub fn softcap(&mut self, x: Value, cap: f32) -> Value {
        self.push(Op::Softcap(cap), &[x])
    }

    /// Writes keys and values (`[head_dim, n_head_kv, n_tokens]` or the same flat) to the slots of `Input::Slots`.
    pub fn store_kv(&mut self, layer: &KvLayer, k: Value, v: Value) {
        self.push(Op::StoreKv(StoreKv { layer: *layer }), &[k, v]);
    }

    /// Attention of `q` `[key_dim, n_head, n_tokens]` to the cache: `[value_dim * n_head, n_tokens]`. What this
    /// batch stores must be stored before.
    pub fn attention(&mut self, layer: &KvLayer, q: Value, attention: &Attention) -> Value {
        self.push(
            Op::Attend(Attend {
                layer: *layer,
                attention: *attention,
            }),
            &[q],
        )
    }

    /// The rows of `Input::OutputRows`: `[n, n_tokens] -> [n, n_outputs]`.
    pub fn select_outputs(&mut self, x: Value) -> Value {
        self.push(Op::SelectOutputs, &[x])
    }

    /// The graph, with the values that an execution is to return.
    ///
    /// # Errors
    /// The first mistake made while building: `Shape`, `Type`, `Parameter`, `MixedDevices`, `ForeignValue`, `TooLarge`.
    pub fn finish(mut self, outputs: &[Value]) -> Result<Graph, ComputeError> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        if outputs
            .iter()
            .any(|value| value.index() >= self.nodes.len())
        {
            return Err(ComputeError::ForeignValue { op: "finish" });
        }
        Ok(Graph {
            nodes: self.nodes,
            outputs: outputs.to_vec(),
            batch: self.batch,
        })
    }

    /// Keeps a mistake that shows before a node can be made.
    pub(crate) fn failed(&mut self, error: ComputeError) -> Value {
        self.error.get_or_insert(error);
        Value(u32::MAX)
    }

    fn push(&mut self, op: Op, operands: &[Value]) -> Value {
        let nothing = Value(u32::MAX);
        if self.error.is_some() {
            return nothing;
        }
        match self.node(op, operands) {
            Ok(node) => {
                self.nodes.push(node);
                // `node` refuses more than u32::MAX - 1 nodes.
                Value((self.nodes.len() - 1) as u32)
            }
            Err(error) => {
                self.error = Some(error);
                nothing
            }
        }
    }

    fn node(&self, op: Op, operands: &[Value]) -> Result<Node, ComputeError> {
        if self.nodes.len() >= u32::MAX as usize - 1 {
            return Err(ComputeError::TooLarge { what: "graph" });
        }
        let mut shapes = Vec::with_capacity(operands.len());
        for value in operands {
            let node = self.nodes.get(value.index());
            shapes.push(
                node.ok_or(ComputeError::ForeignValue { op: op.name() })?
                    .shape,
            );
        }
        let shape = op.output_shape(&shapes, &self.batch)?;
        let mut device = None;
        for tensor in op.tensors() {
            let first = *device.get_or_insert(tensor.device);
            if first != tensor.device {
                return Err(ComputeError::MixedDevices {
                    op: op.name(),
                    first,
                    second: tensor.device,
                });
            }
        }
        Ok(Node {
            op,
            operands: operands.to_vec(),
            shape,
            device: device.unwrap_or(self.device),
        })
    }
}
