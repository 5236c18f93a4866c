//! The loop from a prompt to an answer.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gristmill_tokenizer::{StreamDecoder, Tokenizer};

use crate::constraint::{Constraint, ConstraintState};
use crate::error::EngineError;
use crate::model::CONTEXT_MAX;
use crate::sampling::{
    Chain, LogitBias, SamplingOptions, TokenProbability, log_probability, top_log_probabilities,
};
use crate::speculative::DraftCounts;
use crate::stop::StopMatcher;

/// Logits and what they took.
#[derive(Clone, Copy, Debug)]
pub struct Prediction<'a> {
    /// Of what follows the sequence, `[n_vocab]`.
    pub logits: &'a [f32],
    /// Tokens that were computed, one that a draft foretold included; the others were there already.
    pub n_computed: usize,
}

/// Told before each part of a prompt, and behind the last one, the tokens computed and those to compute; says whether to stop,
/// which counts between parts.
pub type Watch<'a> = dyn FnMut(usize, usize) -> bool + 'a;

/// What the loop needs of a model with one sequence.
pub trait Predictor {
    /// Positions of the context.
    fn n_ctx(&self) -> usize;

    /// Positions that a context could have.
    fn n_ctx_max(&self) -> usize {
        CONTEXT_MAX
    }

    /// Makes the sequence these tokens (`ids`, not empty) and predicts what follows. What the sequence already
    /// begins with is not computed again. Between the parts of a long prompt `watch` is told how far it is; if it
    /// says to stop, the result is none and the sequence is some beginning of `ids`.
    ///
    /// Errors: as [`crate::Context::decode`].
    fn predict(
        &mut self,
        ids: &[u32],
        watch: &mut Watch<'_>,
    ) -> Result<Option<Prediction<'_>>, EngineError>;

    /// Takes tokens out of the sequence, so that what stands behind them need not be computed again. A predictor that cannot
    /// do this does nothing: [`Predictor::predict`] computes what is missing.
    ///
    /// Errors: as [`crate::Past::remove`].
    fn remove(&mut self, _positions: Range<usize>) -> Result<(), EngineError> {
        Ok(())
    }
}

/// When to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// After this many tokens; none at all for 0, which only computes the prompt.
    Tokens(usize),
    /// When the context is full, also where it could be shifted.
    Context,
    /// Never; without context shift when the context is full.
    Endless,
}

impl Limit {
    /// The reference's `--predict`: -1 is without limit and -2 until the context is full.
    ///
    /// Errors: numbers below -2.
    pub fn from_number(n: i64) -> Result<Self, EngineError> {
        match usize::try_from(n) {
            Ok(n) => Ok(Limit::Tokens(n)),
            Err(_) => match n {
                -1 => Ok(Limit::Endless),
                -2 => Ok(Limit::Context),
                _ => Err(EngineError::Limit { n }),
            },
        }
    }
}

/// How many tokens of the prompt stay when the context is full and half of the others go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// The whole prompt.
    Prompt,
    /// So many, and a BOS before them; of a shorter prompt all.
    Tokens(usize),
}

impl Keep {
    /// The reference's `--keep`: -1 is the whole prompt.
    ///
    /// Errors: numbers below -1.
    pub fn from_number(n: i64) -> Result<Self, EngineError> {
        match usize::try_from(n) {
            Ok(n) => Ok(Keep::Tokens(n)),
            Err(_) if n == -1 => Ok(Keep::Prompt),
            Err(_) => Err(EngineError::Keep { n }),
        }
    }

    /// Tokens of a prompt that stay.
    pub(crate) fn count(self, prompt: &[u32], tokenizer: &Tokenizer) -> usize {
        let n_prompt = prompt.len();
        match self {
            Keep::Tokens(n) if n <= n_prompt => {
                let has_bos = prompt
                    .first()
                    .is_some_and(|&id| tokenizer.bos() == Some(id));
                (n + usize::from(has_bos)).min(n_prompt)
            }
            _ => n_prompt,
        }
    }
}

/// How to generate.
#[derive(Clone, Debug)]
pub struct GenerateOptions {
    /// Length of the answer.
    pub limit: Limit,
    /// What stays when the context is full and half of the rest goes; none where a full context ends the answer.
    pub context_shift: Option<Keep>,
    /// How tokens are picked.
    pub sampling: SamplingOptions,
    /// Strings that end the answer, and are not part of it.
    pub stops: Vec<String>,
    /// Never ends by itself: end-of-generation tokens are forbidden.
    pub ignore_eos: bool,
    /// Whether control tokens show as text.
    pub special: bool,
    /// Control tokens that show as text in any case, in rising order.
    pub shown: Vec<u32>,
    /// How many of the most probable tokens to note per step; with 0 steps are not noted at all.
    pub n_probabilities: usize,
    /// Whether probabilities are those that the stages of sampling leave, in place of the model's own.
    pub post_sampling: bool,
    /// What the answer is held to.
    pub constraint: Option<Constraint>,
    /// What comes before the constraint, where the answer begins with something else or may do so.
    pub constraint_after: Option<Thinking>,
}

/// The text before an answer that is held to a constraint: the model's thinking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thinking {
    /// The mark with which the model may begin it; nothing where the prompt has begun it already.
    pub start: Option<String>,
    /// The mark that ends it.
    pub end: String,
}

impl Default for GenerateOptions {
    fn default() -> Self {
        GenerateOptions {
            limit: Limit::Context,
            context_shift: None,
            sampling: SamplingOptions::default(),
            stops: Vec::new(),
            ignore_eos: false,
            special: false,
            shown: Vec::new(),
            n_probabilities: 0,
            post_sampling: false,
            constraint: None,
            constraint_after: None,
        }
    }
}

/// Why an answer ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StopReason {
    /// The model said so, with this token.
    EndOfGeneration(u32),
    /// A stop string was found.
    StopString(String),
    /// What the answer is held to allows nothing more.
    ConstraintComplete,
    /// The limit was reached.
    Limit,
    /// The context is full.
    ContextFull,
    /// The caller asked for it.
    Interrupted,
}

impl StopReason {
    /// A word for it: `eog`, `stop`, `complete`, `length`, `context` or `interrupted`.
    pub fn word(&self) -> &'static str {
        match self {
            StopReason::EndOfGeneration(_) => "eog",
            StopReason::StopString(_) => "stop",
            StopReason::ConstraintComplete => "complete",
            StopReason::Limit => "length",
            StopReason::ContextFull => "context",
            StopReason::Interrupted => "interrupted",
        }
    }
}

/// One step of an answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The token taken.
    pub id: u32,
    /// Its log probability by the model itself, before any sampling stage; behind all with
    /// [`GenerateOptions::post_sampling`].
    pub log_probability: f32,
    /// The most probable tokens, best first.
    pub top: Vec<TokenProbability>,
}

/// Times of an answer. Sampling and text take part in neither rate.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Timings {
    /// Tokens of the prompt that were computed; those already there do not count.
    pub n_prompt: usize,
    /// Time for them.
    pub prompt: Duration,
    /// Tokens computed one at a time.
    pub n_decoded: usize,
    /// Time for them, drafts included.
    pub decode: Duration,
    /// What came of drafts, where there is a drafter.
    pub drafts: Option<DraftCounts>,
}

impl std::ops::AddAssign for Timings {
    fn add_assign(&mut self, other: Self) {
        self.note(true, other.n_prompt, other.prompt);
        self.note(false, other.n_decoded, other.decode);
        if let Some(drafts) = other.drafts {
            *self.drafts.get_or_insert_default() += drafts;
        }
    }
}

impl Timings {
    fn note(&mut self, is_prompt: bool, n: usize, time: Duration) {
        let (count, total) = match is_prompt {
            true => (&mut self.n_prompt, &mut self.prompt),
            false => (&mut self.n_decoded, &mut self.decode),
        };
        *count += n;
        *total += time;
    }

    /// Prompt tokens per second; 0 if there were none.
    pub fn prompt_per_second(&self) -> f64 {
        rate(self.n_prompt, self.prompt)
    }

    /// Answer tokens per second; 0 if there were none.
    pub fn decode_per_second(&self) -> f64 {
        rate(self.n_decoded, self.decode)
    }
}

fn rate(n: usize, time: Duration) -> f64 {
    if n == 0 || time.is_zero() {
        0.0
    } else {
        n as f64 / time.as_secs_f64()
    }
}

/// An answer.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The tokens, an end-of-generation token included.
    pub ids: Vec<u32>,
    /// The text, as it was streamed.
    pub text: String,
    /// Why it ended.
    pub reason: StopReason,
    /// The seed in use.
    pub seed: u32,
    /// One per token, if they were asked for.
    pub steps: Vec<Step>,
    /// Times.
    pub timings: Timings,
}

/// What the loop tells its caller, and asks.
pub struct Listener<'a> {
    /// Takes each piece of text as soon as it is decided, one for each token; pieces are whole characters, and empty where
    /// nothing is decided yet.
    pub on_text: &'a mut dyn FnMut(&str),
    /// Told of each token that is picked, before its text, where steps are noted ([`GenerateOptions::n_probabilities`]).
    pub on_step: &'a mut dyn FnMut(&Step),
    /// Told before each part of the prompt, and behind the last one, how many tokens are computed, and of how many.
    pub on_prompt: &'a mut dyn FnMut(usize, usize),
    /// Whether to stop; asked before every token.
    pub interrupted: &'a dyn Fn() -> bool,
}

/// Continues a prompt.
///
/// Errors: an empty prompt, one that does not fit the context, invalid sampling options, logits that no token
/// can be picked from, a failing backend.
pub fn generate(
    predictor: &mut dyn Predictor,
    tokenizer: &Arc<Tokenizer>,
    prompt: &[u32],
    options: &GenerateOptions,
    listener: &mut Listener<'_>,
) -> Result<Answer, EngineError> {
    let n_ctx = predictor.n_ctx();
    let room = (n_ctx, predictor.n_ctx_max());
    check_request(tokenizer, prompt, room, options)?;
    let mut writer = AnswerWriter::new(tokenizer, prompt, options)?;
    let n_keep = options
        .context_shift
        .filter(|_| options.limit != Limit::Context)
        .map(|keep| keep.count(prompt, tokenizer));
    let mut is_prompt = true;
    loop {
        let start = Instant::now();
        let mut n_done = 0;
        let mut watch = |n_computed, n| {
            // A drafter begins anew behind the model.
            n_done = n_done.max(n_computed);
            if is_prompt {
                (listener.on_prompt)(n_computed, n);
            }
            (listener.interrupted)()
        };
        let Some(prediction) = predictor.predict(&writer.ids, &mut watch)? else {
            writer.timings.note(is_prompt, n_done, start.elapsed());
            return Ok(writer.finish(StopReason::Interrupted, listener.on_text));
        };
        writer
            .timings
            .note(is_prompt, prediction.n_computed, start.elapsed());
        is_prompt = false;
        if options.limit == Limit::Tokens(0) {
            return Ok(writer.finish(StopReason::Limit, listener.on_text));
        }
        let taken = writer.take(prediction.logits, listener.on_text, listener.on_step)?;
        let reason = match taken {
            Some(reason) => reason,
            None if options.limit == Limit::Tokens(writer.n_answer()) => StopReason::Limit,
            None if (listener.interrupted)() => StopReason::Interrupted,
            None if writer.ids.len() < n_ctx => continue,
            None => match n_keep.and_then(|n_keep| removed(n_keep, n_ctx)) {
                Some(positions) => {
                    predictor.remove(positions.clone())?;
                    writer.ids.drain(positions);
                    continue;
                }
                None => StopReason::ContextFull,
            },
        };
        return Ok(writer.finish(reason, listener.on_text));
    }
}

/// What goes when the context is full: the older half of the computed tokens behind those that stay. The last token has a place
/// but is not computed yet.
pub(crate) fn removed(n_keep: usize, n_ctx: usize) -> Option<Range<usize>> {
    let n_removed = (n_ctx - 1).saturating_sub(n_keep) / 2;
    (n_removed > 0).then(|| n_keep..n_keep + n_removed)
}

/// What [`generate`] refuses before it computes anything. `room` are the positions of the context, and the most that it
/// could have.
pub(crate) fn check_request(
    tokenizer: &Tokenizer,
    prompt: &[u32],
    room: (usize, usize),
    options: &GenerateOptions,
) -> Result<(), EngineError> {
    check_prompt(prompt.len(), room, options.limit)?;
    let (n_prompt, n_ctx) = (prompt.len(), room.0);
    let may_shift = match options.limit {
        Limit::Tokens(n) => n > n_ctx.saturating_sub(n_prompt),
        Limit::Endless => true,
        Limit::Context => false,
    };
    if let Some(keep) = options.context_shift.filter(|_| may_shift) {
        let n_keep = keep.count(prompt, tokenizer);
        if removed(n_keep, n_ctx).is_none() {
            return Err(EngineError::KeepTooLarge { n_keep, n_ctx });
        }
    }
    Chain::new(&options.sampling, tokenizer).map(drop)
}

fn check_prompt(
    n_prompt: usize,
    (n_ctx, n_ctx_max): (usize, usize),
    limit: Limit,
) -> Result<(), EngineError> {
    if n_prompt == 0 {
        return Err(EngineError::EmptyPrompt);
    }
    // an answer needs a place too
    let n_needed = n_prompt + usize::from(limit != Limit::Tokens(0));
    if n_needed > n_ctx {
        Err(EngineError::PromptTooLong {
            n_prompt,
            n_ctx,
            n_ctx_max,
        })
    } else {
        Ok(())
    }
}

/// The growing answer.
struct AnswerWriter<'a> {
    tokenizer: &'a Tokenizer,
    options: &'a GenerateOptions,
    /// Prompt and answer, as far as they are in the context.
    ids: Vec<u32>,
    answer: Vec<u32>,
    chain: Chain,
    constraint: Option<ConstraintState>,
    decoder: StreamDecoder,
    stops: StopMatcher,
    text: String,
    /// What comes out of the stop matcher at one step.
    fresh: String,
    steps: Vec<Step>,
    timings: Timings,
}

impl<'a> AnswerWriter<'a> {
    fn new(
        tokenizer: &'a Arc<Tokenizer>,
        prompt: &[u32],
        options: &'a GenerateOptions,
    ) -> Result<Self, EngineError> {
        let n_vocab = tokenizer.n_tokens();
        let mut sampling = options.sampling.clone();
        if options.ignore_eos {
            let ends = (0..n_vocab as u32).filter(|&id| tokenizer.is_eog(id));
            sampling
                .logit_bias
                .extend(ends.map(|id| LogitBias::of_token(id, f32::NEG_INFINITY)));
        }
        let mut chain = Chain::new(&sampling, &**tokenizer)?;
        prompt.iter().for_each(|&id| chain.accept(id));
        let after = options.constraint_after.as_ref();
        let constraint = options.constraint.as_ref();
        let constraint = constraint.map(|found| ConstraintState::new(tokenizer, found, after));
        Ok(AnswerWriter {
            tokenizer,
            options,
            ids: prompt.to_vec(),
            answer: Vec::new(),
            chain,
            constraint,
            decoder: tokenizer.stream(options.special),
            stops: StopMatcher::new(options.stops.iter().map(String::as_str)),
            text: String::new(),
            fresh: String::new(),
            steps: Vec::new(),
            timings: Timings::default(),
        })
    }

    fn n_answer(&self) -> usize {
        self.answer.len()
    }

    /// Picks the next token; gives a reason to end, if the token is one.
    fn take(
        &mut self,
        logits: &[f32],
        on_text: &mut dyn FnMut(&str),
        on_step: &mut dyn FnMut(&Step),
    ) -> Result<Option<StopReason>, EngineError> {
        let id = match &mut self.constraint {
            Some(constraint) => constraint.sample(&mut self.chain, logits)?,
            None => self.chain.sample(logits)?,
        };
        if self.options.n_probabilities > 0 {
            let step = self.step(id, logits);
            on_step(&step);
            self.steps.push(step);
        }
        self.chain.accept(id);
        self.ids.push(id);
        self.answer.push(id);
        let ends = self.tokenizer.is_eog(id);
        if ends && !self.options.special {
            return Ok(Some(StopReason::EndOfGeneration(id)));
        }
        let shows = self.options.special || self.options.shown.binary_search(&id).is_ok();
        let piece = self.decoder.push_as(id, shows);
        let stopped = self.emit(&piece, on_text);
        let complete = || {
            let constraint = self.constraint.as_ref();
            let is_complete = constraint.is_some_and(ConstraintState::is_complete);
            is_complete.then_some(StopReason::ConstraintComplete)
        };
        Ok(match ends {
            true => Some(StopReason::EndOfGeneration(id)),
            false => stopped.or_else(complete),
        })
    }

    /// The step that picks a token.
    fn step(&mut self, id: u32, logits: &[f32]) -> Step {
        let n = self.options.n_probabilities;
        let (log_probability, top) = match self.options.post_sampling {
            true => self.chain.left(id, n),
            false => (
                log_probability(logits, id),
                top_log_probabilities(logits, n),
            ),
        };
        Step {
            id,
            log_probability,
            top,
        }
    }

    fn emit(&mut self, piece: &str, on_text: &mut dyn FnMut(&str)) -> Option<StopReason> {
        self.fresh.clear();
        self.stops.push(piece, &mut self.fresh);
        self.flush(on_text);
        self.stops
            .matched()
            .map(|stop| StopReason::StopString(stop.to_owned()))
    }

    fn flush(&mut self, on_text: &mut dyn FnMut(&str)) {
        on_text(&self.fresh);
        self.text.push_str(&self.fresh);
    }

    /// Gives out what was held back: the beginning of a stop string, an unfinished character.
    fn finish(mut self, reason: StopReason, on_text: &mut dyn FnMut(&str)) -> Answer {
        let tail = self.decoder.finish();
        self.emit(&tail, on_text);
        self.fresh.clear();
        self.stops.finish(&mut self.fresh);
        self.flush(on_text);
        Answer {
            ids: self.answer,
            text: self.text,
            reason,
            seed: self.chain.seed(),
            steps: self.steps,
            timings: self.timings,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
