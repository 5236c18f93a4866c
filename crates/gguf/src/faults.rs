//! What happens at a fault after which reading can go on.

use crate::error::{Error, Result};

/// Faults that are collected at most: a file with more is damaged beyond a useful list.
const FAULTS: usize = 10_000;

/// What to do at a fault after which reading can go on: a reader that wants a sound file refuses it, one that looks
/// for everything that is wrong goes on.
#[derive(Debug)]
pub(crate) enum Faults {
    /// The first fault ends the reading.
    Refuse,
    /// Faults are collected, and what they concern is left out.
    Collect(Vec<Error>),
}

impl Faults {
    /// Takes a fault; an error ends the reading.
    pub(crate) fn meet(&mut self, fault: Error) -> Result<()> {
        match self {
            Faults::Refuse => Err(fault),
            Faults::Collect(faults) if faults.len() >= FAULTS => Err(fault),
            Faults::Collect(faults) => {
                faults.push(fault);
                Ok(())
            }
        }
    }

    /// The value, or nothing where it is at fault.
    pub(crate) fn pass<T>(&mut self, result: Result<T>) -> Result<Option<T>> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(fault) => self.meet(fault).map(|()| None),
        }
    }
}
