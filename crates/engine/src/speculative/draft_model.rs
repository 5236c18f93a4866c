//! Drafts by a smaller model of the same vocabulary.

use std::ops::Range;
use std::sync::Arc;

use super::Drafter;
use crate::error::EngineError;
use crate::generate::{Predictor as _, Watch};
use crate::model::{LoadOptions, Model};
use crate::sampling::{best, log_probability};
use crate::session::Session;

/// Vocabularies may be padded to different lengths; by no more than the reference lets pass.
const PADDING_MAX: usize = 128;

/// How a model drafts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DraftModelOptions {
    /// Tokens of a draft at most.
    pub n_max: usize,
    /// Shorter drafts are none.
    pub n_min: usize,
    /// A draft ends before a token that its model holds to be less probable.
    pub p_min: f32,
}

impl Default for DraftModelOptions {
    fn default() -> Self {
        DraftModelOptions {
            n_max: 3,
            n_min: 0,
            p_min: 0.0,
        }
    }
}

/// A model that drafts what it holds to be the most probable.
pub struct DraftModel {
    session: Session,
    options: DraftModelOptions,
}

impl DraftModel {
    /// With a context of its own, which is as long as the model allows where `load` asks for more.
    ///
    /// Errors: as [`Session::new`].
    pub fn new(
        model: Arc<Model>,
        load: &LoadOptions,
        options: DraftModelOptions,
    ) -> Result<Self, EngineError> {
        let longest = model.network().context_length_max();
        let load = LoadOptions {
            n_ctx: load.n_ctx.map(|n_ctx| n_ctx.min(longest)),
            // A draft is computed token by token, and taken back as a whole.
            n_taken_back: options.n_max,
            ..*load
        };
        Ok(DraftModel {
            session: Session::new(model, &load)?,
            options,
        })
    }

    /// Its place, which tells what it takes.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// An error of its own, so that nobody takes it for one of the model that answers.
    fn failed(&self, error: EngineError) -> EngineError {
        let file = self.session.context().model().file();
        EngineError::DraftFailed {
            draft: file.path().display().to_string(),
            source: Box::new(error),
        }
    }

    /// Why ids of one vocabulary mean something else in the other; none where they do not.
    fn difference(&self, target: &Model) -> Option<String> {
        let (own, other) = (
            self.session.context().model().tokenizer(),
            target.tokenizer(),
        );
        if own.kind() != other.kind() {
            return Some(format!("{} in place of {}", own.kind(), other.kind()));
        }
        let (n_own, n_other) = (own.n_tokens(), other.n_tokens());
        if n_own.abs_diff(n_other) > PADDING_MAX {
            return Some(format!("{n_own} tokens in place of {n_other}"));
        }
        let mut ids = 0..n_own.min(n_other) as u32;
        let id = ids.find(|&id| own.piece(id, true) != other.piece(id, true))?;
        let piece = |text: &[u8]| format!("{:?}", String::from_utf8_lossy(text));
        let (here, there) = (piece(own.piece(id, true)), piece(other.piece(id, true)));
        Some(format!("token {id} is {here} in place of {there}"))
    }
}

impl Drafter for DraftModel {
    fn check(&self, target: &Model) -> Result<(), EngineError> {
        let path = |model: &Model| model.file().path().display().to_string();
        match self.difference(target) {
            None => Ok(()),
            Some(difference) => Err(EngineError::DraftVocabulary {
                draft: path(self.session.context().model()),
                target: path(target),
                difference,
            }),
        }
    }

    fn prepare(&mut self, ids: &[u32], watch: &mut Watch<'_>) -> Result<bool, EngineError> {
        let (n_ctx, n_vocab) = (
            self.session.n_ctx(),
            self.session.context().model().n_vocab(),
        );
        if ids.len() > n_ctx || ids.iter().any(|&id| id as usize >= n_vocab) {
            return Ok(true);
        }
        // The target's own tokens are told; of these only the wish to stop counts.
        let n = ids.len();
        let computed = self.session.predict(ids, &mut |_, _| watch(n, n));
        match computed.map(|prediction| prediction.is_some()) {
            Ok(is_computed) => Ok(is_computed),
            Err(error) => Err(self.failed(error)),
        }
    }

    fn draft(&mut self, ids: &[u32], n_max: usize) -> Result<Vec<u32>, EngineError> {
        let n_room = (self.session.n_ctx() + 1).saturating_sub(ids.len());
        let n = self.options.n_max.min(n_max).min(n_room);
        let mut text = ids.to_vec();
        while text.len() < ids.len() + n {
            let predicted = self.session.predict(&text, &mut |_, _| false);
            let logits = match predicted {
                Ok(Some(prediction)) => prediction.logits,
                Ok(None) => break,
                // Padding of the target's vocabulary means nothing to this model.
                Err(EngineError::TokenOutOfRange { .. }) => break,
                Err(error) => return Err(self.failed(error)),
            };
            let id = match best(logits) {
                Ok(id) => id,
                Err(error) => return Err(self.failed(error)),
            };
            let p_min = self.options.p_min;
            if p_min > 0.0 && log_probability(logits, id).exp() < p_min {
                break;
            }
            text.push(id);
        }
        let draft = text.split_off(ids.len());
        Ok(match draft.len() < self.options.n_min {
            true => Vec::new(),
            false => draft,
        })
    }

    fn remove(&mut self, positions: Range<usize>) -> Result<(), EngineError> {
        let removed = self.session.remove(positions);
        removed.map_err(|error| self.failed(error))
    }
}
