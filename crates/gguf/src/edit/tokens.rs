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
const TOKEN_TYPES: &str = "tokenizer.ggml.token_type";
/// Types of tokens that are no text: control and user-defined ones.
const SPECIAL: &[i32] = &[3, 4];
/// What vocabularies have in the place of a space.
const MARKS_OF_SPACE: &[&str] = &["\u{120}", "\u{2581}"];
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
    /// No token has this text; what to offer in a message.
    Absent {
        /// The nearest tokens: special ones, else others.
        near: Vec<String>,
        /// The first special tokens of the vocabulary.
        special: Vec<String>,
    },
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
        None => absent(metadata, tokens, text),
    })
}

/// What to offer for a text that no token has.
fn absent(metadata: &Metadata, tokens: &StringArray, text: &str) -> TokenMatch {
    let types = metadata
        .i32s(TOKEN_TYPES)
        .ok()
        .flatten()
        .unwrap_or_default();
    let is_special = |index: usize| types.get(index).is_some_and(|ty| SPECIAL.contains(ty));
    let of_special = || {
        let all = tokens.iter().enumerate();
        all.filter(|(index, _)| is_special(*index))
    };
    let shown = |(_, token)| escape_invalid(token).into_owned();
    let mut near: Vec<String> = MARKS_OF_SPACE
        .iter()
        .map(|mark| text.replace(' ', mark))
        .filter(|marked| marked != text && tokens.iter().any(|token| token == marked.as_bytes()))
        .collect();
    if near.is_empty() {
        let wanted = core(text);
        near = nearest(of_special(), |token| special_distance(token, &wanted));
    }
    if near.is_empty() {
        let wanted = text.to_lowercase();
        near = nearest(tokens.iter().enumerate(), |token| distance(token, &wanted));
    }
    let special = of_special().take(N_NEAR).map(shown).collect();
    TokenMatch::Absent { near, special }
}

/// The tokens at the least distances, the nearest first.
fn nearest<'a>(
    tokens: impl Iterator<Item = (usize, &'a [u8])>,
    distance: impl Fn(&[u8]) -> Option<usize>,
) -> Vec<String> {
    let mut found: Vec<(usize, usize, String)> = Vec::new();
    for (index, token) in tokens {
        let Some(distance) = distance(token) else {
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

/// The letters and digits of a text, in lower case: `<|im_end|>` is often known as `im_end`.
fn core(text: &str) -> String {
    let letters = text.chars().filter(|c| c.is_alphanumeric());
    letters.flat_map(char::to_lowercase).collect()
}

/// How far a special token is from the [`core`] of a text; they are few, so that more is let through than of others.
fn special_distance(token: &[u8], wanted: &str) -> Option<usize> {
    let token = core(std::str::from_utf8(token).ok()?);
    let (long, short) = (token.len().max(wanted.len()), token.len().min(wanted.len()));
    if short == 0 || long > 64 {
        return None;
    }
    let steps = byte_distance(token.as_bytes(), wanted.as_bytes());
    let is_part = short >= 3 && (token.contains(wanted) || wanted.contains(&token));
    (is_part || steps <= 2.max(long / 3) && steps < short).then_some(steps)
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
        (Some(id), Some(n)) if !(0..n as i128).contains(&id) => Some(format!(
            "would be {id}, and the ids of tokens are 0 to {}",
            n.saturating_sub(1)
        )),
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
            Some(TokenMatch::Absent { near, .. }) => near,
            other => panic!("{other:?}"),
        };
        assert_eq!(near("<|IM_END|>"), ["<|im_end|>", "<|im_end|>"]);
        assert_eq!(near("im_start"), ["<|im_start|>"]);
        assert_eq!(near("<s>"), ["<S>", "</s>"]);
        assert!(near("quite another").is_empty());
        assert_eq!(find_token(&Metadata::new(), "a"), None);
    }

    #[test]
    fn special_tokens_come_first_and_a_space_is_what_the_vocabulary_has_for_it() {
        let mut tokens = metadata(&["iment", "\u{120}the", "othe", "<|im_end|>", "<end_of_turn>"]);
        tokens.set(TOKEN_TYPES, vec![1i32, 1, 1, 3, 3]);
        let special = ["<|im_end|>", "<end_of_turn>"].map(str::to_owned);
        for (text, nearest) in [
            ("im_end", vec!["<|im_end|>"]),
            ("<end_turn>", vec!["<end_of_turn>"]),
            (" the", vec!["\u{120}the"]),
            ("imens", vec!["<|im_end|>"]),
            ("othen", vec!["othe"]),
            ("<|eot_id|>", vec![]),
            ("", vec![]),
        ] {
            let expected = TokenMatch::Absent {
                near: nearest.into_iter().map(str::to_owned).collect(),
                special: special.to_vec(),
            };
            assert_eq!(find_token(&tokens, text), Some(expected), "{text}");
        }
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
