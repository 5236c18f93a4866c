//! How well a model foretells a text, and how far its predictions are from another's.
//!
//! A text is cut into windows of `n_ctx` tokens that do not overlap. Each is computed from nothing, with the beginning-of-text
//! token in place of its first one where the vocabulary asks for one, and only the predictions of its second half count: they
//! see at least half a window. That is how the reference measures, so figures compare.

mod divergence;
mod logits_file;
mod score;
mod windows;

use std::sync::Arc;

use gristmill_engine::{Adapters, LoadOptions, Model, check_values};

use crate::error::MeasureError;
pub use divergence::{Divergence, Interval, Spread, divergence};
pub use logits_file::{LogitsReader, LogitsWriter};
pub use score::Score;
use windows::{Row, Windows};

/// The smallest window: a half of one token to see, and one to foretell.
pub const N_CTX_MIN: usize = 3;

/// What to measure, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// Tokens of a window, at least [`N_CTX_MIN`].
    pub n_ctx: usize,
    /// The most windows; none for as many as the text has.
    pub n_chunks: Option<usize>,
    /// How the model is computed. The context is made to fit the windows.
    pub load: LoadOptions,
    /// What changes its weights.
    pub adapters: Adapters,
}

/// What is known after a window.
#[derive(Clone, Copy, Debug)]
pub struct Progress<T> {
    /// Windows that are done.
    pub n_done: usize,
    /// Windows in all.
    pub n_chunks: usize,
    /// The measure of all tokens so far.
    pub value: T,
}

/// A measured perplexity.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Perplexity {
    /// Tokens that were foretold.
    pub n_scored: usize,
    /// Mean negative log-likelihood, in nats.
    pub nll: f64,
    /// Its standard error; none of one token, or where all are alike.
    pub nll_error: Option<f64>,
}

impl Perplexity {
    /// The perplexity: e to the mean negative log-likelihood.
    pub fn value(&self) -> f64 {
        self.nll.exp()
    }

    /// Its standard error, to the first order.
    pub fn error(&self) -> Option<f64> {
        self.nll_error.map(|error| error * self.value())
    }
}

/// Sums of negative log-likelihoods, in the order of the text.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    count: usize,
    nll: f64,
    nll2: f64,
}

impl Sums {
    fn add(&mut self, score: &Score) {
        let nll = -score.log_probability;
        self.count += 1;
        self.nll += nll;
        self.nll2 += nll * nll;
    }

    fn perplexity(&self) -> Perplexity {
        let n = self.count as f64;
        let mean = self.nll / n;
        let variance = self.nll2 / n - mean * mean;
        Perplexity {
            n_scored: self.count,
            nll: mean,
            nll_error: (self.count > 1 && variance > 0.0).then(|| (variance / (n - 1.0)).sqrt()),
        }
    }
}

/// The windows of a text: how many tokens it needs, and how many windows it has.
///
/// # Errors
/// [`MeasureError::TextTooShort`] below two windows, as in the reference.
pub fn n_chunks_of(n_tokens: usize, options: &Options) -> Result<usize, MeasureError> {
    if n_tokens < 2 * options.n_ctx {
        return Err(MeasureError::TextTooShort {
            n_tokens,
            n_needed: 2 * options.n_ctx,
            n_ctx: options.n_ctx,
        });
    }
    let n_chunks = n_tokens / options.n_ctx;
    Ok(options.n_chunks.map_or(n_chunks, |most| n_chunks.min(most)))
}

/// The perplexity of a text, whose ids begin as the vocabulary asks for. `save` takes what the model foretells; `each` is told
/// after every window.
///
/// # Errors
/// A text that is too short, logits that are no numbers, what the engine and the disk report.
pub fn perplexity(
    model: &Arc<Model>,
    ids: &[u32],
    options: &Options,
    mut save: Option<&mut LogitsWriter>,
    each: &mut dyn FnMut(Progress<Perplexity>) -> Result<(), MeasureError>,
) -> Result<Perplexity, MeasureError> {
    let n_chunks = n_chunks_of(ids.len(), options)?;
    let ids = &ids[..n_chunks * options.n_ctx];
    let mut windows = Windows::new(model, options)?;
    let mut sums = Sums::default();
    let mut n_done = 0;
    let is_saved = save.is_some();
    for group in ids.chunks(options.n_ctx * windows.n_at_once()) {
        let scored = windows.compute(group, &|row: Row<'_>| {
            let encoded = is_saved.then(|| logits_file::encode(row.logits));
            (Score::of(row.logits, row.next), encoded)
        })?;
        for window in scored.chunks(windows.n_scored()) {
            for (index, (score, encoded)) in window.iter().enumerate() {
                let score = score
                    .as_ref()
                    .ok_or_else(|| not_numbers(model, n_done, options.n_ctx / 2 + index))?;
                sums.add(score);
                if let (Some(writer), Some(row)) = (save.as_deref_mut(), encoded) {
                    writer.write_row(row)?;
                }
            }
            n_done += 1;
            each(Progress {
                n_done,
                n_chunks,
                value: sums.perplexity(),
            })?;
        }
    }
    Ok(sums.perplexity())
}

/// Logits that are no numbers: the tensor that they come from, where it shows.
fn not_numbers(model: &Model, window: usize, position: usize) -> MeasureError {
    match check_values(model.file(), model.n_threads()) {
        Err(error) => MeasureError::Engine(error),
        Ok(()) => MeasureError::NotNumbers {
            chunk: window + 1,
            position,
        },
    }
}
