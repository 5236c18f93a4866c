//! What adapters change of a model's graph: products, looked up rows and the residual stream.

use crate::op::RowIndex;
use crate::{GraphBuilder, Tensor, Value};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A low-rank change of a weight: `scale * b a` is added to it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LowRank {
    /// `[n_in, rank]`; of a table whose rows are looked up `[rank, n_rows]`; of experts as many such matrices
    pub a: Tensor,
    /// `[rank, n_out]`; of experts as many such matrices
    pub b: Tensor,
    /// The factor of their product.
    pub scale: f32,
}

/// The changes that a graph is built with, by the weights they are of. The weights themselves stay as they are.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    products: ByPlace,
    rows: ByPlace,
    directions: Vec<Option<Tensor>>,
}

/// Changes by device, buffer and first byte of the weight.
type ByPlace = BTreeMap<(usize, u32, usize), (Tensor, Vec<LowRank>)>;

fn place(weight: &Tensor) -> (usize, u32, usize) {
    (weight.device, weight.buffer.0, weight.offset)
}

impl Changes {
    /// Adds to every product with a weight, or with rows of it.
    pub fn of_products(&mut self, weight: &Tensor, change: LowRank) {
        add(&mut self.products, weight, change);
    }

    /// Adds to every row that is looked up in a table.
    pub fn of_rows(&mut self, table: &Tensor, change: LowRank) {
        add(&mut self.rows, table, change);
    }

    /// Vectors (F32) that are added to the residual stream, by number of the layer that it leaves.
    pub fn set_directions(&mut self, directions: Vec<Option<Tensor>>) {
        self.directions = directions;
    }

    /// The change of the products with a weight, with the first row in question and the number of rows.
    fn of_weight(&self, weight: &Tensor) -> Option<(&[LowRank], usize)> {
        let (_, (whole, changes)) = self.products.range(..=place(weight)).next_back()?;
        let is_same_memory = (whole.device, whole.buffer) == (weight.device, weight.buffer);
        let skipped = weight.offset.checked_sub(whole.offset)?;
        let first = skipped.checked_div(whole.row_bytes().ok()?)?;
        let is_part = whole.shape.row_len() == weight.shape.row_len()
            && first + weight.shape.n_rows() <= whole.shape.n_rows();
        (is_same_memory && is_part).then_some((changes, first))
    }
}

fn add(places: &mut ByPlace, weight: &Tensor, change: LowRank) {
    let entry = places.entry(place(weight));
    let (_, changes) = entry.or_insert_with(|| (*weight, Vec::new()));
    changes.push(change);
}

impl GraphBuilder {
    /// Builds what follows with changes.
    pub fn change(&mut self, changes: Arc<Changes>) {
        self.changes = Some(changes);
    }

    /// What leaves a layer, with the direction of that layer where there is one.
    pub fn directed(&mut self, x: Value, layer: usize) -> Value {
        let changes = self.changes.as_ref();
        let direction = changes.and_then(|changes| *changes.directions.get(layer)?);
        match direction {
            Some(direction) => self.add_row(x, &direction),
            None => x,
        }
    }

    /// The product of a weight and `x`, with the weight's changes.
    pub(crate) fn changed_product(&mut self, weight: &Tensor, x: Value, product: Value) -> Value {
        let Some(changes) = self.changes.clone() else {
            return product;
        };
        let Some((changes, first)) = changes.of_weight(weight) else {
            return product;
        };
        let rows = first..first + weight.shape.n_rows();
        changes.iter().fold(product, |sum, change| {
            let b = match change.b.rows(rows.clone()) {
                Ok(b) => b,
                Err(error) => return self.failed(error),
            };
            let low = self.plain_product(&change.a, x);
            self.with_low(sum, low, &b, change.scale)
        })
    }

    /// The products of each token's experts, with the changes of their weights.
    pub(crate) fn changed_experts(
        &mut self,
        weight: &Tensor,
        x: Value,
        routes: Value,
        products: Value,
    ) -> Value {
        let Some(changes) = self.changes.clone() else {
            return products;
        };
        let Some((_, changes)) = changes.products.get(&place(weight)) else {
            return products;
        };
        changes.iter().fold(products, |sum, change| {
            let low = self.plain_experts(&change.a, x, routes);
            let full = self.plain_experts(&change.b, low, routes);
            self.scaled_sum(sum, full, change.scale)
        })
    }

    /// `x + row`, for the first row of a table, with the table's changes.
    pub fn add_first_row(&mut self, x: Value, table: &Tensor) -> Value {
        let row = match table.rows(0..1) {
            Ok(row) => row,
            Err(error) => return self.failed(error),
        };
        let sum = self.add_row(x, &row);
        self.changed_rows(table, sum, |graph, table| {
            graph.picked_rows(table, RowIndex::First)
        })
    }

    /// Looked up rows with the table's changes; `lookup` finds rows of another table in the same way.
    pub(crate) fn changed_rows(
        &mut self,
        table: &Tensor,
        rows: Value,
        lookup: impl Fn(&mut Self, &Tensor) -> Value,
    ) -> Value {
        let Some(changes) = self.changes.clone() else {
            return rows;
        };
        let Some((_, changes)) = changes.rows.get(&place(table)) else {
            return rows;
        };
        changes.iter().fold(rows, |sum, change| {
            let low = lookup(self, &change.a);
            self.with_low(sum, low, &change.b, change.scale)
        })
    }

    fn with_low(&mut self, sum: Value, low: Value, b: &Tensor, scale: f32) -> Value {
        let full = self.plain_product(b, low);
        self.scaled_sum(sum, full, scale)
    }

    fn scaled_sum(&mut self, sum: Value, full: Value, scale: f32) -> Value {
        let full = match scale {
            1.0 => full,
            scale => self.scale(full, scale),
        };
        self.add(sum, full)
    }
}
