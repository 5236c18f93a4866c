//! Files that values come from.

use std::fs;
use std::io::{self, Read as _};
use std::path::Path;

use anyhow::{Context as _, anyhow, bail};
use gristmill_gguf::limits;

use crate::failure::Hint;

/// The bytes of a file, which can be no more than a value may have; a device would never end.
pub fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    let cannot = || format!("{}: cannot read the file", path.display());
    let about = match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let hint = "check the path; it is taken from the folder that the command runs in";
            return Err(anyhow!("{}: no such file", path.display()).context(Hint::new(hint)));
        }
        about => about.with_context(cannot)?,
    };
    if !about.is_file() {
        let hint = "name a file on a disk; what another command writes goes into one first";
        return Err(anyhow!("{}: is no regular file", path.display()).context(Hint::new(hint)));
    }
    let file = fs::File::open(path).with_context(cannot)?;
    let mut bytes = Vec::new();
    let limit = limits::STRING_BYTES;
    let n_read = file.take(limit + 1).read_to_end(&mut bytes);
    if n_read.with_context(cannot)? as u64 > limit {
        bail!(
            "{}: has more than the {limit} bytes that a value may have",
            path.display()
        );
    }
    Ok(bytes)
}

/// The text of a file, byte for byte.
pub fn read_utf8(path: &Path) -> anyhow::Result<String> {
    String::from_utf8(read(path)?).map_err(|error| {
        let (path, place) = (path.display(), error.utf8_error().valid_up_to());
        anyhow!("{path}: is no UTF-8 text from byte {place} on").context(Hint::new(
            "strings of a GGUF file are UTF-8; save the text as that",
        ))
    })
}

/// The text of a file.
pub fn read_text(path: &Path) -> anyhow::Result<String> {
    let text = read_utf8(path)?;
    // Some editors put a mark in front; it is no part of the text.
    Ok(match text.strip_prefix('\u{feff}') {
        Some(rest) => rest.to_owned(),
        None => text,
    })
}
