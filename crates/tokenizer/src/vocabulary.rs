//! The tokens of a file: texts, attributes, scores, and the ids with a role.

use gristmill_gguf::{Array, Metadata, StringArray};

use crate::error::TokenizerError;
use crate::hash::TextTable;

/// Keys of the metadata, under `tokenizer.ggml.`.
pub(crate) mod key {
    pub(crate) const MODEL: &str = "tokenizer.ggml.model";
    pub(crate) const PRE: &str = "tokenizer.ggml.pre";
    pub(crate) const TOKENS: &str = "tokenizer.ggml.tokens";
    pub(crate) const TOKEN_TYPE: &str = "tokenizer.ggml.token_type";
    pub(crate) const SCORES: &str = "tokenizer.ggml.scores";
    pub(crate) const MERGES: &str = "tokenizer.ggml.merges";
    pub(crate) const ADD_BOS: &str = "tokenizer.ggml.add_bos_token";
    pub(crate) const ADD_EOS: &str = "tokenizer.ggml.add_eos_token";
    pub(crate) const ADD_SEP: &str = "tokenizer.ggml.add_sep_token";
    pub(crate) const LOWERCASE: &str = "tokenizer.ggml.normalizer.lowercase";
    pub(crate) const STRIP_ACCENTS: &str = "tokenizer.ggml.normalizer.strip_accents";
    pub(crate) const ADD_SPACE_PREFIX: &str = "tokenizer.ggml.add_space_prefix";
}

/// What a token is, as a set of bits. Files give one of the first six; a token known by its text as a
/// control token gets that bit in addition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes(u8);

impl Attributes {
    /// Stands for text that no token covers.
    pub const UNKNOWN: Attributes = Attributes(1);
    /// A place in the vocabulary that means nothing.
    pub const UNUSED: Attributes = Attributes(2);
    /// A piece of text.
    pub const NORMAL: Attributes = Attributes(4);
    /// Steers the model, such as an end of turn; never text.
    pub const CONTROL: Attributes = Attributes(8);
    /// Added to the vocabulary by its authors: always recognised as a whole.
    pub const USER_DEFINED: Attributes = Attributes(16);
    /// A single byte, written `<0xNN>`.
    pub const BYTE: Attributes = Attributes(32);
    /// White space before the token belongs to it.
    pub const STRIP_LEFT: Attributes = Attributes(64);
    /// White space after the token belongs to it.
    pub const STRIP_RIGHT: Attributes = Attributes(128);

    /// The attributes for a value of `tokenizer.ggml.token_type`; none for 0 and for unknown values.
    pub fn from_token_type(token_type: i32) -> Attributes {
        match token_type {
            1 => Attributes::NORMAL,
            2 => Attributes::UNKNOWN,
            3 => Attributes::CONTROL,
            4 => Attributes::USER_DEFINED,
            5 => Attributes::UNUSED,
            6 => Attributes::BYTE,
            _ => Attributes(0),
        }
    }

    /// True if any bit of `other` is set.
    pub fn has(self, other: Attributes) -> bool {
        self.0 & other.0 != 0
    }

    /// Both sets together.
    pub const fn with(self, other: Attributes) -> Attributes {
        Attributes(self.0 | other.0)
    }

    /// This set without the bits of `other`.
    pub(crate) const fn without(self, other: Attributes) -> Attributes {
        Attributes(self.0 & !other.0)
    }
}

/// The tokens, by id.
pub(crate) struct Vocabulary {
    /// Texts as in the file.
    pub texts: TextTable,
    pub attributes: Vec<Attributes>,
    /// Zero where the file has none.
    pub scores: Vec<f32>,
}

impl Vocabulary {
    pub(crate) fn from_metadata(metadata: &Metadata) -> Result<Vocabulary, TokenizerError> {
        let tokens = metadata.required_strings(key::TOKENS)?;
        let n_tokens = tokens.len();
        if n_tokens == 0 || i32::try_from(n_tokens).is_err() {
            return Err(TokenizerError::TokenCount { n_tokens });
        }
        Ok(Vocabulary {
            texts: texts(tokens)?,
            attributes: attributes(metadata, n_tokens)?,
            scores: scores(metadata, n_tokens)?,
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.texts.len()
    }

    /// The id of the token with this text.
    pub(crate) fn find(&self, text: &str) -> Option<u32> {
        self.texts.find(text.as_bytes())
    }

    pub(crate) fn has(&self, id: u32, attributes: Attributes) -> bool {
        self.attributes
            .get(id as usize)
            .is_some_and(|found| found.has(attributes))
    }
}

/// The texts, all different. An empty one gets the name `[EMPTY_i]`, as in the reference.
fn texts(tokens: &StringArray) -> Result<TextTable, TokenizerError> {
    let mut texts = TextTable::with_capacity(tokens.len(), tokens.n_bytes());
    for (id, token) in tokens.iter().enumerate() {
        let name;
        let text = if token.is_empty() {
            name = format!("[EMPTY_{id}]");
            name.as_bytes()
        } else {
            token
        };
        let (first, new) = texts.add(text);
        if !new {
            return Err(TokenizerError::DuplicateToken {
                first,
                second: id as u32, // at most i32::MAX tokens
                text: gristmill_gguf::escape_invalid(text).into_owned(),
            });
        }
    }
    Ok(texts)
}

fn attributes(metadata: &Metadata, n_tokens: usize) -> Result<Vec<Attributes>, TokenizerError> {
    let Some(types) = metadata.i32s(key::TOKEN_TYPE)? else {
        return Ok(vec![Attributes::NORMAL; n_tokens]);
    };
    check_length(key::TOKEN_TYPE, types.len(), n_tokens)?;
    Ok(types.into_iter().map(Attributes::from_token_type).collect())
}

fn scores(metadata: &Metadata, n_tokens: usize) -> Result<Vec<f32>, TokenizerError> {
    let Some(array) = metadata.array(key::SCORES)? else {
        return Ok(vec![0.0; n_tokens]);
    };
    check_length(key::SCORES, array.len(), n_tokens)?;
    match array {
        Array::F32(scores) => Ok(scores.clone()),
        Array::I32(scores) => Ok(scores.iter().map(|&score| score as f32).collect()),
        other => Err(TokenizerError::WrongType {
            key: key::SCORES,
            expected: "an ARRAY of FLOAT32",
            found: format!("an ARRAY of {}", other.element_type()),
        }),
    }
}

fn check_length(key: &'static str, found: usize, expected: usize) -> Result<(), TokenizerError> {
    if found == expected {
        return Ok(());
    }
    Err(TokenizerError::WrongLength {
        key,
        expected,
        found,
    })
}
