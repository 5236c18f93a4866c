//! Which edits can make a good file useless.

use super::draft::Change;
use super::tokens;
use crate::known_keys::{KnownType, known_key};
use crate::metadata::Metadata;
use crate::value::Value;

/// Keys, and beginnings of keys (with a trailing `.`), by which a file is read, and what breaks
/// where they are wrong.
const DANGEROUS: &[(&str, &str)] = &[
    ("adapter.", "says how the adapter is applied"),
    ("general.alignment", "says where the tensors lie"),
    ("general.architecture", "says what the tensors mean"),
    (
        "general.file_type",
        "is the recipe that tools show and trust",
    ),
    (
        "general.quantization_version",
        "says how the blocks are decoded",
    ),
    ("general.type", "says what the file is for"),
    ("imatrix.", "says how the sums were counted"),
    ("split.", "holds the set of shards together"),
    ("tokenizer.ggml.", "says how text becomes tokens"),
];

/// What may break by a change: what the key decides, and what its readers do not take; nothing of one that cannot do harm.
pub(super) fn reasons(change: &Change, before: &Metadata) -> impl Iterator<Item = String> {
    let keys = [Some(&change.key), change.renamed_from.as_ref()];
    let mut keys = keys.into_iter().flatten();
    let of_key = keys.find_map(|key| of_key(key, change, before));
    of_key.into_iter().chain(other_type(change))
}

fn of_key(key: &str, change: &Change, before: &Metadata) -> Option<String> {
    if let Some(wrong) = tokens::wrong_id(key, change, before) {
        return wrong.map(|wrong| format!("{key:?} {wrong}"));
    }
    // Where there was no name of a pre-tokenizer, any is better.
    if key == "tokenizer.ggml.pre" && change.before.is_none() {
        return None;
    }
    let listed = |(name, _): &&(&str, &str)| match name.strip_suffix('.') {
        Some(_) => key.starts_with(name),
        None => key == *name,
    };
    // An importance matrix has keys of its own, and its name for an architecture.
    if let Some((_, what)) = DANGEROUS.iter().find(listed) {
        return Some(format!("{key:?} {what}"));
    }
    let architecture = before.str("general.architecture").ok().flatten()?;
    let rest = key.strip_prefix(architecture)?;
    let is_hyperparameter = rest.starts_with('.');
    is_hyperparameter.then(|| format!("{key:?} is a hyperparameter of the model"))
}

/// Readers ask for a type, and refuse the file where they find another one.
fn other_type(change: &Change) -> Option<String> {
    let (key, after) = (&change.key, change.after.as_ref()?);
    let known = known_key(key).map(|known| known.ty);
    if known == Some(KnownType::of(after)) {
        return None;
    }
    let is_moved = change.renamed_from.is_some();
    let before = change.before.as_ref().filter(|_| !is_moved);
    match (before.map(Value::type_name), known) {
        (Some(before), _) if before == after.type_name() => None,
        (Some(before), _) => {
            let after = after.type_name();
            Some(format!("{key:?} would change from {before} to {after}"))
        }
        (None, Some(known)) => {
            let after = after.type_name();
            Some(format!(
                "{key:?} would be {after}, and it is {known} everywhere"
            ))
        }
        (None, None) => None,
    }
}
