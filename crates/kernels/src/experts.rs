//! Weights of many experts times activations, where each column goes to some of the experts.
//!
//! A pair is a column and one of its experts; the pairs of a column follow each other. Pairs are put in the order of their
//! experts, so that each expert's weights are read once for all of its columns, which stay where they are.

use gristmill_quant::TensorType;
use std::ops::Range;

use crate::activations::Activations;
use crate::error::check_length;
use crate::matmul::{
    MatrixProduct, PRODUCTS_PER_JOB, RunProduct, chunk_work, kernel_of, row_bytes_for, tile_shape,
};
use crate::split::{RowTile, SendPtr};
use crate::table::{Kernels, PickedColumns, Product, kernels};
use crate::{KernelError, Pool};

/// Pairs in the order of their experts; keeps its allocations between uses.
#[derive(Debug, Default)]
pub struct ExpertOrder {
    /// Every pair once, those of one expert in their own order.
    order: Vec<u32>,
    /// Where in `order` each expert's pairs end.
    ends: Vec<usize>,
    chunks: Vec<Chunk>,
}

/// Some rows of one expert, for some of its pairs.
#[derive(Debug)]
struct Chunk {
    part: usize,
    expert: usize,
    rows: Range<usize>,
    /// Places in the order.
    pairs: Range<usize>,
}

impl ExpertOrder {
    /// No pairs yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Orders pairs anew: `experts` gives each pair's expert.
    ///
    /// # Errors
    /// `Index` for an expert that is not among the `n_experts`; `Length` for more pairs than fit 32 bits.
    pub fn set(
        &mut self,
        experts: impl ExactSizeIterator<Item = usize> + Clone,
        n_experts: usize,
    ) -> Result<(), KernelError> {
        let n_pairs = experts.len();
        check_length("list of experts", n_pairs, n_pairs & u32::MAX as usize)?;
        // One place more, so that each expert's count becomes the start of the next.
        self.ends.clear();
        self.ends.resize(n_experts + 1, 0);
        for (pair, expert) in experts.clone().enumerate() {
            if expert >= n_experts {
                return Err(KernelError::Index {
                    what: "expert",
                    value: expert as i64,
                    token: pair,
                });
            }
            self.ends[expert + 1] += 1;
        }
        let mut start = 0;
        for end in &mut self.ends {
            start += *end;
            *end = start;
        }
        self.order.clear();
        self.order.resize(n_pairs, 0);
        for (pair, expert) in experts.enumerate() {
            // Starts become ends as pairs are placed.
            self.order[self.ends[expert]] = pair as u32;
            self.ends[expert] += 1;
        }
        self.ends.truncate(n_experts);
        Ok(())
    }

    /// The places of an expert's pairs.
    fn pairs(&self, expert: usize) -> Range<usize> {
        let start = expert.checked_sub(1).map_or(0, |before| self.ends[before]);
        start..self.ends[expert]
    }
}

/// Multiplies the weights of the experts (those of each `n_rows` rows of `n` elements, one expert after the other) with
/// prepared columns: pair `p` of `order` takes column `p / sharing` and gives column `p` of the output `[n_rows, n_pairs]`.
///
/// The bits of a pair are those of [`matmul`](crate::matmul) with its expert's weights and its column.
///
/// # Errors
/// As [`matmul_many`](crate::matmul_many); then no output is whole.
pub fn matmul_experts<'a>(
    pool: &Pool,
    n: usize,
    activations: &Activations,
    order: &mut ExpertOrder,
    sharing: usize,
    products: impl IntoIterator<Item = MatrixProduct<'a>>,
) -> Result<(), KernelError> {
    experts_with(kernels(), pool, n, activations, order, sharing, products)
}

/// The weights of all experts, and where their product goes.
struct Part<'a> {
    ty: TensorType,
    weights: &'a [u8],
    row_bytes: usize,
    n_rows: usize,
    run: RunProduct,
    row_step: usize,
    out: SendPtr<f32>,
}

pub(crate) fn experts_with<'a>(
    kernels: &Kernels,
    pool: &Pool,
    n: usize,
    activations: &Activations,
    order: &mut ExpertOrder,
    sharing: usize,
    products: impl IntoIterator<Item = MatrixProduct<'a>>,
) -> Result<(), KernelError> {
    let (n_pairs, sharing) = (order.order.len(), sharing.max(1));
    check_length("activation column", activations.n, n)?;
    check_length("list of experts", n_pairs, activations.n_columns * sharing)?;
    let mut products = products.into_iter();
    loop {
        // An array, so that a step of decoding allocates nothing.
        let mut parts = [const { None }; PRODUCTS_PER_JOB];
        for (part, product) in parts.iter_mut().zip(&mut products) {
            *part = Some(Part::new(kernels, n, activations, order, product)?);
        }
        if parts[0].is_none() {
            return Ok(());
        }
        run_parts(pool, n, activations, order, sharing, &parts);
    }
}

impl<'a> Part<'a> {
    fn new(
        kernels: &Kernels,
        n: usize,
        activations: &Activations,
        order: &ExpertOrder,
        product: MatrixProduct<'a>,
    ) -> Result<Self, KernelError> {
        let (ty, n_rows, n_pairs) = (product.ty, product.n_rows, order.order.len());
        let row_bytes = row_bytes_for(ty, n, activations)?;
        let all_rows = n_rows.saturating_mul(order.ends.len());
        let n_bytes = row_bytes.saturating_mul(all_rows);
        check_length("weights", product.weights.len(), n_bytes)?;
        let n_results = n_rows.saturating_mul(n_pairs);
        check_length("product", product.out.len(), n_results)?;
        let (run, row_step) = kernel_of(kernels, ty);
        if n == 0 {
            product.out.fill(0.0);
        }
        Ok(Self {
            ty,
            weights: product.weights,
            row_bytes,
            n_rows: if n == 0 { 0 } else { n_rows },
            run,
            row_step,
            out: SendPtr(product.out.as_mut_ptr()),
        })
    }
}

/// Cuts all experts' products into chunks and shares these among the threads.
fn run_parts(
    pool: &Pool,
    n: usize,
    activations: &Activations,
    order: &mut ExpertOrder,
    sharing: usize,
    parts: &[Option<Part<'_>>; PRODUCTS_PER_JOB],
) {
    let work = |n_rows: usize, n_pairs: usize| n.saturating_mul(n_rows).saturating_mul(n_pairs);
    let n_pairs = order.order.len();
    let all = parts
        .iter()
        .flatten()
        .map(|part| work(part.n_rows, n_pairs));
    let chunk_work = chunk_work(pool, all.fold(0, usize::saturating_add));
    let mut chunks = std::mem::take(&mut order.chunks);
    chunks.clear();
    for (index, part) in parts.iter().enumerate() {
        let Some(part) = part else { continue };
        for expert in 0..order.ends.len() {
            let pairs = order.pairs(expert);
            let shape = (part.n_rows, pairs.len());
            let tile = tile_shape(shape, part.row_step, work(shape.0, shape.1), chunk_work);
            push_chunks(&mut chunks, index, expert, part.n_rows, pairs, tile);
        }
    }
    pool.run(chunks.len(), |index| {
        let chunk = &chunks[index];
        let Some(part) = &parts[chunk.part] else {
            return;
        };
        let expert_bytes = part.row_bytes * part.n_rows;
        let product = Product {
            ty: part.ty,
            weights: &part.weights[expert_bytes * chunk.expert..][..expert_bytes],
            row_bytes: part.row_bytes,
            n,
            activations,
            picked: Some(PickedColumns {
                order: &order.order,
                sharing,
            }),
        };
        let (rows, pairs) = (chunk.rows.clone(), chunk.pairs.clone());
        // SAFETY: the output has a column for each pair (checked in `Part::new`) and is borrowed by the caller of this job;
        // `order` has each pair once, and no two chunks of a part share both rows and places in the order.
        let mut tile =
            unsafe { RowTile::scattered(part.out, part.n_rows, rows, pairs, &order.order) };
        (part.run)(&product, &mut tile);
    });
    order.chunks = chunks;
}

fn push_chunks(
    chunks: &mut Vec<Chunk>,
    part: usize,
    expert: usize,
    n_rows: usize,
    pairs: Range<usize>,
    (tile_rows, tile_pairs): (usize, usize),
) {
    for row in (0..n_rows).step_by(tile_rows.max(1)) {
        for pair in pairs.clone().step_by(tile_pairs.max(1)) {
            chunks.push(Chunk {
                part,
                expert,
                rows: row..(row + tile_rows.max(1)).min(n_rows),
                pairs: pair..(pair + tile_pairs.max(1)).min(pairs.end),
            });
        }
    }
}
