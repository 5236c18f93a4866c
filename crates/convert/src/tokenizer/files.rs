//! The files of a folder that say something about the tokenizer.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::json::TokenizerJson;
use crate::ConvertError;
use crate::small_file::{read_bytes, read_json};

/// What the folder has. Files that are optional and missing are empty.
pub(super) struct Files {
    pub folder: PathBuf,
    /// `tokenizer.json`.
    pub json: Option<TokenizerJson>,
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
        let config = read_json(&path("tokenizer_config.json"))?;
        if config.is_none() {
            warnings.push(
                "there is no tokenizer_config.json: special tokens may be missing".to_owned(),
            );
        }
        Ok(Files {
            folder: folder.to_owned(),
            json: read_json(&path("tokenizer.json"))?,
            sentence_piece: read_bytes(&path("tokenizer.model"))?,
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
        ConvertError::Tokenizer {
            path: self.folder.join(file),
            reason,
        }
    }
}
