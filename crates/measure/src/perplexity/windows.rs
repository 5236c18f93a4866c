//! Windows of a text through the model: rows of logits come out, in the order of the text.

use std::sync::Arc;

use gristmill_engine::{BatchToken, Context, LoadOptions, Model, PAGE_LEN, SequenceId};

use super::{N_CTX_MIN, Options};
use crate::error::MeasureError;

/// Most bytes of logits that one step gives: vocabularies have up to a quarter of a million tokens.
const LOGITS_BYTES_MAX: usize = 256 << 20;

/// A row of logits, and what it should have foretold.
pub(super) struct Row<'a> {
    /// Its number, counted through the windows that are computed together.
    pub number: usize,
    /// `[n_vocab]`.
    pub logits: &'a [f32],
    /// The token behind it.
    pub next: u32,
}

/// Computes windows, several at once where they are short.
pub(super) struct Windows {
    context: Context,
    n_ctx: usize,
    n_at_once: usize,
    /// Stands in place of the first token.
    first: Option<u32>,
    n_threads: usize,
    batch: Vec<BatchToken>,
}

impl Windows {
    pub fn new(model: &Arc<Model>, options: &Options) -> Result<Windows, MeasureError> {
        let n_ctx = options.n_ctx;
        if n_ctx < N_CTX_MIN {
            return Err(MeasureError::WindowTooSmall { n_ctx });
        }
        let n_at_once = (options.load.n_ubatch / n_ctx).max(1);
        let load = LoadOptions {
            // Sequences share no page.
            n_ctx: Some(n_ctx.next_multiple_of(PAGE_LEN).saturating_mul(n_at_once)),
            n_sequences: n_at_once,
            ..options.load
        };
        let mut context = Context::new(Arc::clone(model), &load)?;
        for sequence in 0..n_at_once {
            context.set_adapters(SequenceId(sequence as u32), &options.adapters)?;
        }
        Ok(Windows {
            context,
            n_ctx,
            n_at_once,
            first: model
                .tokenizer()
                .bos()
                .filter(|_| model.tokenizer().add_bos()),
            n_threads: model.n_threads(),
            batch: Vec::new(),
        })
    }

    /// Windows that are computed together.
    pub fn n_at_once(&self) -> usize {
        self.n_at_once
    }

    /// Predictions of a window that count.
    pub fn n_scored(&self) -> usize {
        self.n_ctx - 1 - self.n_ctx / 2
    }

    /// Computes whole windows, at most [`Windows::n_at_once`], and what `look` makes of each row, on all threads.
    pub fn compute<T: Send>(
        &mut self,
        ids: &[u32],
        look: &(dyn Fn(Row<'_>) -> T + Sync),
    ) -> Result<Vec<T>, MeasureError> {
        self.batch.clear();
        let mut next = Vec::new();
        let scored = self.n_ctx / 2..self.n_ctx - 1;
        for (sequence, window) in ids.chunks(self.n_ctx).enumerate() {
            let sequence = SequenceId(sequence as u32);
            self.context.past_mut().truncate(sequence, 0);
            for (position, &id) in window.iter().enumerate() {
                let output = scored.contains(&position);
                let id = self.first.filter(|_| position == 0).unwrap_or(id);
                self.batch.push(BatchToken {
                    id,
                    sequence,
                    output,
                });
                next.extend(output.then(|| window[position + 1]));
            }
        }
        let mut found = Vec::with_capacity(next.len());
        let n_rows_max = (LOGITS_BYTES_MAX / (4 * self.context.model().n_vocab().max(1))).max(1);
        let mut rest = self.batch.as_slice();
        while !rest.is_empty() {
            let (part, later) = rest.split_at(part_of(rest, self.context.n_ubatch(), n_rows_max));
            rest = later;
            let n_rows = self.context.decode(part)?;
            let rows: Vec<Row<'_>> = (0..n_rows)
                .map(|row| Row {
                    number: found.len() + row,
                    logits: self.context.logits(row),
                    next: next[found.len() + row],
                })
                .collect();
            found.extend(on_threads(rows, self.n_threads, look));
        }
        Ok(found)
    }
}

/// Tokens of the next part: so many, with so many rows of logits.
fn part_of(batch: &[BatchToken], n_tokens_max: usize, n_rows_max: usize) -> usize {
    let mut n_rows = 0;
    let fits = |token: &&BatchToken| {
        n_rows += usize::from(token.output);
        n_rows <= n_rows_max
    };
    batch.iter().take(n_tokens_max).take_while(fits).count()
}

/// Looks at rows on several threads, and gives the answers in their order.
fn on_threads<T: Send>(
    rows: Vec<Row<'_>>,
    n_threads: usize,
    look: &(dyn Fn(Row<'_>) -> T + Sync),
) -> Vec<T> {
    let n_each = rows.len().div_ceil(n_threads.max(1)).max(1);
    let mut shares = Vec::new();
    let mut rows = rows.into_iter();
    loop {
        let share: Vec<Row<'_>> = rows.by_ref().take(n_each).collect();
        if share.is_empty() {
            break;
        }
        shares.push(share);
    }
    std::thread::scope(|scope| {
        let mut shares = shares.into_iter();
        let own = shares.next().unwrap_or_default();
        let others: Vec<_> = shares
            .map(|share| scope.spawn(move || share.into_iter().map(look).collect::<Vec<T>>()))
            .collect();
        let mut answers: Vec<T> = own.into_iter().map(look).collect();
        for other in others {
            match other.join() {
                Ok(more) => answers.extend(more),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        answers
    })
}
