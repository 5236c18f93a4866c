//! What of an override file is not taken.

use super::{ORIGIN_KEYS, SAMPLING_KEYS, SamplingKind, TEXT_KEYS};
use crate::ConvertError;
use serde_json::Value;
use std::path::Path;

/// A warning for each kind of entry that an override file has in vain, and for each value of a wrong type.
///
/// # Errors
/// A file that holds no object.
pub(super) fn left_out(path: &Path, overrides: &Value) -> Result<Vec<String>, ConvertError> {
    let Some(entries) = overrides.as_object() else {
        return Err(ConvertError::Json {
            path: path.to_owned(),
            reason: "it must hold a JSON object with general.* entries".to_owned(),
        });
    };
    let (mut foreign, mut unknown, mut warnings) = (Vec::new(), Vec::new(), Vec::new());
    for (key, value) in entries {
        let Some(name) = key.strip_prefix("general.") else {
            foreign.push(key.as_str());
            continue;
        };
        match expected(name) {
            None => unknown.push(key.as_str()),
            Some((_, is_right)) if is_right(value) => {}
            Some((what, _)) => warnings.push(format!(
                "{}: {key} must be {what}; what is not is left out",
                path.display()
            )),
        }
    }
    for (what, keys) in [
        ("only general.* entries are read", foreign),
        (
            "a conversion does not write these entries (`gristmill edit` can)",
            unknown,
        ),
    ] {
        if !keys.is_empty() {
            let keys = keys.join(", ");
            warnings.push(format!("{}: {what}; left out: {keys}", path.display()));
        }
    }
    Ok(warnings)
}

/// What a value must be, in words, and whether one is.
type Rule = (&'static str, fn(&Value) -> bool);

/// The rule for the value of an entry below `general.`; none where there is no such entry.
fn expected(name: &str) -> Option<Rule> {
    if TEXT_KEYS.contains(&name) {
        return Some(("a text", Value::is_string));
    }
    if let Some(name) = name.strip_prefix("sampling.") {
        let (.., kind) = SAMPLING_KEYS.iter().find(|(key, ..)| *key == name)?;
        return Some(match kind {
            SamplingKind::Text => ("a text", Value::is_string),
            SamplingKind::Integer => ("a whole number of 32 bits", is_i32),
            SamplingKind::Float => ("a number", Value::is_number),
        });
    }
    match name {
        "tags" | "languages" => Some(("a list of texts", is_list_of_texts)),
        "base_models" | "datasets" => Some((
            "a list of objects with texts (name, author, version, organization, description, url, doi, uuid, repo_url)",
            is_list_of_origins,
        )),
        _ => None,
    }
}

fn is_i32(value: &Value) -> bool {
    value.as_i64().is_some_and(|n| i32::try_from(n).is_ok())
}

fn is_list_of_texts(value: &Value) -> bool {
    value
        .as_array()
        .is_some_and(|items| items.iter().all(Value::is_string))
}

fn is_list_of_origins(value: &Value) -> bool {
    let is_origin = |item: &Value| {
        let entries = item.as_object()?.iter();
        let mut known =
            entries.map(|(key, value)| ORIGIN_KEYS.contains(&key.as_str()) && value.is_string());
        Some(known.all(|known| known))
    };
    value
        .as_array()
        .is_some_and(|items| items.iter().all(|item| is_origin(item) == Some(true)))
}
