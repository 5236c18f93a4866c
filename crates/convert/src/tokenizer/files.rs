//! The files of a folder that say something about the tokenizer.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::json::TokenizerJson;
use crate::ConvertError;

/// Files beyond this are not read; the largest known `tokenizer.json` has 35 MB.
const N_BYTES_MAX: u64 = 1 << 29;

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
    pub(super) fn read(folder: &Path, warnings: &mut Vec<String>) -> Result<Files, ConvertError> {
        let config = read_json(folder, "tokenizer_config.json")?;
        if config.is_none() {
            warnings.push(
                "there is no tokenizer_config.json: special tokens may be missing".to_owned(),
            );
        }
        Ok(Files {
            folder: folder.to_owned(),
            json: read_json(folder, "tokenizer.json")?,
            sentence_piece: read_bytes(folder, "tokenizer.model")?,
            config,
            model_config: read_json(folder, "config.json")?.unwrap_or_default(),
            added_tokens: read_json(folder, "added_tokens.json")?.unwrap_or_default(),
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

/// The bytes of a file, or none if there is no such file.
pub(super) fn read_bytes(folder: &Path, name: &str) -> Result<Option<Vec<u8>>, ConvertError> {
    let path = folder.join(name);
    let size = match std::fs::metadata(&path) {
        Ok(found) if found.is_file() => found.len(),
        Ok(_) => return Ok(None),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(ConvertError::io(&path, "read", error)),
    };
    if size > N_BYTES_MAX {
        let reason = format!("has {size} bytes, more than any tokenizer's file");
        return Err(ConvertError::Tokenizer { path, reason });
    }
    std::fs::read(&path)
        .map(Some)
        .map_err(|error| ConvertError::io(&path, "read", error))
}

/// A JSON file, or none if there is no such file.
pub(super) fn read_json<T: DeserializeOwned>(
    folder: &Path,
    name: &str,
) -> Result<Option<T>, ConvertError> {
    let Some(bytes) = read_bytes(folder, name)? else {
        return Ok(None);
    };
    serde_json::from_slice(&bytes).map(Some).map_err(|error| {
        let what = if bytes.starts_with(b"version https://git-lfs") {
            "is a Git LFS pointer, not the file itself".to_owned()
        } else {
            format!("cannot be used: {error}")
        };
        ConvertError::Tokenizer {
            path: folder.join(name),
            reason: what,
        }
    })
}
