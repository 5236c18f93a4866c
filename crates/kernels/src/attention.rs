//! Attention over a paged cache of keys and values.

use std::ops::Range;

use gristmill_quant::TensorType;

use crate::error::check_length;
use crate::split::{SendPtr, for_each_chunk};
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

impl AttentionShape {
    /// The first position that a query sees. Positions were checked not to be negative.
    pub(crate) fn start(&self, position: i32, end: usize) -> usize {
        let start = self
            .window
            .map_or(0, |window| (position as usize + 1).saturating_sub(window));
        start.min(end)
    }
}

/// The queries of a batch and where their past lies.
#[derive(Clone, Copy, Debug)]
pub struct AttentionBatch<'a> {
    /// Queries [key_dim, n_head, n_tokens].
    pub q: &'a [f32],
    /// Position of each token in its sequence `[n_tokens]`.
    pub positions: &'a [i32],
    /// Column of the page table of each token `[n_tokens]`.
    pub sequences: &'a [i32],
    /// Page numbers [max_pages, n_sequences]: page p of a sequence holds its positions from p * page_len.
    pub page_table: &'a [i32],
    /// Pages per column of the table.
    pub max_pages: usize,
}

/// The cache of one layer's keys or values: [head_dim, page_len, n_head_kv, n_pages].
#[derive(Clone, Copy, Debug)]
pub struct CacheView<'a> {
    /// A type that a cache may have, which `key_dim` or `value_dim` elements fill whole blocks of.
    pub ty: TensorType,
    /// The elements.
    pub bytes: &'a [u8],
}

impl CacheView<'_> {
    /// Bytes of a head of so many elements, which are whole blocks.
    pub(crate) fn row_bytes(&self, dim: usize) -> usize {
        dim / self.ty.block_len() * self.ty.block_bytes()
    }
}

/// Attention kernels of one instruction set.
#[derive(Clone, Copy)]
pub(crate) struct AttentionKernels {
    /// Attends to one page of the cache: writes what [`Partial`] holds for every query of the block that sees the page.
    pub page: fn(&QueryBlock<'_>, page_index: usize, &mut Scratch),
    /// sum = sum * a + x * b.
    pub blend: fn(sum: &mut [f32], a: f32, x: &[f32], b: f32),
    /// Queries (tokens times heads) that a block should hold at most.
    pub queries_max: usize,
}

/// Consecutive tokens of one sequence and the query heads of one key/value head.
///
/// Its queries are numbered token by token, heads inside.
pub(crate) struct QueryBlock<'a> {
    pub shape: &'a AttentionShape,
    pub batch: &'a AttentionBatch<'a>,
    pub k: CacheView<'a>,
    pub v: CacheView<'a>,
    pub head_kv: usize,
    pub tokens: Range<usize>,
    /// Past the last position that each token sees [n_tokens of the batch].
    pub ends: &'a [usize],
}

/// Buffers of one thread.
#[derive(Default)]
pub(crate) struct Scratch {
    /// For the kernel.
    pub decoded: Vec<f32>,
    pub keys: Vec<f32>,
    pub values: Vec<f32>,
    pub scores: Vec<f32>,
    /// What the page gave.
    pub partial: Partial,
    /// What all pages so far gave.
    running: Partial,
}

/// Of each query: with the scores s of some positions, max(s), sum(exp(s - max)) and the sum of exp(s - max) * value.
#[derive(Default)]
pub(crate) struct Partial {
    pub maxima: Vec<f32>,
    pub sums: Vec<f32>,
    /// [value_dim, n_queries].
    pub outputs: Vec<f32>,
}

impl Partial {
    fn reset(&mut self, n_queries: usize, value_dim: usize) {
        self.maxima.clear();
        self.maxima.resize(n_queries, f32::NEG_INFINITY);
        self.sums.clear();
        self.sums.resize(n_queries, 0.0);
        self.outputs.clear();
        self.outputs.resize(n_queries * value_dim, 0.0);
    }
}

impl<'a> QueryBlock<'a> {
    pub fn heads_per_kv(&self) -> usize {
        self.shape.n_head / self.shape.n_head_kv
    }

    pub fn n_queries(&self) -> usize {
        self.tokens.len() * self.heads_per_kv()
    }

    /// The token of a query.
    pub fn token(&self, query: usize) -> usize {
        self.tokens.start + query / self.heads_per_kv()
    }

    /// The place of a query among the heads of all tokens.
    fn head_of_batch(&self, query: usize) -> usize {
        let heads = self.heads_per_kv();
        self.token(query) * self.shape.n_head + self.head_kv * heads + query % heads
    }

    /// A query's elements [key_dim].
    pub fn query(&self, query: usize) -> &'a [f32] {
        let dim = self.shape.key_dim;
        &self.batch.q[self.head_of_batch(query) * dim..][..dim]
    }

    /// The slots of a page that a query sees.
    pub fn slots(&self, query: usize, page_index: usize) -> Range<usize> {
        let token = self.token(query);
        let first = page_index * self.shape.page_len;
        let inside = |position: usize| position.saturating_sub(first).min(self.shape.page_len);
        inside(self.start(token))..inside(self.ends[token])
    }

    /// The first position that a token sees.
    fn start(&self, token: usize) -> usize {
        self.shape
            .start(self.batch.positions[token], self.ends[token])
    }

    /// The pages that some token sees.
    fn pages(&self) -> Range<usize> {
        let start = self
            .tokens
            .clone()
            .map(|token| self.start(token))
            .min()
            .unwrap_or(0);
        let end = self
            .tokens
            .clone()
            .map(|token| self.ends[token])
            .max()
            .unwrap_or(0);
        start / self.shape.page_len..end.div_ceil(self.shape.page_len)
    }

    /// The slots of a page that some query sees.
    pub fn slots_of_all(&self, page_index: usize) -> Range<usize> {
        let seen = (0..self.n_queries())
            .step_by(self.heads_per_kv())
            .map(|query| self.slots(query, page_index));
        seen.filter(|slots| !slots.is_empty())
            .reduce(|a, b| a.start.min(b.start)..a.end.max(b.end))
            .unwrap_or(0..0)
    }

    /// The bytes of one page's keys or values of this head [dim, page_len].
    pub fn page_of(&self, cache: CacheView<'a>, dim: usize, page_index: usize) -> &'a [u8] {
        let shape = self.shape;
        // Sequence and page numbers were checked.
        let sequence = self.batch.sequences[self.tokens.start] as usize;
        let page = self.batch.page_table[sequence * self.batch.max_pages + page_index] as usize;
        let bytes = cache.row_bytes(dim) * shape.page_len;
        &cache.bytes[(page * shape.n_head_kv + self.head_kv) * bytes..][..bytes]
    }
}

/// Computes the attention of every query over the pages of its sequence into `out` [value_dim, n_head, n_tokens].
///
/// Pages are visited in order with an online softmax, so that a query's bits depend neither on the other tokens of the
/// batch nor on which pages it was given. A query that sees no position gives zeros.
///
/// # Errors
/// `Length` for a buffer that does not have the length its shape gives, `UnsupportedType` for a type that no cache may have,
/// `RowLength` for heads that are no whole blocks of it, `Index` for a position, sequence or page number outside its range.
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
    let ends = checked_ends(shape, batch, k, v, out.len())?;
    if out.is_empty() {
        return Ok(());
    }
    let heads_per_kv = shape.n_head / shape.n_head_kv;
    let runs = token_runs(batch, (kernels.attention.queries_max / heads_per_kv).max(1));
    let blocks: Vec<QueryBlock<'_>> = runs
        .iter()
        // The latest tokens see most: their blocks come first, so that no thread is left alone with a long one.
        .rev()
        .flat_map(|run| (0..shape.n_head_kv).map(move |head_kv| (run, head_kv)))
        .map(|(run, head_kv)| QueryBlock {
            shape,
            batch,
            k,
            v,
            head_kv,
            tokens: run.clone(),
            ends: &ends,
        })
        .collect();
    let out = Output {
        out: SendPtr(out.as_mut_ptr()),
        value_dim: shape.value_dim,
    };
    if blocks.len() < pool.n_threads() * BLOCKS_PER_THREAD {
        page_by_page(&kernels.attention, pool, &blocks, &out);
    } else {
        pool.run(blocks.len(), |index| {
            whole_block(&kernels.attention, &blocks[index], &out)
        });
    }
    Ok(())
}

/// With fewer blocks than this per thread, pages are handed out one by one.
const BLOCKS_PER_THREAD: usize = 4;

/// Where results go.
struct Output {
    out: SendPtr<f32>,
    value_dim: usize,
}

impl Output {
    /// Writes the results of a block, whose queries belong to no other block.
    fn write(&self, block: &QueryBlock<'_>, running: &Partial) {
        let dim = self.value_dim;
        for query in 0..block.n_queries() {
            // SAFETY: the head is inside the batch, whose output length was checked, and no other block has it.
            let out = unsafe {
                std::slice::from_raw_parts_mut(
                    self.out.get().add(block.head_of_batch(query) * dim),
                    dim,
                )
            };
            let sum = running.sums[query];
            let factor = if sum == 0.0 { 0.0 } else { 1.0 / sum };
            out.iter_mut()
                .zip(&running.outputs[query * dim..])
                .for_each(|(out, x)| *out = x * factor);
        }
    }
}

fn whole_block(kernels: &AttentionKernels, block: &QueryBlock<'_>, out: &Output) {
    SCRATCH.with_borrow_mut(|scratch| {
        let (n_queries, dim) = (block.n_queries(), block.shape.value_dim);
        scratch.running.reset(n_queries, dim);
        for page_index in block.pages() {
            scratch.partial.reset(n_queries, dim);
            (kernels.page)(block, page_index, scratch);
            let Scratch {
                running, partial, ..
            } = scratch;
            add_page(kernels, running, partial, dim);
        }
        out.write(block, &scratch.running);
    });
}

/// Buffers of the thread that hands out pages.
#[derive(Default)]
struct Pages {
    /// Block and page of it.
    items: Vec<(usize, usize)>,
    /// What each item of a round gave.
    partials: Vec<Partial>,
    running: Partial,
}

/// Floats of the results that wait to be joined: a long past is gone through in rounds, so that memory does not grow with it.
const WAITING_FLOATS_MAX: usize = 1 << 20;

/// As [`whole_block`] with the same operations on the same numbers, but the pages of a block go to all threads.
fn page_by_page(kernels: &AttentionKernels, pool: &Pool, blocks: &[QueryBlock<'_>], out: &Output) {
    PAGES.with_borrow_mut(|pages| {
        let Pages {
            items,
            partials,
            running,
        } = pages;
        items.clear();
        let (mut n_floats, dim) = (1, out.value_dim);
        for (index, block) in blocks.iter().enumerate() {
            items.extend(block.pages().map(|page_index| (index, page_index)));
            n_floats = n_floats.max(block.n_queries() * (dim + 2));
            if block.pages().is_empty() {
                running.reset(block.n_queries(), dim);
                out.write(block, running);
            }
        }
        let n_round = (WAITING_FLOATS_MAX / n_floats).max(pool.n_threads() * BLOCKS_PER_THREAD);
        let all = items.as_slice();
        for (round, items) in all.chunks(n_round).enumerate() {
            if partials.len() < items.len() {
                partials.resize_with(items.len(), Partial::default);
            }
            attend_pages(kernels, pool, blocks, items, partials);
            for (place, (&(index, _), partial)) in items.iter().zip(partials.iter()).enumerate() {
                let (block, at) = (&blocks[index], round * n_round + place);
                let is = |other: Option<&(usize, usize)>| other.is_some_and(|item| item.0 == index);
                if !is(at.checked_sub(1).and_then(|before| all.get(before))) {
                    running.reset(block.n_queries(), dim);
                }
                add_page(kernels, running, partial, dim);
                if !is(all.get(at + 1)) {
                    out.write(block, running);
                }
            }
        }
    });
}

/// Attends to a page each.
fn attend_pages(
    kernels: &AttentionKernels,
    pool: &Pool,
    blocks: &[QueryBlock<'_>],
    items: &[(usize, usize)],
    partials: &mut [Partial],
) {
    for_each_chunk(pool, &mut partials[..items.len()], 1, |item, partial| {
        let (block, page_index) = (&blocks[items[item].0], items[item].1);
        SCRATCH.with_borrow_mut(|scratch| {
            std::mem::swap(&mut scratch.partial, &mut partial[0]);
            let (n_queries, dim) = (block.n_queries(), block.shape.value_dim);
            scratch.partial.reset(n_queries, dim);
            (kernels.page)(block, page_index, scratch);
            std::mem::swap(&mut scratch.partial, &mut partial[0]);
        });
    });
}

/// Joins two sets of positions, the second being the later page.
fn add_page(kernels: &AttentionKernels, running: &mut Partial, partial: &Partial, dim: usize) {
    let outputs = running
        .outputs
        .chunks_exact_mut(dim)
        .zip(partial.outputs.chunks_exact(dim));
    for (query, (output, page_output)) in outputs.enumerate() {
        let (before, page) = (running.maxima[query], partial.maxima[query]);
        if page == f32::NEG_INFINITY && partial.sums[query] == 0.0 {
            continue;
        }
        let largest = before.max(page);
        let (a, b) = ((before - largest).exp(), (page - largest).exp());
        running.maxima[query] = largest;
        running.sums[query] = running.sums[query] * a + partial.sums[query] * b;
        (kernels.blend)(output, a, page_output, b);
    }
}

thread_local! {
    static SCRATCH: std::cell::RefCell<Scratch> = std::cell::RefCell::default();
    static PAGES: std::cell::RefCell<Pages> = std::cell::RefCell::default();
}

/// Checks all that attention will index with; past the last position that each token sees.
pub(crate) fn checked_ends(
    shape: &AttentionShape,
    batch: &AttentionBatch<'_>,
    k: CacheView<'_>,
    v: CacheView<'_>,
    out_len: usize,
) -> Result<Vec<usize>, KernelError> {
    check_shape(shape, batch, out_len)?;
    if out_len == 0 {
        return Ok(Vec::new());
    }
    let n_pages = check_cache("keys", shape, shape.key_dim, k)?.min(check_cache(
        "values",
        shape,
        shape.value_dim,
        v,
    )?);
    let ends = visible_ends(shape, batch)?;
    check_pages(shape, batch, &ends, n_pages)?;
    Ok(ends)
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
    if !cache.ty.policy().for_cache {
        return Err(KernelError::UnsupportedType { ty: cache.ty });
    }
    cache.ty.row_bytes(dim as u64)?;
    let page = [cache.row_bytes(dim), shape.page_len, shape.n_head_kv]
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
    // Tokens of one sequence share pages: only those before and behind what was seen so far need a look.
    let mut checked = vec![0..0; batch.page_table.len() / batch.max_pages.max(1)];
    for (token, &end) in ends.iter().enumerate() {
        let sequence = batch.sequences[token] as usize;
        // Pages before a window may be anything: they may be gone.
        let start = shape.start(batch.positions[token], end) / shape.page_len;
        let pages = start..end.div_ceil(shape.page_len);
        let known = checked[sequence].clone();
        for page_index in pages.clone().filter(|page| !known.contains(page)) {
            let page = batch.page_table[sequence * batch.max_pages + page_index];
            if usize::try_from(page).map_or(true, |page| page >= n_pages) {
                return Err(KernelError::Index {
                    what: "page",
                    value: i64::from(page),
                    token,
                });
            }
        }
        // Pages between the two were not looked at.
        checked[sequence] = match known.start <= pages.end && pages.start <= known.end {
            true => known.start.min(pages.start)..known.end.max(pages.end),
            false => pages,
        };
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
