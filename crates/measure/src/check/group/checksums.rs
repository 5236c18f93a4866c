//! Hashes: the files against a list that came with them.

use std::collections::HashMap;
use std::io::Read as _;
use std::path::Path;

use gristmill_gguf::sha256_of_file;

use super::Group;
use crate::MeasureError;
use crate::check::Progress;
use crate::check::finding::{Code, Findings, Place};
use crate::check::subject::Subject;

pub(crate) static GROUP: Group = Group {
    name: "checksums",
    about: "sizes and SHA-256 hashes against `checksums.sha256` or a manifest",
    codes: &[&MISMATCH, &SIZE, &UNLISTED, &MATCH],
    skip,
    run,
};

static MISMATCH: Code = Code::error(
    "hash-mismatch",
    "the file is not the one that the list was made for",
    "fetch it again; if its source gives this hash itself, the list is out of date",
);
static SIZE: Code = Code::error(
    "size-mismatch",
    "the file has another size than the list says",
    "the file is incomplete or another one; fetch it again",
);
static UNLISTED: Code = Code::warning(
    "hash-unlisted",
    "the list has no hash of the file",
    "give the list that came with this file; names in it must be those of the files",
);
static MATCH: Code = Code::note(
    "hash-match",
    "the file is the one that the list was made for",
    "",
);

fn skip(subject: &Subject) -> Option<&'static str> {
    if subject.options.checksums.is_none() {
        return Some("no list of hashes was given");
    }
    subject
        .options
        .quick
        .then_some("quick: tensor data is not touched")
}

fn run(subject: &Subject, findings: &mut Findings) -> Result<(), MeasureError> {
    let Some(list) = subject.options.checksums else {
        return Ok(());
    };
    let entries = read_list(list)?;
    let sizes = |path: &Path| std::fs::metadata(path).map_or(0, |about| about.len());
    let total = subject.files.iter().map(|file| sizes(&file.path)).sum();
    let mut done = 0;
    for examined in &subject.files {
        let path = &examined.path;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let Some(entry) = entries.get(name.as_ref()) else {
            let text = format!("{name} is not in {}", list.display());
            findings.add(&UNLISTED, Place::file(path), text);
            continue;
        };
        let size = sizes(path);
        if let Some(expected) = entry.bytes.filter(|&expected| expected != size) {
            let text = format!("{name} has {size} bytes, but the list says {expected}");
            findings.add(&SIZE, Place::file(path), text);
            continue;
        }
        let mut told = |n_bytes: u64| {
            done += n_bytes;
            (subject.options.progress)(Progress {
                stage: "hash",
                done,
                total,
            });
        };
        // A file that cannot be read is reported by the group `structure`.
        let Ok(found) = sha256_of_file(path, &mut told) else {
            continue;
        };
        if found == entry.sha256 {
            findings.add(&MATCH, Place::file(path), format!("sha256 {found}"));
        } else {
            let text = format!("sha256 is {found}, but the list says {}", entry.sha256);
            findings.add(&MISMATCH, Place::file(path), text);
        }
    }
    Ok(())
}

/// What a list says of a file.
#[derive(Debug, PartialEq, Eq)]
struct Entry {
    /// In lower case.
    sha256: String,
    bytes: Option<u64>,
}

/// The largest list that is read.
const LIST_BYTES_MAX: u64 = 64 << 20;

/// Entries by the name of the file, without its folder.
fn read_list(path: &Path) -> Result<HashMap<String, Entry>, MeasureError> {
    let io = |source| MeasureError::io(path, "read the list of hashes", source);
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(io)?;
    file.take(LIST_BYTES_MAX)
        .read_to_string(&mut text)
        .map_err(io)?;
    let entries = if text.trim_start().starts_with('{') {
        of_manifest(&text)
    } else {
        of_lines(&text)
    };
    entries.map_err(|reason| MeasureError::ChecksumList {
        path: path.to_owned(),
        reason,
    })
}

fn file_name(path: &str) -> String {
    path.rsplit(['/', '\\']).next().unwrap_or(path).to_owned()
}

fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// What `sha256sum` prints: the hash, two spaces or a space and a star, the name; with `--tag`: `SHA256 (NAME) = HASH`.
fn of_lines(text: &str) -> Result<HashMap<String, Entry>, String> {
    let mut entries = HashMap::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim_end();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let tagged = line
            .strip_prefix("SHA256 (")
            .and_then(|rest| rest.rsplit_once(") = "));
        let plain = || {
            let (hash, name) = line.split_once([' ', '\t'])?;
            Some((
                name.trim_start().trim_start_matches('*'),
                hash.trim_start_matches('\\'),
            ))
        };
        let found = tagged.or_else(plain).filter(|(_, hash)| is_sha256(hash));
        let Some((name, hash)) = found else {
            return Err(format!("line {} is no hash and name", index + 1));
        };
        let sha256 = hash.to_ascii_lowercase();
        entries.insert(
            file_name(name),
            Entry {
                sha256,
                bytes: None,
            },
        );
    }
    if entries.is_empty() {
        return Err("it has no entries".to_owned());
    }
    Ok(entries)
}

/// A manifest: at any depth, objects with a file's name and its `sha256`, or keys `X_file`, `X_sha256`, `X_bytes`.
fn of_manifest(text: &str) -> Result<HashMap<String, Entry>, String> {
    let json: serde_json::Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let mut entries = HashMap::new();
    let mut rest = vec![&json];
    while let Some(value) = rest.pop() {
        match value {
            serde_json::Value::Array(items) => rest.extend(items),
            serde_json::Value::Object(object) => {
                rest.extend(object.values());
                let text = |key: &str| object.get(key).and_then(serde_json::Value::as_str);
                let number = |key: &str| object.get(key).and_then(serde_json::Value::as_u64);
                for (key, hash) in object
                    .iter()
                    .filter_map(|(key, value)| Some((key, value.as_str()?)))
                {
                    let Some(stem) = key.strip_suffix("sha256").filter(|_| is_sha256(hash)) else {
                        continue;
                    };
                    let names = ["file", "name", "path", "filename"];
                    let name = names.iter().find_map(|name| text(&format!("{stem}{name}")));
                    let bytes = number(&format!("{stem}bytes")).or(number(&format!("{stem}size")));
                    if let Some(name) = name {
                        let sha256 = hash.to_ascii_lowercase();
                        entries.insert(file_name(name), Entry { sha256, bytes });
                    }
                }
            }
            _ => {}
        }
    }
    if entries.is_empty() {
        return Err("no file with its sha256 is in it".to_owned());
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_every_form_are_read() {
        let hash = "AB".repeat(32);
        let entry = |bytes| Entry {
            sha256: hash.to_ascii_lowercase(),
            bytes,
        };
        for list in [
            format!("{hash}  model.gguf\n"),
            format!("# made today\n\n{hash} *release/model.gguf\n"),
            format!("SHA256 (./model.gguf) = {hash}\n"),
        ] {
            assert_eq!(
                of_lines(&list).unwrap()["model.gguf"],
                entry(None),
                "{list}"
            );
        }
        for manifest in [
            format!(
                r#"{{"quant_file": "out/model.gguf", "quant_sha256": "{hash}", "quant_bytes": 7}}"#
            ),
            format!(r#"{{"files": [{{"name": "model.gguf", "sha256": "{hash}", "size": 7}}]}}"#),
        ] {
            assert_eq!(
                of_manifest(&manifest).unwrap()["model.gguf"],
                entry(Some(7)),
                "{manifest}"
            );
        }
        for bad in ["", "model.gguf\n", "abc  model.gguf\n"] {
            assert!(of_lines(bad).is_err(), "{bad:?}");
        }
        assert!(of_manifest("{}").is_err() && of_manifest("{").is_err());
    }
}
