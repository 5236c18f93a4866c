//! Which adapters each sequence of a context is computed with.

use std::collections::HashMap;
use std::sync::Arc;

use gristmill_compute::Changes;

use crate::adapter::Adapters;
use crate::cache::SequenceId;
use crate::context::BatchToken;

/// Adapters with the changes that they make. Sequences with equal adapters share one, so that a pointer tells sets apart.
pub(crate) struct AdapterSet {
    /// The adapters.
    pub adapters: Adapters,
    /// What they change of the graph.
    pub changes: Arc<Changes>,
}

/// The set of each sequence that has one.
#[derive(Default)]
pub(crate) struct SequenceAdapters {
    sets: HashMap<SequenceId, Arc<AdapterSet>>,
}

/// Whether two sets are one.
pub(crate) fn is_same(one: Option<&Arc<AdapterSet>>, other: Option<&Arc<AdapterSet>>) -> bool {
    one.map(Arc::as_ptr) == other.map(Arc::as_ptr)
}

impl SequenceAdapters {
    /// The set of a sequence; none for the plain model.
    pub fn of(&self, sequence: SequenceId) -> Option<&Arc<AdapterSet>> {
        self.sets.get(&sequence)
    }

    /// Gives a sequence its adapters; false where it has these already.
    pub fn set(&mut self, sequence: SequenceId, adapters: &Adapters) -> bool {
        let same = match self.of(sequence) {
            Some(set) => set.adapters == *adapters,
            None => adapters.is_empty(),
        };
        if same {
            return false;
        }
        if adapters.is_empty() {
            self.sets.remove(&sequence);
            return true;
        }
        let known = self.sets.values().find(|set| set.adapters == *adapters);
        let set = known.cloned().unwrap_or_else(|| {
            Arc::new(AdapterSet {
                adapters: adapters.clone(),
                changes: Arc::new(adapters.changes()),
            })
        });
        self.sets.insert(sequence, set);
        true
    }

    /// Gives a sequence the adapters of another.
    pub fn copy(&mut self, from: SequenceId, to: SequenceId) {
        match self.sets.get(&from).cloned() {
            Some(set) => self.sets.insert(to, set),
            None => self.sets.remove(&to),
        };
    }

    /// The tokens of a batch, those of each set together and otherwise in order, with their places in the batch; none where
    /// the batch has one set only.
    pub fn groups(&self, batch: &[BatchToken]) -> Option<Vec<Vec<usize>>> {
        if self.sets.is_empty() {
            return None;
        }
        let mut groups: Vec<(Option<&Arc<AdapterSet>>, Vec<usize>)> = Vec::new();
        for (index, token) in batch.iter().enumerate() {
            let set = self.of(token.sequence);
            match groups.iter_mut().find(|(known, _)| is_same(*known, set)) {
                Some((_, members)) => members.push(index),
                None => groups.push((set, vec![index])),
            }
        }
        (groups.len() > 1).then(|| groups.into_iter().map(|(_, members)| members).collect())
    }
}
