//! Batches in, logits out.

use std::sync::Arc;

use gristmill_compute::{BatchShape, Executor, Inputs, Plan};

use crate::adapter::Adapters;
use crate::cache::{CacheTypes, PagedCache, Past, SequenceId};
use crate::error::EngineError;
use crate::model::{LoadOptions, Model};
use crate::network::Room;
use crate::sequences::{AdapterSet, SequenceAdapters, is_same};

/// Plans kept; a chat needs one for decoding and a few for the ends of prompts.
const PLANS_KEPT: usize = 8;

/// One token of a batch. Its position is the next of its sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchToken {
    /// Token id.
    pub id: u32,
    /// The sequence that it continues.
    pub sequence: SequenceId,
    /// Whether logits are wanted for what follows it.
    pub output: bool,
}

/// A model at work: the past of its sequences, and plans for the batches it has seen.
///
/// What a sequence computes does not depend on how its tokens are cut into batches, nor on its neighbours.
pub struct Context {
    model: Arc<Model>,
    cache: PagedCache,
    executor: Executor,
    plans: Vec<(BatchShape, Option<Arc<AdapterSet>>, Plan)>,
    adapters: SequenceAdapters,
    n_ctx: usize,
    n_ubatch: usize,
    /// Pages of the smallest table of the cache.
    n_pages: usize,
    inputs: InputBuffers,
    /// Logits of earlier parts of the batch, where it takes more than one execution to give them all.
    rows: Vec<f32>,
    /// Whether all rows of the last batch are the executor's output.
    direct: bool,
    output: Output,
}

/// What the rows of a batch are.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Output {
    /// Logits.
    Logits,
    /// The last layer's rows, or the scores of a classifier.
    Hidden {
        /// Whether a token sees no later one. Otherwise a sequence must come in one batch.
        causal: bool,
        /// Scores.
        scores: bool,
    },
}

#[derive(Default)]
struct InputBuffers {
    tokens: Vec<i32>,
    positions: Vec<i32>,
    slots: Vec<i32>,
    sequences: Vec<i32>,
    page_table: Vec<i32>,
    output_rows: Vec<i32>,
    /// The sequences of the page table's rows.
    rows: Vec<Row>,
}

/// A sequence of a batch.
#[derive(Clone, Copy)]
struct Row {
    sequence: SequenceId,
    /// Its length before the batch.
    n_past: usize,
    /// Its length with the tokens described so far.
    n_described: usize,
}

impl Context {
    /// Reserves the cache, and plans decoding and prefill; a batch of another shape is planned when it comes.
    ///
    /// Errors: a context of no positions, a cache type that is not supported, not enough memory.
    pub fn new(model: Arc<Model>, options: &LoadOptions) -> Result<Self, EngineError> {
        let mut context = Self::of(model, options, Output::Logits)?;
        for n_tokens in [context.n_ubatch, 1] {
            let plan = context.plan(n_tokens, 1, 1, None)?;
            context.executor.prepare(&context.plans[plan].2)?;
        }
        Ok(context)
    }

    /// Reserves the cache for rows of some kind; every batch is planned when it comes.
    pub(crate) fn of(
        model: Arc<Model>,
        options: &LoadOptions,
        output: Output,
    ) -> Result<Self, EngineError> {
        let room = Room::new(model.network(), options, output)?;
        let (n_ctx, layout, backend) = (room.n_ctx, &room.layout, model.backend());
        let n_pages = layout.tables.iter().map(|table| table.n_pages).min();
        let cache = PagedCache::new(backend.clone(), layout, model.rotations(n_ctx)?)?;
        Ok(Context {
            executor: Executor::new(vec![backend]),
            cache,
            plans: Vec::new(),
            adapters: SequenceAdapters::default(),
            n_ctx,
            n_ubatch: room.n_ubatch,
            n_pages: n_pages.unwrap_or(0),
            inputs: InputBuffers::default(),
            rows: Vec::new(),
            direct: false,
            output,
            model,
        })
    }

    /// The model.
    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// Positions that all sequences together can hold, and the most of one.
    pub fn n_ctx(&self) -> usize {
        self.n_ctx
    }

    /// The past of the sequences.
    pub fn past(&self) -> &dyn Past {
        &self.cache
    }

    /// The past of the sequences, to truncate, save and restore. It knows nothing of adapters: copies are made by [`Context::fork`].
    pub fn past_mut(&mut self) -> &mut dyn Past {
        &mut self.cache
    }

    /// Types of the cache.
    pub(crate) fn cache_types(&self) -> CacheTypes {
        self.cache.types()
    }

    /// Of each layer, the window behind which nothing is kept.
    pub(crate) fn cache_windows(&self) -> impl Iterator<Item = Option<usize>> {
        self.cache.windows()
    }

    /// Bytes of the cache.
    pub fn cache_bytes(&self) -> u64 {
        self.cache.n_bytes()
    }

    /// Bytes of intermediate values.
    pub fn compute_bytes(&self) -> u64 {
        self.executor.arena_bytes(0) as u64
    }

    /// Pages of the cache.
    pub(crate) fn n_pages(&self) -> usize {
        self.n_pages
    }

    /// Most tokens of one execution.
    pub fn n_ubatch(&self) -> usize {
        self.n_ubatch
    }

    /// Computes a sequence with these adapters from now on; true where it had others. What was computed with others is no past
    /// of it: then it begins anew.
    ///
    /// Errors: adapters of another model.
    pub fn set_adapters(
        &mut self,
        sequence: SequenceId,
        adapters: &Adapters,
    ) -> Result<bool, EngineError> {
        adapters.check(&self.model)?;
        let is_new = self.adapters.set(sequence, adapters);
        if is_new {
            self.cache.truncate(sequence, 0);
        }
        Ok(is_new)
    }

    /// The adapters of a sequence, where it has any.
    pub fn adapters(&self, sequence: SequenceId) -> Option<&Adapters> {
        self.adapters.of(sequence).map(|set| &set.adapters)
    }

    /// Makes `to` a copy of `from`, which it replaces, adapters included.
    pub fn fork(&mut self, from: SequenceId, to: SequenceId) {
        self.cache.fork(from, to);
        self.adapters.copy(from, to);
    }

    /// Runs a batch and returns the number of rows of logits, one per token with `output` set, in order; read
    /// them with [`Context::logits`]. Longer batches than [`Context::n_ubatch`] run in parts, and so do tokens of sequences with
    /// different adapters.
    ///
    /// Errors: a token outside the vocabulary, a sequence that grows beyond the context, no pages left, a
    /// failing backend. Then the sequences of the batch are as they were before the part that failed.
    pub fn decode(&mut self, batch: &[BatchToken]) -> Result<usize, EngineError> {
        self.check(batch)?;
        if let Some(groups) = self.adapters.groups(batch) {
            return self.decode_groups(batch, &groups);
        }
        let n_outputs = batch.iter().filter(|token| token.output).count();
        self.rows.clear();
        self.direct = true;
        let n_parts = batch.len().div_ceil(self.n_ubatch);
        for (index, part) in batch.chunks(self.n_ubatch).enumerate() {
            let n_rows = self.decode_part(part)?;
            // rows of the last part stay where they are when they are all there is
            self.direct = index + 1 == n_parts && n_rows == n_outputs;
            if n_rows > 0 && !self.direct {
                self.rows.extend_from_slice(self.executor.output(0));
            }
        }
        Ok(n_outputs)
    }

    /// Runs the groups of a batch one after the other, and puts their rows into the batch's order.
    fn decode_groups(
        &mut self,
        batch: &[BatchToken],
        groups: &[Vec<usize>],
    ) -> Result<usize, EngineError> {
        let width = self.row_width();
        let mut row_of = Vec::with_capacity(batch.len());
        let mut n_outputs = 0;
        for token in batch {
            row_of.push(n_outputs);
            n_outputs += usize::from(token.output);
        }
        let mut rows = vec![0.0; n_outputs * width];
        for group in groups {
            let part: Vec<BatchToken> = group.iter().map(|&index| batch[index]).collect();
            self.decode(&part)?;
            let outputs = group.iter().filter(|&&index| batch[index].output);
            for (row, &index) in outputs.enumerate() {
                let start = row_of[index] * width;
                rows[start..start + width].copy_from_slice(self.row(row));
            }
        }
        self.rows = rows;
        self.direct = false;
        Ok(n_outputs)
    }

    /// Row `index` of the last batch's logits, `[n_vocab]`; empty if there is none.
    pub fn logits(&self, index: usize) -> &[f32] {
        self.row(index)
    }

    /// Row `index` of the last batch, of [`Context::row_width`] elements; empty if there is none.
    pub(crate) fn row(&self, index: usize) -> &[f32] {
        let rows = if self.direct {
            self.executor.output(0)
        } else {
            &self.rows
        };
        let width = self.row_width();
        rows.get(index * width..(index + 1) * width).unwrap_or(&[])
    }

    /// Elements of a row.
    pub(crate) fn row_width(&self) -> usize {
        let hparams = self.model.hyperparameters();
        match self.output {
            Output::Logits => hparams.n_vocab,
            Output::Hidden { scores: true, .. } if self.model.network().has_labels() => {
                hparams.n_labels
            }
            Output::Hidden { .. } => hparams.n_embd,
        }
    }

    fn check(&self, batch: &[BatchToken]) -> Result<(), EngineError> {
        let n_vocab = self.model.n_vocab();
        match batch.iter().find(|token| token.id as usize >= n_vocab) {
            Some(token) => Err(EngineError::TokenOutOfRange {
                id: token.id,
                n_vocab,
            }),
            None => Ok(()),
        }
    }

    fn decode_part(&mut self, part: &[BatchToken]) -> Result<usize, EngineError> {
        self.append(part)?;
        self.describe(part);
        let result = self.execute(part.len());
        if result.is_err() {
            self.undo(self.inputs.rows.len());
        }
        result.map(|()| self.inputs.output_rows.len())
    }

    fn execute(&mut self, n_tokens: usize) -> Result<(), EngineError> {
        // All of the part have one set of adapters.
        let first = self.inputs.rows.first().map(|row| row.sequence);
        let set = first.and_then(|sequence| self.adapters.of(sequence).cloned());
        let plan = self.plan(
            n_tokens,
            self.inputs.output_rows.len(),
            self.inputs.rows.len(),
            set,
        )?;
        let inputs = Inputs {
            tokens: &self.inputs.tokens,
            positions: &self.inputs.positions,
            slots: &self.inputs.slots,
            sequences: &self.inputs.sequences,
            page_table: &self.inputs.page_table,
            output_rows: &self.inputs.output_rows,
        };
        Ok(self.executor.run(&self.plans[plan].2, &inputs)?)
    }

    /// Gives the part's tokens their places in the cache; all of them or none.
    fn append(&mut self, part: &[BatchToken]) -> Result<(), EngineError> {
        self.inputs.clear();
        for token in part {
            let sequence = token.sequence;
            if self.inputs.rows.iter().all(|row| row.sequence != sequence) {
                let n_past = self.cache.n_past(sequence);
                self.inputs.rows.push(Row {
                    sequence,
                    n_past,
                    n_described: n_past,
                });
            }
        }
        for index in 0..self.inputs.rows.len() {
            let Row {
                sequence, n_past, ..
            } = self.inputs.rows[index];
            let n_new = part
                .iter()
                .filter(|token| token.sequence == sequence)
                .count();
            let appended = match n_past + n_new <= self.n_ctx {
                true => self.cache.append(sequence, n_new),
                false => Err(EngineError::ContextFull {
                    n_past,
                    n_new,
                    n_ctx: self.n_ctx,
                    n_ctx_max: self.model.network().context_length_max(),
                }),
            };
            if let Err(error) = appended {
                self.undo(index);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Cuts the first sequences of the part back to what they were.
    fn undo(&mut self, n_rows: usize) {
        for row in &self.inputs.rows[..n_rows] {
            self.cache.truncate(row.sequence, row.n_past);
        }
    }

    fn describe(&mut self, part: &[BatchToken]) {
        let inputs = &mut self.inputs;
        for (index, token) in part.iter().enumerate() {
            let row = inputs
                .rows
                .iter()
                .position(|row| row.sequence == token.sequence)
                .unwrap_or(0);
            let position = inputs.rows[row].n_described;
            inputs.rows[row].n_described += 1;
            inputs.tokens.push(token.id as i32);
            // `Model::context_length` keeps positions and slots within an i32
            inputs.positions.push(position as i32);
            inputs.sequences.push(row as i32);
            if token.output {
                inputs.output_rows.push(index as i32);
            }
        }
        for table in 0..self.cache.n_tables() {
            for (token, &position) in part.iter().zip(&inputs.positions) {
                // appended before, so there is a slot
                let slot = self.cache.slot(table, token.sequence, position as usize);
                inputs.slots.push(slot.unwrap_or(0) as i32);
            }
        }
        inputs.fill_page_tables(&self.cache);
    }

    /// The index of the plan for a batch, made if it is new. The most recent plan is the last.
    fn plan(
        &mut self,
        n_tokens: usize,
        n_outputs: usize,
        n_sequences: usize,
        set: Option<Arc<AdapterSet>>,
    ) -> Result<usize, EngineError> {
        let max_pages = self.cache.max_pages();
        let shape = BatchShape {
            n_tokens,
            n_outputs,
            n_sequences,
            max_pages,
        };
        let is_known = |(known, of, _): &(BatchShape, Option<Arc<AdapterSet>>, Plan)| {
            *known == shape && is_same(of.as_ref(), set.as_ref())
        };
        if let Some(index) = self.plans.iter().position(is_known) {
            self.plans[index..].rotate_left(1);
        } else {
            let plan = self.model.network().plan(
                self.cache.layers(),
                (self.n_ctx, self.output),
                shape,
                set.as_ref().map(|set| &set.changes),
                self.executor.devices(),
            )?;
            if self.plans.len() == PLANS_KEPT {
                self.plans.remove(0);
            }
            self.plans.push((shape, set, plan));
        }
        Ok(self.plans.len() - 1)
    }
}

impl InputBuffers {
    fn clear(&mut self) {
        self.tokens.clear();
        self.positions.clear();
        self.slots.clear();
        self.sequences.clear();
        self.page_table.clear();
        self.output_rows.clear();
        self.rows.clear();
    }

    fn fill_page_tables(&mut self, cache: &PagedCache) {
        for table in 0..cache.n_tables() {
            for row in &self.rows {
                let start = self.page_table.len();
                // Pages that are gone have no number; nothing reads them, nor entries past the end.
                let pages = cache.pages(table, row.sequence).iter();
                let numbers = pages.map(|&page| i32::try_from(page).unwrap_or(-1));
                self.page_table.extend(numbers);
                self.page_table.resize(start + cache.max_pages(), -1);
            }
        }
    }
}
