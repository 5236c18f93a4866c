//! SentencePiece BPE: characters joined by the scores of the tokens they form, bytes for the rest.

use crate::hash::TextTable;
use crate::merge::{Merge, Merger, Part};
use crate::unicode::char_at;

/// U+2581, which stands for a space in token texts.
pub(crate) const ESCAPED_SPACE: &[u8] = "\u{2581}".as_bytes();

/// A character that is no token.
const NO_TOKEN: u32 = u32::MAX;

/// A SentencePiece model over a vocabulary.
pub(crate) struct Spm {
    /// Per token, its place in the order of merging: the highest score first, equal scores alike.
    ranks: Vec<u32>,
    /// The token for each byte: `<0xNN>`, or the byte itself as a token.
    byte_tokens: Vec<Option<u32>>,
    unknown: Option<u32>,
    /// The length of the longest token, in bytes.
    n_bytes_longest: usize,
}

impl Spm {
    /// A model for a vocabulary, with one score per token.
    pub(crate) fn new(vocabulary: &TextTable, scores: &[f32], unknown: Option<u32>) -> Spm {
        let byte_token = |byte: u8| {
            let written = format!("<0x{byte:02X}>");
            vocabulary
                .find(written.as_bytes())
                .or_else(|| vocabulary.find(&[byte]))
        };
        let longest = (0..vocabulary.len())
            .map(|id| vocabulary.text(id).len())
            .max();
        Spm {
            ranks: ranks(scores),
            byte_tokens: (0..=255).map(byte_token).collect(),
            unknown,
            n_bytes_longest: longest.unwrap_or(0),
        }
    }

    /// Whether every byte has a token, so that no text is passed over.
    pub(crate) fn has_all_bytes(&self) -> bool {
        self.unknown.is_some() || self.byte_tokens.iter().all(Option::is_some)
    }

    /// The token for a byte.
    pub(crate) fn byte_token(&self, byte: u8) -> Option<u32> {
        self.byte_tokens[usize::from(byte)]
    }

    /// Appends the tokens of a text, in which spaces are escaped already.
    pub(crate) fn encode(&self, vocabulary: &TextTable, text: &[u8], ids: &mut Vec<u32>) {
        let mut parts = Vec::with_capacity(text.len());
        let mut at = 0;
        while let Some(c) = char_at(text, at) {
            let symbol = vocabulary.find(&text[at..at + c.len]).unwrap_or(NO_TOKEN);
            parts.push(Part { symbol, start: at });
            at += c.len;
        }
        Merger::default().merge(&mut parts, text.len(), |_, _, start, end| {
            if end - start > self.n_bytes_longest {
                return None;
            }
            let token = vocabulary.find(&text[start..end])?;
            Some(Merge {
                rank: *self.ranks.get(token as usize)?,
                symbol: token,
            })
        });
        for (i, part) in parts.iter().enumerate() {
            if part.symbol != NO_TOKEN {
                ids.push(part.symbol);
                continue;
            }
            let end = parts.get(i + 1).map_or(text.len(), |next| next.start);
            self.push_bytes(&text[part.start..end], ids);
        }
    }

    fn push_bytes(&self, bytes: &[u8], ids: &mut Vec<u32>) {
        ids.extend(
            bytes
                .iter()
                .filter_map(|&byte| self.byte_token(byte).or(self.unknown)),
        );
    }
}

/// Turns scores into ranks that count upwards, so that one merge loop serves both kinds of BPE. Scores
/// that are not numbers come last.
fn ranks(scores: &[f32]) -> Vec<u32> {
    let key = |score: f32| {
        if score.is_nan() {
            f32::NEG_INFINITY
        } else {
            score + 0.0
        }
    };
    let mut sorted: Vec<f32> = scores.iter().map(|&score| key(score)).collect();
    sorted.sort_unstable_by(|a, b| b.total_cmp(a));
    sorted.dedup();
    // Descending: the rank is the number of scores that are greater.
    scores
        .iter()
        .map(|&score| sorted.partition_point(|&other| other > key(score)) as u32)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encode(tokens: &[(&str, f32)], text: &[u8]) -> Vec<u32> {
        let mut vocabulary = TextTable::default();
        for (token, _) in tokens {
            vocabulary.add(token.as_bytes());
        }
        let scores: Vec<f32> = tokens.iter().map(|&(_, score)| score).collect();
        let mut ids = Vec::new();
        Spm::new(&vocabulary, &scores, Some(0)).encode(&vocabulary, text, &mut ids);
        ids
    }

    #[test]
    fn the_highest_score_merges_first() {
        let tokens = [
            ("?", 0.0),
            ("a", -9.0),
            ("b", -9.0),
            ("c", -9.0),
            ("ab", -2.0),
            ("bc", -1.0),
        ];
        assert_eq!(encode(&tokens, b"abc"), [1, 5]);
    }

    #[test]
    fn the_leftmost_of_equal_scores_merges_first() {
        let tokens = [("?", 0.0), ("a", -9.0), ("aa", -1.0)];
        assert_eq!(encode(&tokens, b"aaa"), [2, 1]);
    }

    #[test]
    fn bytes_stand_for_characters_that_are_no_token() {
        let tokens = [("?", 0.0), ("<0xE6>", 0.0), ("<0xAD>", 0.0), ("x", -1.0)];
        assert_eq!(encode(&tokens, b"x\xE6\xADx\xFF"), [3, 1, 2, 3, 0]);
    }

    #[test]
    fn ranks_of_scores() {
        assert_eq!(ranks(&[0.0, -1.0, f32::NAN, 5.0, -0.0]), [1, 2, 3, 0, 1]);
    }
}
