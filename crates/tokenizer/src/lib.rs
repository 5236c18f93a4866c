//! Text to ids and back, from the vocabulary in a file's metadata.
//!
//! [`Tokenizer::from_metadata`] checks everything it reads, so that encoding and decoding cannot fail
//! afterwards. Ids are those of the reference for the same file; text is bytes, and invalid UTF-8 in it
//! is kept byte by byte. Time is linear in the text, up to a logarithm for words without a break.

mod bpe;
mod bytes;
mod decode;
mod error;
mod hash;
mod merge;
pub mod pre;
mod roles;
mod scan;
mod special;
mod spm;
mod tokenizer;
mod unicode;
mod vocabulary;
mod word_piece;

pub use decode::Utf8Stream;
pub use error::TokenizerError;
pub use roles::Roles;
pub use tokenizer::{EncodeOptions, StreamDecoder, Tokenizer};
pub use vocabulary::Attributes;
