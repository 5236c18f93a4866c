//! The pre-tokenizer's name, from the definition in `tokenizer.json` (case B22).
//!
//! The definition is brought to a list of regular expressions, applied one after another, and looked up in the
//! registry of the tokenizer crate. Unlike a hash of sample output, that works for any vocabulary.

use gristmill_tokenizer::pre;
use serde_json::Value;

use super::files::Files;
use super::json::TokenizerJson;
use crate::ConvertError;

/// The name for `tokenizer.ggml.pre`: the user's, or that of the definition.
pub(super) fn name(
    files: &Files,
    json: &TokenizerJson,
    wish: Option<&str>,
    warnings: &mut Vec<String>,
) -> Result<String, ConvertError> {
    let mut patterns = Vec::new();
    collect(&json.pre_tokenizer, &mut patterns, warnings);
    let ignore_merges = json.model.ignore_merges.unwrap_or(false);
    let found = pre::by_patterns(&patterns, ignore_merges);
    if let Some(wish) = wish {
        let Some((_, known)) = pre::by_name(wish) else {
            return Err(ConvertError::UnknownPreTokenizerName {
                name: wish.to_owned(),
                known: known_names(),
            });
        };
        if !pre::by_name(known.name).is_some_and(|(pre, _)| matches(pre, &patterns)) {
            warnings.push(format!(
                "the pre-tokenizer is {wish} by request, though tokenizer.json defines {}",
                found.map_or("another", |name| name.name)
            ));
        }
        return Ok(wish.to_owned());
    }
    found
        .map(|name| name.name.to_owned())
        .ok_or_else(|| ConvertError::UnknownPreTokenizer {
            path: files.folder.join("tokenizer.json"),
            patterns: if patterns.is_empty() {
                "none".to_owned()
            } else {
                format!("`{}`", patterns.join("`, `"))
            },
            nearest: pre::nearest(&patterns),
        })
}

/// Every name that can be asked for.
fn known_names() -> String {
    let names = pre::PRE_TOKENIZERS.iter().flat_map(|pre| pre.names);
    let mut names: Vec<&str> = names.map(|name| name.name).collect();
    names.sort_unstable();
    names.join(", ")
}

fn matches(pre: &pre::PreTokenizer, patterns: &[String]) -> bool {
    pre.patterns.is_empty() || pre.patterns.iter().any(|known| known == &patterns)
}

/// Appends the expressions of a definition; a sequence's one after another.
fn collect(definition: &Value, patterns: &mut Vec<String>, warnings: &mut Vec<String>) {
    let flag = |key: &str| definition.get(key).and_then(Value::as_bool);
    let text = |key: &str| definition.get(key).and_then(Value::as_str);
    match text("type") {
        None => {}
        Some("Sequence") => {
            let parts = definition.get("pretokenizers").and_then(Value::as_array);
            // JSON itself limits the depth of this recursion.
            parts
                .into_iter()
                .flatten()
                .for_each(|part| collect(part, patterns, warnings));
        }
        Some("ByteLevel") => {
            if flag("add_prefix_space") == Some(true) {
                warnings.push(
                    "tokenizer.json puts a space before every text, which GGUF cannot say for byte-level BPE"
                        .to_owned(),
                );
            }
            // Files older than the flag always split.
            if flag("use_regex") != Some(false) {
                patterns.push(pre::GPT2_PATTERN.to_owned());
            }
        }
        Some("Digits") => {
            let single = flag("individual_digits") == Some(true);
            patterns.push(if single { r"\p{N}" } else { r"\p{N}+" }.to_owned());
        }
        Some("Punctuation") if text("behavior") == Some("Contiguous") => {
            patterns.push(pre::PUNCTUATION_PATTERN.to_owned());
        }
        Some("Split") => patterns.push(split_pattern(definition)),
        // Not a regular expression: shown as it is, and found by nothing.
        Some(other) => patterns.push(format!("<{other}>")),
    }
}

/// The expression of `Split`. Isolated matches are the usual form; removing what lies between matches that cover
/// everything is another way to say it.
fn split_pattern(definition: &Value) -> String {
    let pattern = definition.get("pattern");
    let inner = |key: &str| {
        pattern
            .and_then(|pattern| pattern.get(key))
            .and_then(Value::as_str)
    };
    let text = match (inner("Regex"), inner("String")) {
        (Some(regex), _) => regex.to_owned(),
        (None, Some(string)) => format!("<{string:?}>"),
        (None, None) => "<Split without a pattern>".to_owned(),
    };
    let behavior = definition
        .get("behavior")
        .and_then(Value::as_str)
        .unwrap_or("Isolated");
    let inverted = definition
        .get("invert")
        .and_then(Value::as_bool)
        .unwrap_or(false);
    match (behavior, inverted) {
        ("Isolated", false) | ("Removed", true) => text,
        (behavior, inverted) => {
            format!(
                "{text} <{behavior}{}>",
                if inverted { ", inverted" } else { "" }
            )
        }
    }
}
