//! A model's vocabulary, as the parser of constraints wants it: a tree of the bytes of all tokens.

use std::sync::Arc;

use gristmill_tokenizer::{Attributes, Tokenizer};
use llguidance::toktrie::{INVALID_TOKEN, TokEnv, TokRxInfo, TokTrie, TokenId, TokenizerEnv};

/// Longer tokens are never allowed: the tree has no room for them.
const TOKEN_BYTES_MAX: usize = 1000;
/// Bytes of all tokens that the tree has room for.
const VOCABULARY_BYTES_MAX: usize = 1 << 21;

struct Environment {
    tree: TokTrie,
}

impl TokenizerEnv for Environment {
    fn tok_trie(&self) -> &TokTrie {
        &self.tree
    }

    fn tokenize_bytes(&self, text: &[u8]) -> Vec<TokenId> {
        self.tree.greedy_tokenize(text)
    }

    /// Every way to spell an allowed text is allowed: which one to take is the model's choice.
    fn tokenize_is_canonical(&self) -> bool {
        false
    }
}

/// The bytes of a token, none for one that is never allowed. No text of a grammar is ever a control token: these begin with a byte that no text has, and
/// what grammars name stands behind it.
fn word(tokenizer: &Tokenizer, id: u32) -> Vec<u8> {
    let attributes = tokenizer.attributes(id);
    let piece = tokenizer.piece(id, false);
    let is_text = piece.first() != Some(&TokTrie::SPECIAL_TOKEN_MARKER)
        && !attributes.has(Attributes::UNUSED);
    let word = match (attributes.has(Attributes::CONTROL), is_text) {
        (true, _) => [&[TokTrie::SPECIAL_TOKEN_MARKER], tokenizer.text(id)].concat(),
        (false, true) => piece.to_vec(),
        (false, false) => Vec::new(),
    };
    match word.len() > TOKEN_BYTES_MAX {
        true => Vec::new(),
        false => word,
    }
}

/// The tree of a vocabulary; nothing for one that is too large.
pub(super) fn environment(tokenizer: &Tokenizer) -> Option<TokEnv> {
    let n_tokens = u32::try_from(tokenizer.n_tokens()).ok()?;
    let mut n_bytes = 0;
    let words: Vec<Vec<u8>> = (0..n_tokens)
        .map(|id| word(tokenizer, id))
        .inspect(|word| n_bytes += word.len())
        .collect();
    if n_bytes > VOCABULARY_BYTES_MAX || n_tokens == 0 {
        return None;
    }
    let ends: Vec<u32> = (0..n_tokens).filter(|&id| tokenizer.is_eog(id)).collect();
    let info = TokRxInfo::new(n_tokens, INVALID_TOKEN);
    let mut tree = TokTrie::from(&info, &words);
    if !ends.is_empty() {
        tree = tree.with_eos_tokens(&ends);
    }
    Some(Arc::new(Environment { tree }))
}
