//! What happens at a fault after which reading can go on.

use crate::error::{Error, Result};

/// Faults that are collected at most: a file with more is damaged beyond a useful list.
const FAULTS: usize = 10_000;
/// Bytes of their texts at most: keys and names in them may be long.
const BYTES: usize = 1 << 20;

/// What to do at a fault after which reading can go on: a reader that wants a sound file refuses it, one that looks
/// for everything that is wrong goes on.
#[derive(Debug)]
pub(crate) enum Faults {
    /// The first fault ends the reading.
    Refuse,
    /// Faults are collected, and what they concern is left out.
    Collect(Collection),
}

/// Faults that were met.
#[derive(Debug, Default)]
pub(crate) struct Collection {
    faults: Vec<Error>,
    n_bytes: usize,
}

impl Faults {
    /// Faults to be collected.
    pub(crate) fn collect() -> Faults {
        Faults::Collect(Collection::default())
    }

    /// Takes a fault; an error ends the reading.
    pub(crate) fn meet(&mut self, fault: Error) -> Result<()> {
        let Faults::Collect(collection) = self else {
            return Err(fault);
        };
        // Its text holds what the fault holds of the file.
        collection.n_bytes += fault.to_string().len();
        if collection.faults.len() >= FAULTS || collection.n_bytes > BYTES {
            return Err(fault);
        }
        collection.faults.push(fault);
        Ok(())
    }

    /// The value, or nothing where it is at fault.
    pub(crate) fn pass<T>(&mut self, result: Result<T>) -> Result<Option<T>> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(fault) => self.meet(fault).map(|()| None),
        }
    }

    /// What was collected, in the order in which it was met.
    pub(crate) fn collected(self) -> Vec<Error> {
        match self {
            Faults::Refuse => Vec::new(),
            Faults::Collect(collection) => collection.faults,
        }
    }
}
