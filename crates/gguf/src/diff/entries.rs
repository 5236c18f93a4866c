//! What differs in metadata.

use crate::cursor::Endian;
use crate::encode;
use crate::metadata::Metadata;
use crate::value::{Array, Value};

/// An entry that differs.
#[derive(Clone, Debug, PartialEq)]
pub struct EntryDiff {
    /// Its key.
    pub key: String,
    /// How.
    pub change: EntryChange,
}

/// How an entry differs.
#[derive(Clone, Debug, PartialEq)]
pub enum EntryChange {
    /// Only the new model has it.
    Added(Value),
    /// Only the old model has it.
    Removed(Value),
    /// Another type, or a single value that differs.
    Changed {
        /// The old value.
        a: Value,
        /// The new value.
        b: Value,
    },
    /// Elements of an array differ, or their number.
    Array(ArrayDiff),
}

/// How two arrays of one type differ.
#[derive(Clone, Debug, PartialEq)]
pub struct ArrayDiff {
    /// Length of the old array.
    pub len_a: usize,
    /// Length of the new array.
    pub len_b: usize,
    /// The first place where they differ: at the latest, where the shorter one ends.
    pub first: usize,
    /// The old element there, if there is one.
    pub a: Option<Value>,
    /// The new element there, if there is one.
    pub b: Option<Value>,
    /// Places that differ, those that only one of them has included.
    pub n_different: usize,
}

/// The entries that differ, and how many are equal, of those whose key `counts`.
pub(super) fn compare(
    a: &Metadata,
    b: &Metadata,
    counts: &impl Fn(&str) -> bool,
) -> (Vec<EntryDiff>, usize) {
    let mut diffs = Vec::new();
    let mut n_equal = 0;
    for (key, old) in a.iter().filter(|(key, _)| counts(key)) {
        let change = match b.get(key) {
            None => EntryChange::Removed(old.clone()),
            Some(new) if encode::is_same(old, new) => {
                n_equal += 1;
                continue;
            }
            Some(new) => change(old, new),
        };
        let key = key.to_owned();
        diffs.push(EntryDiff { key, change });
    }
    for (key, new) in b.iter().filter(|(key, _)| counts(key) && !a.contains(key)) {
        let (key, change) = (key.to_owned(), EntryChange::Added(new.clone()));
        diffs.push(EntryDiff { key, change });
    }
    (diffs, n_equal)
}

/// Type and value as a file holds them: a NaN equals itself, and 0 is not -0.
fn bits(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    encode::typed_value(value, Endian::Little, &mut out);
    out
}

fn change(old: &Value, new: &Value) -> EntryChange {
    match (old, new) {
        (Value::Array(a), Value::Array(b)) if a.element_type() == b.element_type() => {
            EntryChange::Array(arrays(a, b))
        }
        _ => EntryChange::Changed {
            a: old.clone(),
            b: new.clone(),
        },
    }
}

fn arrays(a: &Array, b: &Array) -> ArrayDiff {
    let shorter = a.len().min(b.len());
    let differs = |&index: &usize| match (a, b) {
        (Array::String(a), Array::String(b)) => a.get(index) != b.get(index),
        _ => a.get(index).map(|value| bits(&value)) != b.get(index).map(|value| bits(&value)),
    };
    let mut places = (0..shorter).filter(differs);
    let first = places.next();
    let n_more = places.count();
    let at = first.unwrap_or(shorter);
    ArrayDiff {
        len_a: a.len(),
        len_b: b.len(),
        first: at,
        a: a.get(at),
        b: b.get(at),
        n_different: usize::from(first.is_some()) + n_more + a.len().abs_diff(b.len()),
    }
}
