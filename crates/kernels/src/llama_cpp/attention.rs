//! Attention with an online softmax, in the three forms that llama.cpp chooses from: position by position, in tiles of 64
//! positions, and in one run of positions per thread.

use std::ops::Range;

use gristmill_quant::{F16, f16_to_f32, f32_to_f16};

use super::floats::dot;
use super::rows::exp_lanes;
use super::{Lanes, sum_lanes, wide};
use crate::attention::{AttentionBatch, AttentionShape, CacheView, checked_ends};
use crate::split::for_each_chunk;
use crate::{KernelError, Pool};

/// Tokens of a batch from which attention goes through tiles, and positions of a tile.
const TILE: usize = 64;

/// The past is looked at in steps of this many positions...
const PAST_STEP: usize = 256;
/// ... and from this many on, a token alone has it cut over the threads.
const PAST_CUT_FROM: usize = 512;

/// Tokens of one job in tiles.
const TOKENS_PER_JOB: usize = 16;

/// What llama.cpp chooses beside the shape.
#[derive(Clone, Copy, Debug, Default)]
pub struct AttentionForm {
    /// Some architectures scale their queries, which are then rounded, others the products.
    pub scales_queries: bool,
    /// Positions of a window's cache, used again round by round; none where all positions are kept.
    pub ring: Option<usize>,
}

impl AttentionForm {
    /// With the ring that a context has whose batches are computed in parts of `n_ubatch` tokens; none if
    /// that is `usize::MAX`.
    pub fn new(scales_queries: bool, window: Option<usize>, n_ubatch: usize) -> Self {
        let ring = window.and_then(|window| {
            window
                .checked_add(n_ubatch)?
                .checked_next_multiple_of(PAST_STEP)
        });
        AttentionForm {
            scales_queries,
            ring,
        }
    }
}

/// What the queries of a batch attend to.
struct Past<'a> {
    shape: &'a AttentionShape,
    /// Positions after which the cells of the cache are used again.
    ring: usize,
    batch: &'a AttentionBatch<'a>,
    k: CacheView<'a>,
    v: CacheView<'a>,
    /// Past the last position that each token sees.
    ends: &'a [usize],
    /// Multiplies the queries.
    query_scale: f32,
    /// Multiplies the products.
    scale: f32,
}

/// Of some positions with the scores s: max(s), sum(exp(s - max)) and the sum of exp(s - max) * value.
#[derive(Clone)]
struct Partial {
    largest: f32,
    sum: f32,
    values: Vec<f32>,
}

impl Partial {
    fn new(dim: usize) -> Self {
        Self {
            largest: f32::NEG_INFINITY,
            sum: 0.0,
            values: vec![0.0; dim],
        }
    }

    /// Joins the next positions.
    fn add(&mut self, next: &Self) {
        if next.sum == 0.0 {
            return;
        }
        let largest = self.largest.max(next.largest);
        let (before, after) = (
            (self.largest - largest).exp(),
            (next.largest - largest).exp(),
        );
        for (value, next) in self.values.iter_mut().zip(&next.values) {
            *value = value.mul_add(before, next * after);
        }
        self.sum = self.sum.mul_add(before, next.sum * after);
        self.largest = largest;
    }

    fn write(&self, out: &mut [f32]) {
        let factor = if self.sum == 0.0 { 0.0 } else { 1.0 / self.sum };
        for (out, value) in out.iter_mut().zip(&self.values) {
            *out = value * factor;
        }
    }
}

impl Past<'_> {
    /// The first position that a token sees.
    fn start(&self, token: usize) -> usize {
        self.shape
            .start(self.batch.positions[token], self.ends[token])
    }

    /// The positions that a token sees in some cells of the cache, in the order of these: first what was written since the
    /// ring began anew, then what is left of the round before.
    fn in_cells(&self, token: usize, cells: &Range<usize>) -> [Range<usize>; 2] {
        let (start, end) = (self.start(token), self.ends[token]);
        let begun = end - end % self.ring;
        let seen = |first: usize, start: usize, end: usize| {
            let place = |cell: usize| first.saturating_add(cell).clamp(start, end);
            place(cells.start)..place(cells.end)
        };
        let before = match begun.checked_sub(self.ring) {
            Some(first) if start < begun => seen(first, start, begun),
            _ => 0..0,
        };
        [seen(begun, start.max(begun), end), before]
    }

    fn query(&self, token: usize, head: usize) -> Vec<f32> {
        let dim = self.shape.key_dim;
        let query = &self.batch.q[(token * self.shape.n_head + head) * dim..][..dim];
        query.iter().map(|x| x * self.query_scale).collect()
    }

    /// Positions of a sequence.
    fn len(&self, sequence: i32) -> usize {
        let tokens = self.batch.sequences.iter().zip(self.ends);
        let ends = tokens
            .filter(|(of, _)| **of == sequence)
            .map(|(_, end)| *end);
        ends.max().unwrap_or(0)
    }

    fn head_kv(&self, head: usize) -> usize {
        head / (self.shape.n_head / self.shape.n_head_kv)
    }

    /// Reads the row of a position of a token's sequence.
    fn read(
        &self,
        cache: CacheView<'_>,
        token: usize,
        head_kv: usize,
        position: usize,
        out: &mut [f32],
    ) {
        let AttentionShape {
            page_len,
            n_head_kv,
            ..
        } = *self.shape;
        // Sequence and page numbers were checked.
        let sequence = self.batch.sequences[token] as usize;
        let entry = sequence * self.batch.max_pages + position / page_len;
        let page = self.batch.page_table[entry] as usize;
        let row = (page * n_head_kv + head_kv) * page_len + position % page_len;
        let n_bytes = out.len() * cache.ty.block_bytes();
        widen(&cache.bytes[row * n_bytes..][..n_bytes], out);
    }

    /// A score from the product of key and query.
    #[inline(always)]
    fn score(&self, product: f32) -> f32 {
        match self.shape.softcap {
            None => product * self.scale,
            Some(cap) => cap * (product * (self.scale / cap)).tanh(),
        }
    }
}

/// Computes the attention of every query over its past into `out` [value_dim, n_head, n_tokens]. The number of threads
/// chooses how the past of a token alone is cut.
///
/// # Errors
/// As [`crate::attention`].
pub fn attention(
    pool: &Pool,
    shape: &AttentionShape,
    form: AttentionForm,
    batch: &AttentionBatch<'_>,
    k: CacheView<'_>,
    v: CacheView<'_>,
    out: &mut [f32],
) -> Result<(), KernelError> {
    let (query_scale, scale) = if form.scales_queries {
        (shape.scale, 1.0)
    } else {
        (1.0, shape.scale)
    };
    let ends = &checked_ends(shape, batch, k, v, out.len())?;
    let past = &Past {
        shape,
        ring: form.ring.unwrap_or(usize::MAX).max(1),
        batch,
        k,
        v,
        ends,
        query_scale,
        scale,
    };
    let (n_tokens, n_head, dim) = (batch.positions.len(), shape.n_head, shape.value_dim);
    if n_tokens >= TILE {
        let job_len = TOKENS_PER_JOB * n_head * dim;
        for_each_chunk(pool, out, job_len, |index, out| {
            let first = index * TOKENS_PER_JOB;
            let tokens = first..(first + TOKENS_PER_JOB).min(n_tokens);
            for head_kv in 0..shape.n_head_kv {
                in_tiles(past, tokens.clone(), head_kv, out);
            }
        });
        return Ok(());
    }
    let n_cells = ends
        .first()
        .map_or(0, |end| end.next_multiple_of(PAST_STEP).min(past.ring));
    let is_cut = n_tokens == 1 && n_cells >= PAST_CUT_FROM;
    let run = if is_cut {
        n_cells.div_ceil(pool.n_threads())
    } else {
        usize::MAX
    };
    for_each_chunk(pool, out, dim, |index, out| {
        let (token, head) = (index / n_head, index % n_head);
        if !is_cut {
            let positions = past.in_cells(token, &(0..usize::MAX));
            one_by_one(past, token, head, positions).write(out);
            return;
        }
        let mut all = Partial::new(dim);
        for first in (0..n_cells).step_by(run) {
            let positions = past.in_cells(token, &(first..first + run));
            all.add(&one_by_one(past, token, head, positions));
        }
        all.write(out);
    });
    Ok(())
}

wide! {
    fn one_by_one(past: &Past<'_>, token: usize, head: usize, positions: [Range<usize>; 2]) -> Partial {
        each_position(past, token, head, positions)
    }

    fn in_tiles(past: &Past<'_>, tokens: Range<usize>, head_kv: usize, out: &mut [f32]) {
        each_tile(past, tokens, head_kv, out);
    }
}

/// Queries and sums have the type of the cache: with 16-bit values, the sum is rounded to 16 bits at every position.
#[inline(always)]
fn each_position(
    past: &Past<'_>,
    token: usize,
    head: usize,
    positions: [Range<usize>; 2],
) -> Partial {
    let head_kv = past.head_kv(head);
    let mut query = past.query(token, head);
    if past.k.ty == F16 {
        query.iter_mut().for_each(|x| *x = narrow(*x));
    }
    let is_narrow = past.v.ty == F16;
    let keep = |x| if is_narrow { narrow(x) } else { x };
    let mut key = vec![0.0; past.shape.key_dim];
    let mut value = vec![0.0; past.shape.value_dim];
    let mut partial = Partial::new(past.shape.value_dim);
    for position in positions.into_iter().flatten() {
        past.read(past.k, token, head_kv, position, &mut key);
        past.read(past.v, token, head_kv, position, &mut value);
        let score = past.score(dot(&key, &query));
        let (mut before, mut weight) = (1.0, 1.0);
        if score > partial.largest {
            before = (partial.largest - score).exp();
            partial.largest = score;
            for sum in &mut partial.values {
                *sum = keep(*sum * before);
            }
        } else {
            weight = (score - partial.largest).exp();
        }
        for (sum, value) in partial.values.iter_mut().zip(&value) {
            *sum = keep(value.mul_add(weight, *sum));
        }
        partial.sum = partial.sum * before + weight;
    }
    partial
}

/// Keys and values of 64 positions of a sequence.
struct Tile {
    sequence: Option<i32>,
    /// [64, key_dim], one position beside the other.
    keys: Vec<[f32; TILE]>,
    /// [value_dim, 64].
    values: Vec<f32>,
    row: Vec<f32>,
}

impl Tile {
    fn new(shape: &AttentionShape) -> Self {
        Self {
            sequence: None,
            keys: vec![[0.0; TILE]; shape.key_dim],
            values: vec![0.0; TILE * shape.value_dim],
            row: vec![0.0; shape.key_dim],
        }
    }

    /// Reads what the first of a sequence's tokens sees of the positions from `first` on, and what comes behind: pages before
    /// the window may be gone.
    #[inline(always)]
    fn read(&mut self, past: &Past<'_>, token: usize, head_kv: usize, first: usize) {
        let sequence = past.batch.sequences[token];
        if self.sequence.replace(sequence) == Some(sequence) {
            return;
        }
        let dim = past.shape.value_dim;
        let seen_from = past.start(token).max(first) - first;
        for index in seen_from..TILE.min(past.len(sequence) - first) {
            past.read(past.k, token, head_kv, first + index, &mut self.row);
            for (keys, &x) in self.keys.iter_mut().zip(&self.row) {
                keys[index] = x;
            }
            let value = &mut self.values[index * dim..][..dim];
            past.read(past.v, token, head_kv, first + index, value);
        }
    }
}

/// A query and what it has seen.
struct Query {
    token: usize,
    head: usize,
    query: Vec<f32>,
    partial: Partial,
}

/// The queries of some tokens that share a head of keys and values; `out` is that of these tokens.
#[inline(always)]
fn each_tile(past: &Past<'_>, tokens: Range<usize>, head_kv: usize, out: &mut [f32]) {
    let (n_head, dim) = (past.shape.n_head, past.shape.value_dim);
    let group = n_head / past.shape.n_head_kv;
    let heads = head_kv * group..(head_kv + 1) * group;
    let each_head = |token| heads.clone().map(move |head| (token, head));
    let mut queries: Vec<Query> = tokens
        .clone()
        .flat_map(each_head)
        .map(|(token, head)| Query {
            token,
            head,
            query: past.query(token, head),
            partial: Partial::new(dim),
        })
        .collect();
    let mut tile = Tile::new(past.shape);
    let ends = past.ends[tokens.clone()].iter();
    let end = ends.copied().max().unwrap_or(0);
    let starts = tokens.clone().map(|token| past.start(token));
    let start = starts.min().unwrap_or(0);
    let mut tiles: Vec<usize> = (start - start % TILE..end).step_by(TILE).collect();
    // A tile whose cells were written anew in part is in two of these; what is left of the round before sees nothing new.
    tiles.sort_by_key(|first| first % past.ring);
    for first in tiles {
        tile.sequence = None;
        for query in &mut queries {
            let (start, end) = (past.start(query.token), past.ends[query.token]);
            let seen = start.max(first)..end.min(first + TILE);
            if !seen.is_empty() {
                tile.read(past, query.token, head_kv, first);
                let seen = seen.start - first..seen.end - first;
                add_tile(past, &query.query, &tile, seen, &mut query.partial);
            }
        }
    }
    for query in &queries {
        let index = (query.token - tokens.start) * n_head + query.head;
        query.partial.write(&mut out[index * dim..][..dim]);
    }
}

/// One query and one tile, of which it sees some positions.
#[inline(always)]
fn add_tile(
    past: &Past<'_>,
    query: &[f32],
    tile: &Tile,
    seen: Range<usize>,
    partial: &mut Partial,
) {
    let mut scores = [0.0f32; TILE];
    for (keys, &q) in tile.keys.iter().zip(query) {
        for (score, key) in scores.iter_mut().zip(keys) {
            *score = key.mul_add(q, *score);
        }
    }
    let mut tile_largest = f32::NEG_INFINITY;
    for (index, score) in scores.iter_mut().enumerate() {
        *score = if seen.contains(&index) {
            past.score(*score)
        } else {
            f32::NEG_INFINITY
        };
        tile_largest = tile_largest.max(*score);
    }
    if tile_largest > partial.largest {
        let before = (partial.largest - tile_largest).exp();
        partial.values.iter_mut().for_each(|sum| *sum *= before);
        partial.sum *= before;
        partial.largest = tile_largest;
    }
    let mut sum = 0.0f64;
    for scores in scores.as_chunks_mut::<8>().0 {
        let powers: Lanes = exp_lanes(scores.map(|score| score - partial.largest));
        *scores = powers;
        sum += f64::from(sum_lanes(powers));
    }
    partial.sum = (f64::from(partial.sum) + sum) as f32;
    let dim = partial.values.len();
    for index in seen {
        let weight = scores[index];
        for (sum, value) in partial
            .values
            .iter_mut()
            .zip(&tile.values[index * dim..][..dim])
        {
            *sum = value.mul_add(weight, *sum);
        }
    }
}

/// Rounded to a 16-bit float.
#[inline(always)]
fn narrow(x: f32) -> f32 {
    f16_to_f32(f32_to_f16(x))
}

/// Reads 16-bit or 32-bit floats: as many as `out` has room for.
#[inline(always)]
fn widen(bytes: &[u8], out: &mut [f32]) {
    if bytes.len() == 2 * out.len() {
        for (out, bytes) in out.iter_mut().zip(bytes.as_chunks().0) {
            *out = f16_to_f32(u16::from_le_bytes(*bytes));
        }
    } else {
        for (out, bytes) in out.iter_mut().zip(bytes.as_chunks().0) {
            *out = f32::from_le_bytes(*bytes);
        }
    }
}
