//! What the stages ask about tokens.

use gristmill_tokenizer::{EncodeOptions, Tokenizer};

/// The tokens that the candidates are.
pub trait Vocabulary {
    /// How many tokens there are.
    fn n_tokens(&self) -> usize;
    /// The bytes of a token, also where it is a control token.
    fn piece(&self, id: u32) -> &[u8];
    /// The tokens of a text, in which control tokens are not seen.
    fn encode(&self, text: &[u8]) -> Vec<u32>;
}

impl Vocabulary for Tokenizer {
    fn n_tokens(&self) -> usize {
        self.n_tokens()
    }

    fn piece(&self, id: u32) -> &[u8] {
        self.piece(id, true)
    }

    fn encode(&self, text: &[u8]) -> Vec<u32> {
        self.encode(text, EncodeOptions::default())
    }
}
