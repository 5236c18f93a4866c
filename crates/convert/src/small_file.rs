//! Files beside the weights, which are read whole: JSON, text, a SentencePiece model.

use crate::ConvertError;
use serde::de::DeserializeOwned;
use std::io::{ErrorKind, Read};
use std::path::Path;

/// Files beyond this are not read; the largest known `tokenizer.json` has 35 MB.
const N_BYTES_MAX: u64 = 1 << 29;

/// The bytes of a file, or none if there is no such file.
///
/// # Errors
/// `Io`, `TooLarge`.
pub(crate) fn read_bytes(path: &Path) -> Result<Option<Vec<u8>>, ConvertError> {
    match std::fs::metadata(path) {
        Ok(found) if !found.is_file() => return Ok(None),
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(ConvertError::io(path, "read", error)),
    }
    let io = |error| ConvertError::io(path, "read", error);
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(io)?;
    // The limit holds for a file that grows meanwhile, too.
    file.take(N_BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(io)?;
    if bytes.len() as u64 > N_BYTES_MAX {
        return Err(ConvertError::TooLarge {
            path: path.to_owned(),
            n_bytes_max: N_BYTES_MAX,
        });
    }
    Ok(Some(bytes))
}

/// A text file, invalid bytes replaced, or none if there is no such file.
///
/// # Errors
/// As [`read_bytes`].
pub(crate) fn read_text(path: &Path) -> Result<Option<String>, ConvertError> {
    let bytes = read_bytes(path)?;
    Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
}

/// A JSON file, or none if there is no such file.
///
/// # Errors
/// As [`read_bytes`]; `Json` with the place, or with what the file is instead.
pub(crate) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, ConvertError> {
    let Some(bytes) = read_bytes(path)? else {
        return Ok(None);
    };
    // Some editors put a mark in front; it is no part of the text.
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
    serde_json::from_slice(text).map(Some).map_err(|error| {
        foreign(path, &bytes).unwrap_or_else(|| ConvertError::Json {
            path: path.to_owned(),
            reason: error.to_string(),
        })
    })
}

/// What a file is instead of what its name says, by its first bytes.
pub(crate) fn foreign(path: &Path, first: &[u8]) -> Option<ConvertError> {
    let kinds: [(&[u8], &str, &str); 5] = [
        (
            b"GGUF",
            "a GGUF file under another name",
            "a GGUF file needs no conversion: `gristmill quantize` and `gristmill run` take it as it is",
        ),
        (
            b"version ",
            "a Git LFS pointer, not the file itself",
            "fetch the file with `git lfs pull`, in the folder that was cloned",
        ),
        (
            b"<",
            "a web page, not the file that was meant to be downloaded",
            "download the file itself; a login or another address may be needed",
        ),
        (
            b"PK",
            "a zip archive, perhaps a PyTorch checkpoint",
            "save the model as safetensors, or unpack the archive",
        ),
        (b"\x1f\x8b", "a gzip archive", "unpack it first"),
    ];
    let (_, found, remedy) = kinds
        .into_iter()
        .find(|(magic, ..)| first.starts_with(magic))?;
    Some(ConvertError::Foreign {
        path: path.to_owned(),
        found,
        remedy,
    })
}
