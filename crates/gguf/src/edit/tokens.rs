//! Special tokens by their text.

use super::draft::Change;
use crate::metadata::Metadata;
use crate::value::{StringArray, escape_invalid};

/// Names of special tokens and their keys. The reference's spelling `seperator` is that of the key.
pub const SPECIAL_TOKENS: &[(&str, &str)] = &[
    ("bos", "tokenizer.ggml.bos_token_id"),
    ("cls", "tokenizer.ggml.cls_token_id"),
    ("eom", "tokenizer.ggml.eom_token_id"),
    ("eos", "tokenizer.ggml.eos_token_id"),
    ("eot", "tokenizer.ggml.eot_token_id"),
    ("fim_mid", "tokenizer.ggml.fim_mid_token_id"),
    ("fim_pad", "tokenizer.ggml.fim_pad_token_id"),
    ("fim_pre", "tokenizer.ggml.fim_pre_token_id"),
    ("fim_rep", "tokenizer.ggml.fim_rep_token_id"),
    ("fim_sep", "tokenizer.ggml.fim_sep_token_id"),
    ("fim_suf", "tokenizer.ggml.fim_suf_token_id"),
    ("mask", "tokenizer.ggml.mask_token_id"),
    ("middle", "tokenizer.ggml.middle_token_id"),
    ("pad", "tokenizer.ggml.padding_token_id"),
    ("padding", "tokenizer.ggml.padding_token_id"),
    ("prefix", "tokenizer.ggml.prefix_token_id"),
    ("sep", "tokenizer.ggml.seperator_token_id"),
    ("seperator", "tokenizer.ggml.seperator_token_id"),
    ("suffix", "tokenizer.ggml.suffix_token_id"),
    ("unk", "tokenizer.ggml.unknown_token_id"),
    ("unknown", "tokenizer.ggml.unknown_token_id"),
];

const TOKENS: &str = "tokenizer.ggml.tokens";
/// Tokens to offer where none is the one that was asked for.
const N_NEAR: usize = 5;

/// The key of a special token, by its name in [`SPECIAL_TOKENS`].
pub fn special_token_key(name: &str) -> Option<&'static str> {
    let found = SPECIAL_TOKENS.iter().find(|(known, _)| *known == name);
    found.map(|(_, key)| *key)
}

/// A token that was looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenMatch {
    /// Its id, and how many more tokens have the same text.
    Found {
        /// The first id.
        id: u32,
        /// Later ids with the same text.
        n_others: usize,
    },
    /// No token has this text; the nearest ones, for a message.
    Near(Vec<String>),
}

/// Looks a token up by its text, exactly as `tokenizer.ggml.tokens` spells it. `None` without a
/// vocabulary.
pub fn find_token(metadata: &Metadata, text: &str) -> Option<TokenMatch> {
    let tokens = metadata.strings(TOKENS).ok().flatten()?;
    let mut ids = (0u32..)
        .zip(tokens.iter())
        .filter(|(_, token)| *token == text.as_bytes());
    Some(match ids.next() {
        Some((id, _)) => TokenMatch::Found {
            id,
            n_others: ids.count(),
        },
        None => TokenMatch::Near(near(tokens, text)),
    })
}

/// Tokens that differ in case or by a few characters, or hold the text, the nearest first.
fn near(tokens: &StringArray, text: &str) -> Vec<String> {
    let wanted = text.to_lowercase();
    let mut found: Vec<(usize, usize, String)> = Vec::new();
    for (index, token) in tokens.iter().enumerate() {
        let Some(distance) = distance(token, &wanted) else {
            continue;
        };
        found.push((distance, index, escape_invalid(token).into_owned()));
        // A vocabulary has hundreds of thousands of tokens; only the nearest are kept.
        if found.len() > 64 * N_NEAR {
            found.sort();
            found.truncate(N_NEAR);
        }
    }
    found.sort();
    found
        .into_iter()
        .take(N_NEAR)
        .map(|(_, _, token)| token)
        .collect()
}

/// How far a token is from a text in lower case; `None` if that is too far to offer.
fn distance(token: &[u8], wanted: &str) -> Option<usize> {
    let token = std::str::from_utf8(token).ok()?.to_lowercase();
    if token == wanted {
        return Some(0);
    }
    let (long, short) = (token.len().max(wanted.len()), token.len().min(wanted.len()));
    if short >= 3 && (token.contains(wanted) || wanted.contains(&token)) {
        return Some(1 + long - short);
    }
    if long - short > 2 || long > 64 {
        return None;
    }
    let steps = byte_distance(token.as_bytes(), wanted.as_bytes());
    (steps <= 2 && steps < long).then_some(steps)
}

/// The Levenshtein distance in bytes.
pub(crate) fn byte_distance(one: &[u8], other: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.iter().enumerate() {
        let mut corner = row[0];
        row[0] = i + 1;
        for (j, b) in other.iter().enumerate() {
            let replaced = corner + usize::from(a != b);
            corner = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(corner + 1);
        }
    }
    row[other.len()]
}

/// For the key of a special token: what is wrong with its new id (`Some(None)` if nothing). `None`
/// for other keys.
pub(super) fn wrong_id(key: &str, change: &Change, before: &Metadata) -> Option<Option<String>> {
    if !SPECIAL_TOKENS.iter().any(|(_, known)| *known == key) {
        return None;
    }
    let Some(value) = change.after.as_ref().filter(|_| change.key == key) else {
        return Some(Some("would be missing".to_owned()));
    };
    let n_tokens = before
        .array(TOKENS)
        .ok()
        .flatten()
        .map(|tokens| tokens.len());
    Some(match (value.as_integer(), n_tokens) {
        (None, _) => Some("must be the id of a token".to_owned()),
        (Some(id), Some(n)) if !(0..n as i128).contains(&id) => {
            Some(format!("would be {id}, and there are {n} tokens"))
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(tokens: &[&str]) -> Metadata {
        let mut metadata = Metadata::new();
        metadata.set(TOKENS, tokens.iter().collect::<StringArray>());
        metadata
    }

    #[test]
    fn names_are_sorted_and_known() {
        assert!(SPECIAL_TOKENS.is_sorted());
        assert_eq!(
            special_token_key("unk"),
            Some("tokenizer.ggml.unknown_token_id")
        );
        assert_eq!(special_token_key("end"), None);
    }

    #[test]
    fn a_token_is_found_by_its_exact_text_or_its_neighbours_are_named() {
        let tokens = metadata(&[
            "a",
            "<|im_end|>",
            "</s>",
            "<|im_end|>",
            "<|im_start|>",
            "<S>",
        ]);
        assert_eq!(
            find_token(&tokens, "<|im_end|>"),
            Some(TokenMatch::Found { id: 1, n_others: 1 })
        );
        let near = |text| match find_token(&tokens, text) {
            Some(TokenMatch::Near(near)) => near,
            other => panic!("{other:?}"),
        };
        assert_eq!(near("<|IM_END|>"), ["<|im_end|>", "<|im_end|>"]);
        assert_eq!(near("im_start"), ["<|im_start|>"]);
        assert_eq!(near("<s>"), ["<S>", "</s>"]);
        assert!(near("quite another").is_empty());
        assert_eq!(find_token(&Metadata::new(), "a"), None);
    }

    #[test]
    fn distances_are_levenshtein() {
        for (one, other, steps) in [("kitten", "sitting", 3), ("", "ab", 2), ("ab", "ab", 0)] {
            assert_eq!(
                byte_distance(one.as_bytes(), other.as_bytes()),
                steps,
                "{one} {other}"
            );
        }
    }
}
