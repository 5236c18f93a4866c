//! The files of a folder that say something about the tokenizer.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::json::TokenizerJson;
use super::word_piece;
use crate::ConvertError;
use crate::small_file::{read_bytes, read_json, read_text};

/// What the folder has. Files that are optional and missing are empty.
pub(super) struct Files {
    pub folder: PathBuf,
    /// `tokenizer.json`, or what a `vocab.txt` in its place stands for.
    pub json: Option<TokenizerJson>,
    /// Whether it is the latter.
    pub from_vocab_txt: bool,
    /// `tokenizer.model`.
    pub sentence_piece: Option<Vec<u8>>,
    /// `tokenizer_config.json`; none if there is none.
    pub config: Option<Map<String, Value>>,
    /// `config.json`.
    pub model_config: Map<String, Value>,
    /// `added_tokens.json`: text and id.
    pub added_tokens: Map<String, Value>,
}

impl Files {
    /// Reads them; `model_config` is `config.json` where the caller has read it already.
    pub(super) fn read(
        folder: &Path,
        model_config: Option<&Value>,
        warnings: &mut Vec<String>,
    ) -> Result<Files, ConvertError> {
        let path = |name: &str| folder.join(name);
        let mut config: Option<Map<String, Value>> = read_json(&path("tokenizer_config.json"))?;
        if config.is_none() {
            warnings.push(
                "there is no tokenizer_config.json: special tokens may be missing".to_owned(),
            );
        }
        let mut json = read_json(&path("tokenizer.json"))?;
        let sentence_piece = read_bytes(&path("tokenizer.model"))?;
        let mut from_vocab_txt = false;
        if json.is_none()
            && sentence_piece.is_none()
            && let Some(vocab) = read_text(&path("vocab.txt"))?
        {
            json = word_piece::of_vocab_txt(&vocab, config.get_or_insert_default());
            from_vocab_txt = json.is_some();
        }
        Ok(Files {
            folder: folder.to_owned(),
            json,
            from_vocab_txt,
            sentence_piece,
            config,
            model_config: match model_config {
                Some(config) => config.as_object().cloned().unwrap_or_default(),
                None => read_json(&path("config.json"))?.unwrap_or_default(),
            },
            added_tokens: read_json(&path("added_tokens.json"))?.unwrap_or_default(),
        })
    }

    /// A flag of `tokenizer_config.json`.
    pub(super) fn config_bool(&self, key: &str) -> Option<bool> {
        self.config.as_ref()?.get(key)?.as_bool()
    }

    /// `added_tokens_decoder` of `tokenizer_config.json`: id, text, and whether the token is special, by id.
    pub(super) fn added_tokens_decoder(&self) -> Vec<(u64, &str, bool)> {
        let decoder = self
            .config
            .as_ref()
            .and_then(|config| config.get("added_tokens_decoder"));
        let entries = decoder.and_then(Value::as_object).into_iter().flatten();
        let mut tokens: Vec<(u64, &str, bool)> = entries
            .filter_map(|(id, token)| {
                let special = token
                    .get("special")
                    .and_then(Value::as_bool)
                    .unwrap_or(false);
                Some((id.parse().ok()?, token.get("content")?.as_str()?, special))
            })
            .collect();
        tokens.sort_by_key(|&(id, ..)| id);
        tokens
    }

    /// An error about one of the files.
    pub(super) fn error(&self, file: &str, reason: String) -> ConvertError {
        let stood_in = self.from_vocab_txt && file == "tokenizer.json";
        let file = if stood_in { "vocab.txt" } else { file };
        ConvertError::Tokenizer {
            path: self.folder.join(file),
            reason,
        }
    }
}
