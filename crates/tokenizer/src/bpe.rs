//! Byte-level BPE: words by the pre-tokenizer, bytes by ranked merges.

use std::collections::HashMap;

use gristmill_gguf::StringArray;

use crate::bytes;
use crate::error::TokenizerError;
use crate::hash::{FastState, TextTable};
use crate::merge::{Merge, Merger, Part};
use crate::pre::PreTokenizer;

/// A symbol without a token of its own.
const NO_TOKEN: u32 = u32::MAX;

/// Words longer than this are not remembered within a text.
const N_BYTES_REMEMBERED: usize = 48;
/// How many words are remembered within a text.
const N_WORDS_REMEMBERED: usize = 1 << 16;

/// A byte-level BPE model. A symbol is a byte string that merges can reach; most are tokens.
pub(crate) struct Bpe {
    pre: &'static PreTokenizer,
    /// A word that is a token as a whole is taken without merges.
    ignore_merges: bool,
    /// The byte strings of the symbols. The first 256 are the single bytes.
    symbols: TextTable,
    /// The token of each symbol, or `NO_TOKEN`.
    tokens: Vec<u32>,
    merges: HashMap<u64, Merge, FastState>,
}

fn pair(left: u32, right: u32) -> u64 {
    u64::from(left) << 32 | u64::from(right)
}

impl Bpe {
    /// A model over the texts of all tokens, by id, and the merges, by rank.
    pub(crate) fn new<'a>(
        tokens: impl ExactSizeIterator<Item = &'a [u8]>,
        merges: &StringArray,
        pre: &'static PreTokenizer,
        ignore_merges: bool,
    ) -> Result<Bpe, TokenizerError> {
        let mut bpe = Bpe {
            pre,
            ignore_merges,
            symbols: TextTable::with_capacity(tokens.len() + 256, 8 * tokens.len()),
            tokens: Vec::with_capacity(tokens.len() + 256),
            merges: HashMap::with_capacity_and_hasher(merges.len(), FastState::default()),
        };
        for byte in 0..=255 {
            bpe.symbol(&[byte]);
        }
        let mut text = Vec::new();
        for (id, token) in tokens.enumerate() {
            text.clear();
            // A token with other characters, such as an added one with a space, is out of reach for merges.
            if bytes::decode_into(token, &mut text) {
                let symbol = bpe.symbol(&text);
                bpe.tokens[symbol as usize] = id as u32; // the caller has at most i32::MAX tokens
            }
        }
        for (index, merge) in merges.iter().enumerate() {
            bpe.add_merge(index, merge)?;
        }
        Ok(bpe)
    }

    /// Whether every byte has a token, so that no text is passed over.
    pub(crate) fn has_all_bytes(&self) -> bool {
        self.tokens[..256].iter().all(|&token| token != NO_TOKEN)
    }

    /// The number of merges that can apply.
    pub(crate) fn n_merges(&self) -> usize {
        self.merges.len()
    }

    fn symbol(&mut self, text: &[u8]) -> u32 {
        let (symbol, new) = self.symbols.add(text);
        if new {
            self.tokens.push(NO_TOKEN);
        }
        symbol
    }

    fn add_merge(&mut self, index: usize, merge: &[u8]) -> Result<(), TokenizerError> {
        // The first part has at least one character, which may be a space.
        let space = merge
            .iter()
            .skip(1)
            .position(|&byte| byte == b' ')
            .map(|at| at + 1);
        let Some(space) = space.filter(|&space| space + 1 < merge.len()) else {
            let text = gristmill_gguf::escape_invalid(merge).into_owned();
            return Err(TokenizerError::BadMerge { index, text });
        };
        let mut text = Vec::with_capacity(merge.len());
        if !bytes::decode_into(&merge[..space], &mut text) {
            return Ok(());
        }
        let n_left = text.len();
        if !bytes::decode_into(&merge[space + 1..], &mut text) {
            return Ok(());
        }
        let left = self.symbol(&text[..n_left]);
        let right = self.symbol(&text[n_left..]);
        let symbol = self.symbol(&text);
        // Indices fit: each merge takes at least 8 bytes of a file.
        let rank = u32::try_from(index).unwrap_or(u32::MAX);
        // Of two equal merges the first counts.
        self.merges
            .entry(pair(left, right))
            .or_insert(Merge { rank, symbol });
        Ok(())
    }

    /// Appends the tokens of a text without special tokens.
    pub(crate) fn encode(&self, text: &[u8], ids: &mut Vec<u32>) {
        let mut words = Words::default();
        // Where the tokens of words seen before lie in `ids`.
        let mut seen: HashMap<&[u8], (usize, usize), FastState> = HashMap::default();
        let mut at = 0;
        self.pre.split(text, &mut |word| {
            // The words join to the text, so the next one starts where this one ends.
            let word = &text[at..at + word.len()];
            at += word.len();
            if let Some(&(start, end)) = seen.get(word) {
                ids.extend_from_within(start..end);
                return;
            }
            let start = ids.len();
            self.encode_word(word, &mut words, ids);
            if word.len() <= N_BYTES_REMEMBERED && seen.len() < N_WORDS_REMEMBERED {
                seen.insert(word, (start, ids.len()));
            }
        });
    }

    fn encode_word(&self, word: &[u8], words: &mut Words, ids: &mut Vec<u32>) {
        if self.ignore_merges
            && let Some(symbol) = self.symbols.find(word)
            && self.tokens[symbol as usize] != NO_TOKEN
        {
            ids.push(self.tokens[symbol as usize]);
            return;
        }
        let parts = &mut words.parts;
        parts.clear();
        // Symbol numbers 0 to 255 are the bytes.
        parts.extend(word.iter().enumerate().map(|(start, &byte)| Part {
            symbol: u32::from(byte),
            start,
        }));
        words.merger.merge(parts, word.len(), |left, right, _, _| {
            self.merges.get(&pair(left, right)).copied()
        });
        for part in parts.iter() {
            self.push(part.symbol, ids);
        }
    }

    /// Appends the token of a symbol, or the tokens of its bytes; a byte without a token is dropped, as
    /// in the reference.
    fn push(&self, symbol: u32, ids: &mut Vec<u32>) {
        let token = self.tokens[symbol as usize];
        if token != NO_TOKEN {
            ids.push(token);
            return;
        }
        for &byte in self.symbols.text(symbol as usize) {
            let token = self.tokens[usize::from(byte)];
            if token != NO_TOKEN {
                ids.push(token);
            }
        }
    }
}

/// Buffers reused from word to word.
#[derive(Default)]
struct Words {
    parts: Vec<Part>,
    merger: Merger,
}
