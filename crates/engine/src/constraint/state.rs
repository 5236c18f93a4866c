//! How far an answer is in its grammar.

use std::sync::Arc;

use gristmill_tokenizer::Tokenizer;
use llguidance::Matcher;

use super::{Constraint, allowed_tokens, allows, stuck};
use crate::error::EngineError;
use crate::sampling::Chain;

/// An answer that is held to a constraint.
pub(crate) struct ConstraintState {
    tokenizer: Arc<Tokenizer>,
    matcher: Matcher,
    waiting: Option<Waiting>,
}

/// A text that comes before the constraint, such as the model's thinking.
struct Waiting {
    /// What ends it.
    marker: Vec<u8>,
    /// The last bytes, fewer than the marker has.
    tail: Vec<u8>,
}

/// What a token means to a text that ends with a marker.
enum Seen {
    /// The marker is not there yet.
    Nothing,
    /// It is, and these bytes stand behind it.
    Marker(Vec<u8>),
}

impl Waiting {
    fn see(&self, piece: &[u8]) -> Seen {
        let text = [&self.tail[..], piece].concat();
        let found = text
            .windows(self.marker.len())
            .position(|part| part == self.marker);
        match found {
            Some(at) => Seen::Marker(text[at + self.marker.len()..].to_vec()),
            None => Seen::Nothing,
        }
    }

    fn push(&mut self, piece: &[u8]) {
        self.tail.extend_from_slice(piece);
        let excess = self.tail.len().saturating_sub(self.marker.len() - 1);
        self.tail.drain(..excess);
    }
}

impl ConstraintState {
    /// Starts an answer; where it has a beginning of its own, the constraint starts behind the marker that ends it.
    pub fn new(tokenizer: &Arc<Tokenizer>, constraint: &Constraint, after: Option<&str>) -> Self {
        let marker = after.filter(|marker| !marker.is_empty());
        ConstraintState {
            tokenizer: Arc::clone(tokenizer),
            // Answers of several threads share nothing.
            matcher: constraint.matcher.deep_clone(),
            waiting: marker.map(|marker| Waiting {
                marker: marker.as_bytes().to_vec(),
                tail: Vec::new(),
            }),
        }
    }

    /// Picks a token that keeps to the constraint, and takes note of it.
    ///
    /// Errors: as [`Chain::sample`]; a place where the constraint allows no token, or those alone that are forbidden.
    pub fn sample(&mut self, chain: &mut Chain, logits: &[f32]) -> Result<u32, EngineError> {
        if self.waiting.is_some() {
            return self.sample_before(chain, logits);
        }
        let allowed = allowed_tokens(&mut self.matcher)?;
        let id = chain.sample_where(logits, &|id| allows(&allowed, id));
        let id = id.map_err(|error| match error {
            EngineError::NoCandidates => EngineError::ConstraintForbidden {
                n_allowed: allowed.num_set(),
            },
            error => error,
        })?;
        self.take(&[id])?;
        Ok(id)
    }

    /// Picks a token of the text before the constraint, which ends with the marker and nothing else. A token that goes
    /// on behind the marker counts where that is space, or keeps to the constraint.
    fn sample_before(&mut self, chain: &mut Chain, logits: &[f32]) -> Result<u32, EngineError> {
        let mut refused: Vec<u32> = Vec::new();
        loop {
            let tokenizer = Arc::clone(&self.tokenizer);
            let is_allowed = |id: u32| !tokenizer.is_eog(id) && !refused.contains(&id);
            let id = chain.sample_where(logits, &is_allowed)?;
            let piece = tokenizer.piece(id, true);
            let Some(waiting) = &mut self.waiting else {
                return Ok(id);
            };
            let Seen::Marker(rest) = waiting.see(piece) else {
                waiting.push(piece);
                return Ok(id);
            };
            // As its bytes are: encoding may put a space before them.
            let tree = self.matcher.tok_env();
            let ids = tree.map(|tree| tree.tokenize_bytes(rest.trim_ascii_start()));
            let ids = ids.map_err(|error| stuck(&error.to_string()))?;
            let n_valid = self.matcher.validate_tokens(&ids).unwrap_or(0);
            if n_valid == ids.len() {
                self.waiting = None;
                self.take(&ids)?;
                return Ok(id);
            }
            refused.push(id);
        }
    }

    fn take(&mut self, ids: &[u32]) -> Result<(), EngineError> {
        let taken = self.matcher.consume_tokens(ids);
        taken.map_err(|error| stuck(&error.to_string()))
    }

    /// Whether the text is whole, and nothing could follow.
    pub fn is_complete(&self) -> bool {
        self.waiting.is_none() && self.matcher.is_stopped() && !self.matcher.is_error()
    }
}
