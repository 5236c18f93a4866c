//! How far an answer is in its grammar.

use std::sync::Arc;

use gristmill_tokenizer::Tokenizer;
use llguidance::Matcher;

use super::{Constraint, allowed_tokens, allows, stuck};
use crate::error::EngineError;
use crate::generate::Thinking;
use crate::sampling::Chain;

/// An answer that is held to a constraint.
pub(crate) struct ConstraintState {
    tokenizer: Arc<Tokenizer>,
    matcher: Matcher,
    opening: Option<Opening>,
    waiting: Option<Waiting>,
}

/// The beginning of an answer, as long as it may become a text before the constraint.
struct Opening {
    /// What that text begins with.
    start: Vec<u8>,
    /// How much of it is said.
    n_said: usize,
    /// What ends it.
    end: Vec<u8>,
    /// The constraint behind what is said, unless that does not keep to it.
    form: Option<Matcher>,
}

impl Opening {
    /// Whether a token goes on with the mark.
    fn goes_on(&self, piece: &[u8]) -> bool {
        let rest = &self.start[self.n_said..];
        !piece.is_empty() && (rest.starts_with(piece) || piece.starts_with(rest))
    }
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
    fn new(marker: Vec<u8>) -> Self {
        Waiting {
            marker,
            tail: Vec::new(),
        }
    }

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
    /// Starts an answer, which may have a text of its own before the constraint.
    pub fn new(
        tokenizer: &Arc<Tokenizer>,
        constraint: &Constraint,
        thinking: Option<&Thinking>,
    ) -> Self {
        let thinking = thinking.filter(|thinking| !thinking.end.is_empty());
        let mut state = ConstraintState {
            tokenizer: Arc::clone(tokenizer),
            // Answers of several threads share nothing.
            matcher: constraint.matcher.deep_clone(),
            opening: None,
            waiting: None,
        };
        let Some(thinking) = thinking else {
            return state;
        };
        let end = thinking.end.as_bytes().to_vec();
        match thinking.start.as_deref().filter(|start| !start.is_empty()) {
            Some(start) => {
                state.opening = Some(Opening {
                    start: start.as_bytes().to_vec(),
                    n_said: 0,
                    end,
                    form: Some(constraint.matcher.deep_clone()),
                });
            }
            None => state.waiting = Some(Waiting::new(end)),
        }
        state
    }

    /// Picks a token that keeps to the constraint, and takes note of it.
    ///
    /// Errors: as [`Chain::sample`]; a place where the constraint allows no token, or those alone that are forbidden.
    pub fn sample(&mut self, chain: &mut Chain, logits: &[f32]) -> Result<u32, EngineError> {
        if let Some(opening) = self.opening.take() {
            return self.sample_opening(opening, chain, logits);
        }
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

    /// Picks a token that keeps to the constraint, or goes on with the mark of a text before it.
    fn sample_opening(
        &mut self,
        mut opening: Opening,
        chain: &mut Chain,
        logits: &[f32],
    ) -> Result<u32, EngineError> {
        let tokenizer = Arc::clone(&self.tokenizer);
        let form = opening.form.as_mut();
        let allowed = form.map(allowed_tokens).transpose()?;
        let keeps = |id: u32| allowed.as_ref().is_some_and(|allowed| allows(allowed, id));
        let goes_on = |id: u32| !tokenizer.is_eog(id) && opening.goes_on(tokenizer.piece(id, true));
        let id = chain.sample_where(logits, &|id| keeps(id) || goes_on(id))?;
        let (keeps, goes_on) = (keeps(id), goes_on(id));
        opening.form = opening.form.filter(|_| keeps);
        if let Some(form) = &mut opening.form {
            let taken = form.consume_tokens(&[id]);
            taken.map_err(|error| stuck(&error.to_string()))?;
        }
        let piece = tokenizer.piece(id, true);
        let n_left = opening.start.len() - opening.n_said;
        if goes_on && piece.len() >= n_left {
            // The mark wins, also where the constraint has it as a text.
            let mut waiting = Waiting::new(opening.end);
            waiting.push(&piece[n_left..]);
            self.waiting = Some(waiting);
        } else if goes_on {
            opening.n_said += piece.len();
            self.opening = Some(opening);
        } else if let Some(form) = opening.form {
            self.matcher = form;
        }
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
        self.waiting.is_none()
            && self.opening.is_none()
            && self.matcher.is_stopped()
            && !self.matcher.is_error()
    }
}
