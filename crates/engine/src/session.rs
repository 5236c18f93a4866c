//! One sequence of a context, which remembers its tokens and computes only what is new.

use std::ops::Range;
use std::sync::Arc;

use crate::adapter::Adapters;
use crate::cache::SequenceId;
use crate::context::{BatchToken, Context};
use crate::error::EngineError;
use crate::generate::{
    Answer, GenerateOptions, Keep, Listener, Prediction, Predictor, Watch, check_request, generate,
    removed,
};
use crate::model::{Arithmetic, LoadOptions, Model};
use crate::speculative::Speculation;

/// A conversation, or a text that is continued.
pub struct Session {
    context: Context,
    sequence: SequenceId,
    /// The tokens whose past the context holds.
    tokens: Vec<u32>,
    batch: Vec<BatchToken>,
    speculation: Option<Speculation>,
    /// Tokens of the last prediction; those behind them are a draft.
    n_asked: usize,
    /// The positions whose logits are there behind a draft, the rows of the context in order.
    ahead: Range<usize>,
}

impl Session {
    /// A session with a context of its own.
    ///
    /// Errors: as [`Context::new`].
    pub fn new(model: Arc<Model>, options: &LoadOptions) -> Result<Self, EngineError> {
        let context = Context::new(model, options)?;
        Ok(Session {
            context,
            sequence: SequenceId(0),
            tokens: Vec::new(),
            batch: Vec::new(),
            speculation: None,
            n_asked: 0,
            ahead: 0..0,
        })
    }

    /// The context.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// The tokens computed so far.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// The sequence of the context that the session is.
    pub(crate) fn sequence(&self) -> SequenceId {
        self.sequence
    }

    /// Puts saved tokens and their state in place of what there is.
    pub(crate) fn replace(&mut self, tokens: Vec<u32>, state: &[u8]) -> Result<usize, EngineError> {
        self.context.past_mut().restore(self.sequence, state)?;
        self.tokens = tokens;
        self.ahead = 0..0;
        Ok(self.tokens.len())
    }

    /// How many of these tokens the session begins with, so that they need not be computed.
    pub fn n_known(&self, ids: &[u32]) -> usize {
        let pairs = self.tokens.iter().zip(ids);
        pairs.take_while(|(known, id)| known == id).count()
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.cut(0);
    }

    /// Drafts from now on what an answer may go on with, or no longer. It changes no answer, only the speed.
    ///
    /// Errors: a drafter of another vocabulary; an arithmetic whose results depend on how tokens are cut into batches.
    pub fn set_speculation(&mut self, speculation: Option<Speculation>) -> Result<(), EngineError> {
        if let Some(speculation) = &speculation {
            let model = self.context.model();
            if model.arithmetic() != Arithmetic::Own {
                return Err(EngineError::DraftArithmetic);
            }
            speculation.check(model)?;
        }
        self.speculation = speculation;
        Ok(())
    }

    /// Why drafters stopped drafting since this was asked last. Answers go on without them, and are what they would have been.
    pub fn take_draft_failures(&mut self) -> Vec<EngineError> {
        let speculation = self.speculation.as_mut();
        speculation.map_or_else(Vec::new, Speculation::take_failures)
    }

    /// Computes with these adapters from now on, and forgets what was computed with others.
    ///
    /// Errors: as [`Context::set_adapters`].
    pub fn set_adapters(&mut self, adapters: &Adapters) -> Result<(), EngineError> {
        if self.context.set_adapters(self.sequence, adapters)? {
            self.tokens.clear();
            self.ahead = 0..0;
        }
        Ok(())
    }

    /// The adapters that it computes with.
    pub fn adapters(&self) -> Option<&Adapters> {
        self.context.adapters(self.sequence)
    }

    /// Continues a prompt. What the session has already computed of it is not computed again.
    ///
    /// Errors: as [`generate`].
    pub fn generate(
        &mut self,
        prompt: &[u32],
        options: &GenerateOptions,
        listener: &mut Listener<'_>,
    ) -> Result<Answer, EngineError> {
        let model = self.context.model().clone();
        let answer = generate(self, model.tokenizer(), prompt, options, listener);
        self.take_back();
        let counts = self.speculation.as_mut().map(Speculation::take_counts);
        answer.map(|mut answer| {
            answer.timings.drafts = counts;
            answer
        })
    }

    /// Takes back what was drafted behind the last prediction.
    fn take_back(&mut self) {
        if !self.ahead.is_empty() {
            self.cut(self.n_asked);
        }
    }

    /// Keeps at most `n` tokens, and gives the number that is left.
    fn cut(&mut self, n: usize) -> usize {
        let n_kept = self.context.past_mut().truncate(self.sequence, n);
        self.tokens.truncate(n_kept);
        self.ahead = 0..0;
        n_kept
    }

    /// What may follow these tokens, where there is room for it in the context and in one execution: so windows lose nothing
    /// that is needed behind a draft that is taken back.
    fn draft(&mut self, ids: &[u32]) -> Vec<u32> {
        let n_room = self.context.n_ctx().saturating_sub(ids.len());
        let n_max = n_room.min(self.context.n_ubatch() - 1);
        let n_vocab = self.context.model().n_vocab();
        let Some(speculation) = self.speculation.as_mut().filter(|_| n_max > 0) else {
            return Vec::new();
        };
        let mut draft = speculation.draft(ids, n_max);
        let n_known = draft.iter().take_while(|&&id| (id as usize) < n_vocab);
        draft.truncate(n_known.count());
        draft
    }

    /// Computes the last token and a draft behind it, with the logits of all.
    fn verify(&mut self, ids: &[u32], draft: &[u32]) -> Result<(), EngineError> {
        let start = ids.len() - 1;
        let tokens = ids[start..].iter().chain(draft);
        let sequence = self.sequence;
        self.batch.clear();
        self.batch.extend(tokens.map(|&id| BatchToken {
            id,
            sequence,
            output: true,
        }));
        self.context.decode(&self.batch)?;
        self.tokens.extend(self.batch.iter().map(|token| token.id));
        self.ahead = start..self.tokens.len();
        Ok(())
    }

    /// Makes a text that is longer than the context fit, as [`generate`] does while it answers: the older half of what is computed
    /// and not kept goes, until an answer has a place. A text whose new part is too long alone stays too long.
    ///
    /// Errors: as [`crate::Past::remove`].
    pub fn shift(&mut self, ids: &mut Vec<u32>, keep: Keep) -> Result<(), EngineError> {
        let n_keep = keep.count(ids, self.context.model().tokenizer());
        while ids.len() >= self.context.n_ctx() {
            let n_known = self.n_known(ids);
            let Some(positions) = removed(n_keep, n_known + 1) else {
                break;
            };
            self.remove(positions.clone())?;
            ids.drain(positions);
        }
        Ok(())
    }

    /// Whether a text of so many bytes could fit the context, before time is spent on its tokens.
    ///
    /// Errors: [`EngineError::TextTooLong`].
    pub fn check_text(&self, n_bytes: usize) -> Result<(), EngineError> {
        let n_tokens_min = self.context.model().tokenizer().fewest_tokens(n_bytes);
        let n_ctx = self.context.n_ctx();
        if n_tokens_min > n_ctx {
            return Err(EngineError::TextTooLong {
                n_bytes,
                n_tokens_min,
                n_ctx,
                n_ctx_max: self.context.model().network().context_length_max(),
            });
        }
        Ok(())
    }

    /// Whether [`Session::generate`] could begin: nothing is computed.
    ///
    /// Errors: an empty prompt, one that does not fit the context, invalid sampling options.
    pub fn check(&self, prompt: &[u32], options: &GenerateOptions) -> Result<(), EngineError> {
        let tokenizer = self.context.model().tokenizer();
        let n_ctx_max = self.context.model().network().context_length_max();
        let room = (self.context.n_ctx(), n_ctx_max);
        check_request(tokenizer, prompt, room, options)
    }

    /// Computes the tokens from `start` on, in parts; false if interrupted in between.
    fn extend(
        &mut self,
        ids: &[u32],
        start: usize,
        watch: &mut Watch<'_>,
    ) -> Result<bool, EngineError> {
        let mut at = start;
        while at < ids.len() {
            if watch(at - start, ids.len() - start) && at > start {
                return Ok(false);
            }
            let end = ids.len().min(at + self.context.n_ubatch());
            let tokens = ids[at..end].iter().enumerate();
            let sequence = self.sequence;
            self.batch.clear();
            self.batch.extend(tokens.map(|(index, &id)| BatchToken {
                id,
                sequence,
                output: at + index + 1 == ids.len(),
            }));
            self.context.decode(&self.batch)?;
            self.tokens.extend_from_slice(&ids[at..end]);
            at = end;
        }
        watch(at - start, at - start);
        Ok(true)
    }
}

impl Predictor for Session {
    fn n_ctx(&self) -> usize {
        self.context.n_ctx()
    }

    fn n_ctx_max(&self) -> usize {
        self.context.model().network().context_length_max()
    }

    fn predict(
        &mut self,
        ids: &[u32],
        watch: &mut Watch<'_>,
    ) -> Result<Option<Prediction<'_>>, EngineError> {
        let n_same = self.n_known(ids);
        let last = ids.len().saturating_sub(1);
        self.n_asked = ids.len();
        if n_same == ids.len() && self.ahead.contains(&last) {
            self.speculation.iter_mut().for_each(Speculation::accept);
            return Ok(Some(Prediction {
                logits: self.context.logits(last - self.ahead.start),
                n_computed: 1,
            }));
        }
        // the last token is always computed, since its logits are asked for
        let n_kept = self.cut(n_same.min(last));
        let n_computed = ids.len() - n_kept;
        let draft = match n_computed {
            1 => self.draft(ids),
            _ => Vec::new(),
        };
        if draft.is_empty() {
            if !self.extend(ids, n_kept, watch)? {
                return Ok(None);
            }
        } else {
            self.verify(ids, &draft)?;
        }
        if let Some(speculation) = self.speculation.as_mut().filter(|_| n_computed > 1)
            && !speculation.prepare(ids, watch)
        {
            return Ok(None);
        }
        Ok(Some(Prediction {
            logits: self.context.logits(0),
            n_computed,
        }))
    }

    fn remove(&mut self, positions: Range<usize>) -> Result<(), EngineError> {
        self.take_back();
        if let Some(speculation) = &mut self.speculation {
            speculation.remove(&positions);
        }
        let past = self.context.past_mut();
        let n_reached = past.remove(self.sequence, positions.clone())?;
        let end = positions.end.min(self.tokens.len());
        self.tokens.drain(positions.start.min(end)..end);
        self.tokens.truncate(n_reached);
        Ok(())
    }
}

/// Computes the logits of every position of a token sequence, on a cache of the types that the options
/// name (F16 by default), and hands out one row (`[n_vocab]`) at a time in order.
///
/// Errors: as [`all_logits_with`].
pub fn all_logits<E: From<EngineError>>(
    model: Arc<Model>,
    ids: &[u32],
    options: &LoadOptions,
    on_row: impl FnMut(&[f32]) -> Result<(), E>,
) -> Result<(), E> {
    all_logits_with(model, &Adapters::default(), ids, options, on_row)
}

/// As [`all_logits`], with adapters.
///
/// Errors: as [`Context::new`], [`Model::check_tokens`] and [`Context::decode`]; [`EngineError::LogitNotFinite`]; what
/// `on_row` returns.
pub fn all_logits_with<E: From<EngineError>>(
    model: Arc<Model>,
    adapters: &Adapters,
    ids: &[u32],
    options: &LoadOptions,
    mut on_row: impl FnMut(&[f32]) -> Result<(), E>,
) -> Result<(), E> {
    let mut context = context_for(model, adapters, ids, options)?;
    let mut batch = Vec::new();
    let mut position = 0;
    for part in ids.chunks(context.n_ubatch()) {
        batch.clear();
        batch.extend(part.iter().map(|&id| BatchToken {
            id,
            sequence: SequenceId(0),
            output: true,
        }));
        for row in 0..context.decode(&batch)? {
            on_row(finite(context.logits(row), position)?)?;
            position += 1;
        }
    }
    Ok(())
}

/// As [`all_logits_with`], of the last token of each batch. The batches have these lengths; the tokens beyond are batches of
/// their own, and empty batches are none.
///
/// Errors: as [`all_logits_with`].
pub fn batch_logits<E: From<EngineError>>(
    model: Arc<Model>,
    adapters: &Adapters,
    ids: &[u32],
    lengths: &[usize],
    options: &LoadOptions,
    mut on_row: impl FnMut(&[f32]) -> Result<(), E>,
) -> Result<(), E> {
    let mut context = context_for(model, adapters, ids, options)?;
    let mut lengths = lengths.iter().copied().filter(|&n| n > 0);
    let mut rest = ids;
    while !rest.is_empty() {
        let n = lengths.next().unwrap_or(1).min(rest.len());
        let (part, next) = rest.split_at(n);
        rest = next;
        let batch: Vec<_> = part
            .iter()
            .enumerate()
            .map(|(index, &id)| BatchToken {
                id,
                sequence: SequenceId(0),
                output: index + 1 == n,
            })
            .collect();
        context.decode(&batch)?;
        on_row(finite(context.logits(0), ids.len() - rest.len() - 1)?)?;
    }
    Ok(())
}

/// A context whose first sequence has these adapters and may be these tokens.
fn context_for(
    model: Arc<Model>,
    adapters: &Adapters,
    ids: &[u32],
    options: &LoadOptions,
) -> Result<Context, EngineError> {
    model.check_tokens(ids)?;
    let mut context = Context::new(model, options)?;
    context.set_adapters(SequenceId(0), adapters)?;
    Ok(context)
}

/// The logits behind a position, if all are numbers.
fn finite(logits: &[f32], position: usize) -> Result<&[f32], EngineError> {
    match logits.iter().position(|logit| !logit.is_finite()) {
        Some(id) => Err(EngineError::LogitNotFinite {
            position,
            id,
            value: logits[id],
        }),
        None => Ok(logits),
    }
}
