//! `tokenizer.json`, as far as conversion needs it.

use std::collections::HashMap;
use std::fmt;

use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// A tokenizer of the `tokenizers` library.
#[derive(Deserialize)]
pub(super) struct TokenizerJson {
    #[serde(default)]
    pub added_tokens: Vec<AddedToken>,
    #[serde(default)]
    pub normalizer: Value,
    #[serde(default)]
    pub pre_tokenizer: Value,
    #[serde(default)]
    pub post_processor: Value,
    pub model: Model,
}

#[derive(Deserialize)]
pub(super) struct AddedToken {
    pub id: u64,
    pub content: String,
    #[serde(default)]
    pub special: bool,
}

#[derive(Deserialize)]
pub(super) struct Model {
    /// Missing in old files of BPE models.
    #[serde(rename = "type", default)]
    pub kind: Option<String>,
    #[serde(default)]
    pub vocab: Vocab,
    #[serde(default)]
    pub merges: Vec<Merge>,
    #[serde(default)]
    pub ignore_merges: Option<bool>,
    #[serde(default)]
    pub unk_token: Option<String>,
    #[serde(default)]
    pub continuing_subword_prefix: Option<String>,
    #[serde(default)]
    pub byte_fallback: Option<bool>,
}

/// The tokens of the model; other kinds than BPE and WordPiece have lists.
pub(super) enum Vocab {
    Map(HashMap<String, u64>),
    /// A table in which a token has an id that is none, as it is written.
    BadId {
        token: String,
        id: String,
    },
    Other,
}

impl Default for Vocab {
    fn default() -> Vocab {
        Vocab::Map(HashMap::new())
    }
}

impl<'de> Deserialize<'de> for Vocab {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(VocabVisitor)
    }
}

struct VocabVisitor;

impl<'de> Visitor<'de> for VocabVisitor {
    type Value = Vocab;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table or a list of tokens")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Vocab, A::Error> {
        let mut vocab = HashMap::new();
        let mut bad = None;
        while let Some((token, id)) = map.next_entry::<String, Value>()? {
            match id.as_u64() {
                Some(id) => drop(vocab.insert(token, id)),
                None => drop(bad.get_or_insert((token, id))),
            }
        }
        Ok(match bad {
            None => Vocab::Map(vocab),
            Some((token, id)) => Vocab::BadId {
                token,
                id: id.to_string().chars().take(80).collect(),
            },
        })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vocab, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Vocab::Other)
    }

    fn visit_unit<E>(self) -> Result<Vocab, E> {
        Ok(Vocab::Other)
    }
}

/// A merge in the old form, with a space between its parts, or in the new one, which allows spaces in them.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Merge {
    Text(String),
    Pair([String; 2]),
}

impl Merge {
    /// The merge in the old form. A space inside a part becomes the character that stands for it.
    pub(super) fn joined(&self) -> String {
        match self {
            Merge::Text(text) => text.clone(),
            Merge::Pair(parts) => parts
                .each_ref()
                .map(|part| part.replace(' ', "Ġ"))
                .join(" "),
        }
    }

    /// What the merge makes.
    pub(super) fn result(&self) -> String {
        match self {
            Merge::Text(text) => text.replacen(' ', "", 1),
            Merge::Pair([left, right]) => format!("{left}{right}"),
        }
    }
}

impl TokenizerJson {
    /// True for SentencePiece in the clothes of BPE: bytes as `<0xNN>`, spaces as U+2581.
    pub(super) fn has_byte_fallback(&self) -> bool {
        self.model.byte_fallback == Some(true)
    }

    /// True for WordPiece.
    pub(super) fn is_word_piece(&self) -> bool {
        self.model.kind.as_deref() == Some("WordPiece")
    }

    /// The tokens of a BPE model, or why there are none.
    pub(super) fn bpe_vocab(&self) -> Result<&HashMap<String, u64>, String> {
        match &self.model.kind {
            Some(kind) if kind != "BPE" => Err(format!(
                "the model is {kind}; only BPE and WordPiece can be converted yet"
            )),
            _ => self.vocab(),
        }
    }

    /// The tokens of the model, or why there are none.
    pub(super) fn vocab(&self) -> Result<&HashMap<String, u64>, String> {
        match &self.model.vocab {
            Vocab::Map(vocab) => Ok(vocab),
            Vocab::BadId { token, id } => Err(format!(
                "model.vocab: token {token:?} has the id {id}; ids are whole numbers from 0"
            )),
            Vocab::Other => Err("model.vocab is no table of tokens and ids".to_owned()),
        }
    }
}
