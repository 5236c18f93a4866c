//! Drafts of what an answer may go on with, so that one batch computes several tokens.
//!
//! A [`Drafter`] proposes tokens, and the session computes their logits together with those that were asked for. What is
//! picked then is picked from the model's own logits as ever: as long as it is what the draft says, the next logits are there
//! already; from the first other token on, the draft is taken back. So a draft changes the speed and nothing else, whatever
//! picks the tokens.

mod draft_model;
mod lookup;

use std::ops::Range;
use std::time::{Duration, Instant};

pub use draft_model::{DraftModel, DraftModelOptions};
pub use lookup::{Lookup, LookupOptions, LookupRule};

use crate::error::EngineError;
use crate::generate::Watch;
use crate::model::Model;

/// Proposes what may follow.
pub trait Drafter: Send {
    /// Whether it can draft for this model. A drafter that fails at anything else drafts no more; the answer goes on without it.
    ///
    /// Errors: a reason why not, such as another vocabulary.
    fn check(&self, _model: &Model) -> Result<(), EngineError> {
        Ok(())
    }

    /// Computes ahead what a draft behind these tokens of a prompt needs; false where `watch` said to stop.
    ///
    /// Errors: those of a model that drafts.
    fn prepare(&mut self, _ids: &[u32], _watch: &mut Watch<'_>) -> Result<bool, EngineError> {
        Ok(true)
    }

    /// At most `n_max` tokens that may follow `ids`; none where it has no idea.
    ///
    /// Errors: those of a model that drafts.
    fn draft(&mut self, ids: &[u32], n_max: usize) -> Result<Vec<u32>, EngineError>;

    /// Told how many tokens of its last draft came true.
    fn kept(&mut self, _n: usize) {}

    /// Told that these positions went out of the sequence.
    ///
    /// Errors: those of a model that drafts.
    fn remove(&mut self, _positions: Range<usize>) -> Result<(), EngineError> {
        Ok(())
    }
}

/// What came of drafts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DraftCounts {
    /// Drafts that were computed.
    pub n_drafts: usize,
    /// Their tokens.
    pub n_drafted: usize,
    /// Those of them that came true.
    pub n_accepted: usize,
    /// Time for making drafts; the time for computing them is that of the answer.
    pub time: Duration,
}

impl DraftCounts {
    /// The share of the drafted tokens that came true; 0 where there were none.
    pub fn acceptance(&self) -> f64 {
        match self.n_drafted {
            0 => 0.0,
            n => self.n_accepted as f64 / n as f64,
        }
    }
}

impl std::ops::AddAssign for DraftCounts {
    fn add_assign(&mut self, other: Self) {
        self.n_drafts += other.n_drafts;
        self.n_drafted += other.n_drafted;
        self.n_accepted += other.n_accepted;
        self.time += other.time;
    }
}

/// Drafters of a session, the one that is asked first in front.
pub struct Speculation {
    drafters: Vec<Box<dyn Drafter>>,
    /// Why drafters went that are no longer among them.
    failures: Vec<EngineError>,
    counts: DraftCounts,
    last: Option<LastDraft>,
}

/// A draft that was computed.
struct LastDraft {
    /// Its drafter.
    index: usize,
    /// Tokens before it.
    n_before: usize,
    ids: Vec<u32>,
}

impl Speculation {
    /// With these drafters; a later one is asked where those before it have no idea.
    pub fn new(drafters: Vec<Box<dyn Drafter>>) -> Self {
        Speculation {
            drafters,
            failures: Vec::new(),
            counts: DraftCounts::default(),
            last: None,
        }
    }

    /// Whether all of them can draft for this model.
    pub(crate) fn check(&self, model: &Model) -> Result<(), EngineError> {
        self.drafters
            .iter()
            .try_for_each(|drafter| drafter.check(model))
    }

    /// Asks the drafters one after the other, until one has an answer; gives its place with it. One that fails goes.
    fn ask<T>(
        &mut self,
        mut ask: impl FnMut(&mut dyn Drafter) -> Result<Option<T>, EngineError>,
    ) -> Option<(usize, T)> {
        let mut index = 0;
        while let Some(drafter) = self.drafters.get_mut(index) {
            match ask(drafter.as_mut()) {
                Ok(Some(answer)) => return Some((index, answer)),
                Ok(None) => index += 1,
                Err(error) => {
                    self.drafters.remove(index);
                    self.failures.push(error);
                }
            }
        }
        None
    }

    /// See [`Drafter::prepare`].
    pub(crate) fn prepare(&mut self, ids: &[u32], watch: &mut Watch<'_>) -> bool {
        self.last = None;
        let stopped = self.ask(|drafter| Ok((!drafter.prepare(ids, watch)?).then_some(())));
        stopped.is_none()
    }

    /// At most `n_max` tokens that may follow.
    pub(crate) fn draft(&mut self, ids: &[u32], n_max: usize) -> Vec<u32> {
        let start = Instant::now();
        self.tell(ids);
        let found = self.ask(|drafter| {
            let mut draft = drafter.draft(ids, n_max)?;
            draft.truncate(n_max);
            Ok(Some(draft).filter(|draft| !draft.is_empty()))
        });
        let mut draft = Vec::new();
        if let Some((index, found)) = found {
            self.counts.n_drafts += 1;
            self.counts.n_drafted += found.len();
            self.last = Some(LastDraft {
                index,
                n_before: ids.len(),
                ids: found.clone(),
            });
            draft = found;
        }
        self.counts.time += start.elapsed();
        draft
    }

    /// Tells the last drafter how much of its draft stands in these tokens.
    fn tell(&mut self, ids: &[u32]) {
        let Some(last) = self.last.take() else { return };
        let behind = ids.get(last.n_before..).unwrap_or(&[]);
        let pairs = last.ids.iter().zip(behind);
        let n_kept = pairs.take_while(|(drafted, id)| drafted == id).count();
        if let Some(drafter) = self.drafters.get_mut(last.index) {
            drafter.kept(n_kept);
        }
    }

    /// See [`Drafter::remove`].
    pub(crate) fn remove(&mut self, positions: &Range<usize>) {
        self.last = None;
        self.ask(|drafter| drafter.remove(positions.clone()).map(|()| None::<()>));
    }

    /// Why drafters went since this was asked last.
    pub(crate) fn take_failures(&mut self) -> Vec<EngineError> {
        std::mem::take(&mut self.failures)
    }

    /// A token of a draft was asked for.
    pub(crate) fn accept(&mut self) {
        self.counts.n_accepted += 1;
    }

    /// The counts since they were taken last.
    pub(crate) fn take_counts(&mut self) -> DraftCounts {
        std::mem::take(&mut self.counts)
    }
}
