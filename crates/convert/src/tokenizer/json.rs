//! `tokenizer.json`, as far as conversion needs it.

use std::collections::HashMap;

use serde::Deserialize;
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
    pub byte_fallback: Option<bool>,
}

/// The tokens of the model; other kinds than BPE and WordPiece have lists.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Vocab {
    Map(HashMap<String, u64>),
    Other(serde::de::IgnoredAny),
}

impl Default for Vocab {
    fn default() -> Vocab {
        Vocab::Map(HashMap::new())
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

    /// The tokens of a BPE model, or why there are none.
    pub(super) fn bpe_vocab(&self) -> Result<&HashMap<String, u64>, String> {
        match (&self.model.kind, &self.model.vocab) {
            (None, Vocab::Map(vocab)) => Ok(vocab),
            (Some(kind), Vocab::Map(vocab)) if kind == "BPE" => Ok(vocab),
            (None, Vocab::Other(_)) => Err("model.vocab is no table of tokens and ids".to_owned()),
            (Some(kind), Vocab::Other(_)) if kind == "BPE" => {
                Err("model.vocab is no table of tokens and ids".to_owned())
            }
            (kind, _) => {
                let kind = kind.as_deref().unwrap_or("without a type");
                Err(format!(
                    "the model is {kind}; only BPE can be converted yet"
                ))
            }
        }
    }
}
