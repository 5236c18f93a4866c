//! Attention over a paged cache of keys and values.

use std::ops::Range;

use gristmill_quant::{F16, F32, TensorType};

use crate::error::check_length;
use crate::split::SendPtr;
use crate::table::{Kernels, kernels};
use crate::{KernelError, Pool};

/// What one attention layer computes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AttentionShape {
    /// Query heads; a multiple of `n_head_kv`.
    pub n_head: usize,
    /// Heads of keys and values.
    pub n_head_kv: usize,
    /// Elements of a query or key head.
    pub key_dim: usize,
    /// Elements of a value head.
    pub value_dim: usize,
    /// Tokens per page of the cache.
    pub page_len: usize,
    /// Factor of the scores.
    pub scale: f32,
    /// Scores become cap * tanh(score / cap).
    pub softcap: Option<f32>,
    /// A query sees this many positions, its own counted; without it all.
    pub window: Option<usize>,
    /// Whether a query sees only positions up to its own; otherwise up to the last of its sequence in the batch.
    pub causal: bool,
}

/// The queries of a batch and where their past lies.
#[derive(Clone, Copy, Debug)]
pub struct AttentionBatch<'a> {
    /// Queries [key_dim, n_head, n_tokens].
    pub q: &'a [f32],
    /// Position of each token in its sequence [n_tokens].
    pub positions: &'a [i32],
    /// Column of the page table of each token [n_tokens].
    pub sequences: &'a [i32],
    /// Page numbers [max_pages, n_sequences]: page p of a sequence holds its positions from p * page_len.
    pub page_table: &'a [i32],
    /// Pages per column of the table.
    pub max_pages: usize,
}

/// The cache of one layer's keys or values: [head_dim, page_len, n_head_kv, n_pages].
#[derive(Clone, Copy, Debug)]
pub struct CacheView<'a> {
    /// F16 or F32, little-endian.
    pub ty: TensorType,
    /// The elements.
    pub bytes: &'a [u8],
}

/// Attention kernel of one instruction set.
#[derive(Clone, Copy)]
pub(crate) struct AttentionKernels {
    /// All queries of the block.
    pub block: fn(&QueryBlock<'_>, &mut Scratch),
    /// Queries (tokens times heads) that a block should hold at most.
    pub queries_max: usize,
}

/// Consecutive tokens of one sequence and the query heads of one key/value head.
pub(crate) struct QueryBlock<'a> {
    pub shape: &'a AttentionShape,
    pub batch: &'a AttentionBatch<'a>,
    pub k: CacheView<'a>,
    pub v: CacheView<'a>,
    pub head_kv: usize,
    pub heads: Range<usize>,
    pub tokens: Range<usize>,
    /// Past the last position that each token sees [n_tokens of the batch].
    pub ends: &'a [usize],
    out: SendPtr<f32>,
}

/// Buffers of one thread.
#[derive(Default)]
pub(crate) struct Scratch {
    pub keys: Vec<f32>,
    pub values: Vec<f32>,
    pub scores: Vec<f32>,
}

impl<'a> QueryBlock<'a> {
    /// The query of a head and a token [key_dim].
    pub fn query(&self, head: usize, token: usize) -> &'a [f32] {
        let dim = self.shape.key_dim;
        &self.batch.q[(token * self.shape.n_head + head) * dim..][..dim]
    }

    /// The positions that a token sees.
    pub fn visible(&self, token: usize) -> Range<usize> {
        let end = self.ends[token];
        let position = self.batch.positions[token] as usize;
        let start = self
            .shape
            .window
            .map_or(0, |window| (position + 1).saturating_sub(window));
        start.min(end)..end
    }

    /// The bytes of one page's keys of this head [key_dim, page_len].
    pub fn page_of(&self, cache: CacheView<'a>, dim: usize, page_index: usize) -> &'a [u8] {
        let shape = self.shape;
        let sequence = self.batch.sequences[self.tokens.start] as usize;
        let page = self.batch.page_table[sequence * self.batch.max_pages + page_index] as usize;
        let bytes = dim * shape.page_len * cache.ty.block_bytes();
        &cache.bytes[(page * shape.n_head_kv + self.head_kv) * bytes..][..bytes]
    }

    /// Where the result of a head and a token goes [value_dim].
    #[expect(
        clippy::mut_from_ref,
        reason = "blocks own disjoint parts of the output"
    )]
    pub fn output(&self, head: usize, token: usize) -> &mut [f32] {
        debug_assert!(self.heads.contains(&head) && self.tokens.contains(&token));
        let dim = self.shape.value_dim;
        // SAFETY: head and token are inside the batch, whose output length was checked; each pair belongs to one block,
        // and kernels hold one result at a time.
        unsafe {
            std::slice::from_raw_parts_mut(
                self.out.get().add((token * self.shape.n_head + head) * dim),
                dim,
            )
        }
    }
}

/// Computes the attention of every query over the pages of its sequence into `out` [value_dim, n_head, n_tokens].
///
/// Pages are visited in order with an online softmax, so that a query's bits depend neither on the other tokens of the
/// batch nor on which pages it was given. A query that sees no position gives zeros.
///
/// # Errors
/// `Length` for a buffer that does not have the length its shape gives, `UnsupportedType` for a cache that is neither F16
/// nor F32, `Index` for a position, sequence or page number outside its range.
pub fn attention(
    pool: &Pool,
    shape: &AttentionShape,
    batch: &AttentionBatch<'_>,
    k: CacheView<'_>,
    v: CacheView<'_>,
    out: &mut [f32],
) -> Result<(), KernelError> {
    attention_with(kernels(), pool, shape, batch, k, v, out)
}

pub(crate) fn attention_with(
    kernels: &Kernels,
    pool: &Pool,
    shape: &AttentionShape,
    batch: &AttentionBatch<'_>,
    k: CacheView<'_>,
    v: CacheView<'_>,
    out: &mut [f32],
) -> Result<(), KernelError> {
    let n_tokens = batch.positions.len();
    check_shape(shape, batch, out.len())?;
    if out.is_empty() {
        return Ok(());
    }
    let n_pages = check_cache("keys", shape, shape.key_dim, k)?.min(check_cache(
        "values",
        shape,
        shape.value_dim,
        v,
    )?);
    let ends = visible_ends(shape, batch)?;
    check_pages(shape, batch, &ends, n_pages)?;
    let heads_per_kv = shape.n_head / shape.n_head_kv;
    let runs = token_runs(batch, (kernels.attention.queries_max / heads_per_kv).max(1));
    let out = SendPtr(out.as_mut_ptr());
    debug_assert_eq!(runs.last().map(|run| run.end), Some(n_tokens));
    // The latest tokens see most: their blocks come first, so that no thread is left alone with a long one.
    pool.run(runs.len() * shape.n_head_kv, |index| {
        let run = &runs[runs.len() - 1 - index / shape.n_head_kv];
        let head_kv = index % shape.n_head_kv;
        let block = QueryBlock {
            shape,
            batch,
            k,
            v,
            head_kv,
            heads: head_kv * heads_per_kv..(head_kv + 1) * heads_per_kv,
            tokens: run.clone(),
            ends: &ends,
            out,
        };
        SCRATCH.with_borrow_mut(|scratch| (kernels.attention.block)(&block, scratch));
    });
    Ok(())
}

thread_local! {
    static SCRATCH: std::cell::RefCell<Scratch> = std::cell::RefCell::default();
}

fn check_shape(
    shape: &AttentionShape,
    batch: &AttentionBatch<'_>,
    out_len: usize,
) -> Result<(), KernelError> {
    let n_tokens = batch.positions.len();
    let size = |dim: usize| dim.saturating_mul(shape.n_head).saturating_mul(n_tokens);
    check_length("queries", batch.q.len(), size(shape.key_dim))?;
    check_length("attention output", out_len, size(shape.value_dim))?;
    check_length("sequence numbers", batch.sequences.len(), n_tokens)?;
    let heads_fit = shape.n_head_kv > 0 && shape.n_head.is_multiple_of(shape.n_head_kv);
    check_length(
        "query heads",
        shape.n_head,
        if heads_fit {
            shape.n_head
        } else {
            shape.n_head_kv
        },
    )
}

/// Pages in the cache.
fn check_cache(
    what: &'static str,
    shape: &AttentionShape,
    dim: usize,
    cache: CacheView<'_>,
) -> Result<usize, KernelError> {
    if cache.ty != F16 && cache.ty != F32 {
        return Err(KernelError::UnsupportedType { ty: cache.ty });
    }
    let page = [dim, shape.page_len, shape.n_head_kv, cache.ty.block_bytes()]
        .into_iter()
        .fold(1, usize::saturating_mul);
    let n_pages = cache.bytes.len().checked_div(page).unwrap_or(0);
    check_length(what, cache.bytes.len(), n_pages * page)?;
    Ok(n_pages)
}

/// Past the last position that each token sees.
fn visible_ends(
    shape: &AttentionShape,
    batch: &AttentionBatch<'_>,
) -> Result<Vec<usize>, KernelError> {
    let n_sequences = batch
        .page_table
        .len()
        .checked_div(batch.max_pages)
        .unwrap_or(0);
    let mut ends = Vec::with_capacity(batch.positions.len());
    for (token, (&position, &sequence)) in batch.positions.iter().zip(batch.sequences).enumerate() {
        let index = |what, value: i32| KernelError::Index {
            what,
            value: i64::from(value),
            token,
        };
        if usize::try_from(sequence).map_or(true, |sequence| sequence >= n_sequences) {
            return Err(index("sequence", sequence));
        }
        let end = usize::try_from(position).map_err(|_| index("position", position))? + 1;
        if end > batch.max_pages.saturating_mul(shape.page_len) {
            return Err(index("position", position));
        }
        ends.push(end);
    }
    if !shape.causal {
        let mut last = vec![0; n_sequences];
        for (&end, &sequence) in ends.iter().zip(batch.sequences) {
            last[sequence as usize] = end.max(last[sequence as usize]);
        }
        ends.iter_mut()
            .zip(batch.sequences)
            .for_each(|(end, &sequence)| *end = last[sequence as usize]);
    }
    Ok(ends)
}

fn check_pages(
    shape: &AttentionShape,
    batch: &AttentionBatch<'_>,
    ends: &[usize],
    n_pages: usize,
) -> Result<(), KernelError> {
    // Tokens of one sequence share pages: only the farthest seen so far needs a look.
    let mut checked = vec![0; batch.page_table.len() / batch.max_pages.max(1)];
    for (token, &end) in ends.iter().enumerate() {
        let sequence = batch.sequences[token] as usize;
        let pages = end.div_ceil(shape.page_len);
        for page_index in checked[sequence]..pages {
            let page = batch.page_table[sequence * batch.max_pages + page_index];
            if usize::try_from(page).map_or(true, |page| page >= n_pages) {
                return Err(KernelError::Index {
                    what: "page",
                    value: i64::from(page),
                    token,
                });
            }
        }
        checked[sequence] = pages.max(checked[sequence]);
    }
    Ok(())
}

/// Runs of at most `len_max` consecutive tokens of the same sequence.
fn token_runs(batch: &AttentionBatch<'_>, len_max: usize) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for (token, &sequence) in batch.sequences.iter().enumerate() {
        match runs.last_mut() {
            Some(run) if run.len() < len_max && batch.sequences[run.start] == sequence => {
                run.end = token + 1
            }
            _ => runs.push(token..token + 1),
        }
    }
    runs
}
