//! WordPiece: a text is normalized and split at spaces and punctuation, and each word is covered from the left by the
//! longest tokens. A word that cannot be covered is one unknown token.
//!
//! Tokens that begin a word begin with U+2581; the others stand as they are. Normalization follows the reference where
//! it differs from BERT's own: of a character that decomposes only the first part is kept, Hangul included, and no word
//! is too long.

use std::collections::HashMap;
use std::sync::LazyLock;

use unicode_normalization::char::decompose_canonical;

use crate::hash::{FastState, TextTable};
use crate::spm::ESCAPED_SPACE;
use crate::unicode::{MARK, PUNCTUATION, SPACE, SYMBOL, char_at, class_of, ranges_of};

/// What happens to a text before it is split.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Normalizer {
    pub lowercase: bool,
    pub strip_accents: bool,
}

/// A WordPiece model over a vocabulary.
pub(crate) struct WordPiece {
    /// Transitions of the trie of all tokens; node 0 is its root.
    edges: HashMap<u64, u32, FastState>,
    /// The token that ends at each node.
    tokens: Vec<Option<u32>>,
    unknown: Option<u32>,
    normalizer: Normalizer,
}

impl WordPiece {
    /// A model for a vocabulary.
    pub(crate) fn new(
        vocabulary: &TextTable,
        unknown: Option<u32>,
        normalizer: Normalizer,
    ) -> WordPiece {
        let mut model = WordPiece {
            edges: HashMap::default(),
            tokens: vec![None],
            unknown,
            normalizer,
        };
        for id in 0..vocabulary.len() {
            model.insert(vocabulary.text(id), id as u32); // at most i32::MAX tokens
        }
        model
    }

    fn insert(&mut self, text: &[u8], id: u32) {
        let mut node = 0;
        for &byte in text {
            // Memory ends before nodes can no longer be counted; past that a token would not be found.
            let Ok(next) = u32::try_from(self.tokens.len()) else {
                return;
            };
            node = *self.edges.entry(edge(node, byte)).or_insert(next);
            if node == next {
                self.tokens.push(None);
            }
        }
        self.tokens[node as usize] = Some(id);
    }

    /// Appends the tokens of a text.
    pub(crate) fn encode(&self, text: &[u8], ids: &mut Vec<u32>) {
        let mut word = ESCAPED_SPACE.to_vec();
        let mut at = 0;
        while let Some(c) = char_at(text, at) {
            at += c.len;
            // A byte that belongs to no character is dropped, as U+FFFD is.
            if let Some(c) = char::from_u32(c.code).filter(|_| c.valid) {
                self.take(c, &mut word, ids);
            }
        }
        self.finish(&mut word, ids);
    }

    /// One character of the text: it ends the word, joins it, is a word of its own, or is dropped.
    fn take(&self, c: char, word: &mut Vec<u8>, ids: &mut Vec<u32>) {
        let Normalizer {
            lowercase,
            strip_accents,
        } = self.normalizer;
        let c = if strip_accents { first_part(c) } else { c };
        let class = class_of(c.into());
        if class & SPACE != 0 {
            return self.finish(word, ids);
        }
        let is_dropped = c == '\0' || c == char::REPLACEMENT_CHARACTER || is_control(c, class);
        if is_dropped || strip_accents && class & MARK != 0 {
            return;
        }
        let written = if lowercase {
            c.to_lowercase().next().unwrap_or(c)
        } else {
            c
        };
        let alone = class & PUNCTUATION != 0 || c < '\x7F' && class & SYMBOL != 0 || is_han(c);
        if alone {
            self.finish(word, ids);
        }
        word.extend_from_slice(written.encode_utf8(&mut [0; 4]).as_bytes());
        if alone {
            self.finish(word, ids);
        }
    }

    /// Appends the tokens of a word, and begins the next one.
    fn finish(&self, word: &mut Vec<u8>, ids: &mut Vec<u32>) {
        let n_before = ids.len();
        let mut at = 0;
        while at < word.len() && word.len() > ESCAPED_SPACE.len() {
            match self.longest(&word[at..]) {
                Some((id, len)) => {
                    ids.push(id);
                    at += len;
                }
                None => {
                    ids.truncate(n_before);
                    ids.extend(self.unknown);
                    break;
                }
            }
        }
        word.truncate(ESCAPED_SPACE.len());
    }

    /// The longest token that the bytes begin with, and its length.
    fn longest(&self, bytes: &[u8]) -> Option<(u32, usize)> {
        let (mut node, mut found) = (0, None);
        for (i, &byte) in bytes.iter().enumerate() {
            let Some(&next) = self.edges.get(&edge(node, byte)) else {
                break;
            };
            node = next;
            if let Some(id) = self.tokens[node as usize] {
                found = Some((id, i + 1));
            }
        }
        found
    }
}

fn edge(node: u32, byte: u8) -> u64 {
    u64::from(node) << 8 | u64::from(byte)
}

/// The first character of the canonical decomposition: the letter without its accents.
fn first_part(c: char) -> char {
    if c.is_ascii() {
        return c;
    }
    let mut first = None;
    decompose_canonical(c, |part| _ = first.get_or_insert(part));
    first.unwrap_or(c)
}

/// `\p{C}` without the code points that are not assigned.
fn is_control(c: char, class: u8) -> bool {
    static RANGES: LazyLock<Vec<(usize, usize)>> =
        LazyLock::new(|| ranges_of(r"[\p{Cc}\p{Cf}\p{Co}]"));
    let code = c as usize;
    let covers = |&(_, last): &(usize, usize)| last < code;
    class == 0
        && RANGES
            .get(RANGES.partition_point(covers))
            .is_some_and(|&(first, _)| first <= code)
}

/// Characters that are words of their own because their script writes no spaces; the ranges are those of BERT's
/// tokenizer, the slip in the fifth included.
fn is_han(c: char) -> bool {
    matches!(c,
        '\u{4E00}'..='\u{9FFF}'
        | '\u{3400}'..='\u{4DBF}'
        | '\u{20000}'..='\u{2A6DF}'
        | '\u{2A700}'..='\u{2B73F}'
        | '\u{2B740}'..='\u{2B81F}'
        | '\u{2B920}'..='\u{2CEAF}'
        | '\u{F900}'..='\u{FAFF}'
        | '\u{2F800}'..='\u{2FA1F}')
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKENS: [&str; 9] = [
        "[UNK]",
        "▁un",
        "aff",
        "able",
        "▁a",
        "▁,",
        "▁大",
        "▁É",
        "▁\u{1112}",
    ];

    fn encode(normalizer: Normalizer, text: impl AsRef<[u8]>) -> Vec<u32> {
        let mut vocabulary = TextTable::default();
        for token in TOKENS {
            vocabulary.add(token.as_bytes());
        }
        let mut ids = Vec::new();
        WordPiece::new(&vocabulary, Some(0), normalizer).encode(text.as_ref(), &mut ids);
        ids
    }

    const UNCASED: Normalizer = Normalizer {
        lowercase: true,
        strip_accents: true,
    };
    const CASED: Normalizer = Normalizer {
        lowercase: false,
        strip_accents: false,
    };

    #[test]
    fn the_longest_tokens_cover_a_word_from_the_left() {
        assert_eq!(encode(UNCASED, "Unaffable"), [1, 2, 3]);
        assert_eq!(encode(UNCASED, "unaffably  un"), [0, 1]);
        assert_eq!(encode(UNCASED, ""), []);
        assert_eq!(encode(UNCASED, " \t\n"), []);
    }

    #[test]
    fn punctuation_and_han_are_words() {
        assert_eq!(encode(UNCASED, "a,a大un"), [4, 5, 4, 6, 1]);
    }

    #[test]
    fn accents_and_controls_go() {
        assert_eq!(
            encode(UNCASED, "À a\u{301} a\u{200D}\u{7} \u{FFFD}"),
            [4, 4, 4]
        );
        assert_eq!(encode(UNCASED, b"un\xFFaff\xC3"), [1, 2]);
        // Of a Hangul syllable the first letter stays.
        assert_eq!(encode(UNCASED, "한"), [8]);
    }

    #[test]
    fn a_cased_model_keeps_both() {
        assert_eq!(encode(CASED, "É A"), [7, 0]);
        // An accent of its own stays too.
        assert_eq!(encode(CASED, "a\u{301}"), [0]);
    }
}
