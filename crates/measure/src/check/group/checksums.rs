//! Hashes: the files against a list that came with them.

use std::collections::HashMap;
use std::path::Path;

use gristmill_gguf::{FILE_SHA256, Manifest, sha256_of_file};

use super::Group;
use super::structure::without_path;
use crate::MeasureError;
use crate::check::Progress;
use crate::check::finding::{Code, Findings, Place};
use crate::check::subject::Subject;

pub(crate) static GROUP: Group = Group {
    name: "checksums",
    about: "sizes and SHA-256 hashes against `checksums.sha256` or a manifest",
    codes: &[&MISMATCH, &SIZE, &UNREADABLE, &UNLISTED, &MATCH],
    skip,
    run,
};

pub(crate) static MISMATCH: Code = Code::error(
    "hash-mismatch",
    "the file is not the one that the list was made for",
    "fetch it again; if its source gives this hash itself, the list is out of date",
);
pub(crate) static SIZE: Code = Code::error(
    "size-mismatch",
    "the file has another size than the list says",
    "the file is incomplete or another one; fetch it again",
);
static UNREADABLE: Code = Code::error(
    "hash-unreadable",
    "the system fails to read the file, so that it was not compared with the list",
    "check the file's permissions; a disk or network folder that fails loses more: copy the file elsewhere",
);
static UNLISTED: Code = Code::error(
    "hash-unlisted",
    "the list has no hash of the file",
    "give the list that came with this file; names in it must be those of the files",
);
pub(crate) static MATCH: Code = Code::note(
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
    let list = List::read(list)?;
    let sizes = |path: &Path| std::fs::metadata(path).map_or(0, |about| about.len());
    let total = subject.files.iter().map(|file| sizes(&file.path)).sum();
    let mut done = 0;
    for examined in &subject.files {
        let mut told = |n_bytes: u64| {
            done += n_bytes;
            (subject.options.progress)(Progress {
                stage: "hash",
                done,
                total,
            });
        };
        compare(&list, &examined.path, &mut told, findings);
    }
    Ok(())
}

/// Compares one file with the list.
fn compare(list: &List, path: &Path, told: &mut dyn FnMut(u64), findings: &mut Findings) {
    let (name, place) = (path.to_string_lossy(), Place::file(path));
    let Some(expected) = list.hashes.hash(FILE_SHA256, &name) else {
        let text = format!("{name} is not in {}", list.path.display());
        return findings.add(&UNLISTED, place, text);
    };
    let size = std::fs::metadata(path).map_or(0, |about| about.len());
    let listed = list
        .bytes
        .get(&(bare(&name), expected.to_ascii_lowercase()));
    if let Some(expected) = listed.filter(|&&expected| expected != size) {
        let text = format!("{name} has {size} bytes, but the list says {expected}");
        return findings.add(&SIZE, place, text);
    }
    match sha256_of_file(path, told) {
        Ok(found) if found.eq_ignore_ascii_case(expected) => {
            findings.add(&MATCH, place, format!("sha256 {found}"));
        }
        Ok(found) => {
            let text = format!("sha256 is {found}, but the list says {expected}");
            findings.add(&MISMATCH, place, text);
        }
        Err(error) => findings.add(&UNREADABLE, place, without_path(&error, path)),
    }
}

/// What a list says of files.
struct List<'a> {
    path: &'a Path,
    hashes: Manifest,
    /// Sizes that it gives, by name of the file, without its folder, and hash in lower case.
    bytes: HashMap<(String, String), u64>,
}

impl List<'_> {
    fn read(path: &Path) -> Result<List<'_>, MeasureError> {
        let text = Manifest::read_text(path)?;
        let (hashes, bytes) = match text.trim_start().starts_with('{') {
            true => of_json(&text).map_err(|reason| MeasureError::ChecksumList {
                path: path.to_owned(),
                reason,
            })?,
            false => (Manifest::of_text(&text, path)?, HashMap::new()),
        };
        if !hashes.has_files() {
            return Err(MeasureError::ChecksumList {
                path: path.to_owned(),
                reason: "no file with its SHA-256 is in it".to_owned(),
            });
        }
        Ok(List {
            path,
            hashes,
            bytes,
        })
    }
}

fn bare(path: &str) -> String {
    path.rsplit(['/', '\\']).next().unwrap_or(path).to_owned()
}

fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

type Sizes = HashMap<(String, String), u64>;

/// A manifest: at any depth, objects with a file's name and its `sha256`, or keys `X_file`, `X_sha256`, `X_bytes`.
fn of_json(text: &str) -> Result<(Manifest, Sizes), String> {
    let json: serde_json::Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let (mut files, mut sizes) = (Vec::new(), HashMap::new());
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
                    let Some(name) = name else { continue };
                    files.push((name, hash));
                    if let Some(bytes) = bytes {
                        sizes.insert((bare(name), hash.to_ascii_lowercase()), bytes);
                    }
                }
            }
            _ => {}
        }
    }
    let manifest = Manifest::of_files(files);
    match manifest.contradiction() {
        None => Ok((manifest, sizes)),
        Some((name, ..)) => Err(format!("it gives two hashes of {name:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<(Option<String>, Option<u64>), MeasureError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("list");
        std::fs::write(&path, text).unwrap();
        let list = List::read(&path)?;
        let hash = list.hashes.hash(FILE_SHA256, "model.gguf");
        let size = hash.and_then(|hash| {
            let key = ("model.gguf".to_owned(), hash.to_ascii_lowercase());
            list.bytes.get(&key).copied()
        });
        Ok((hash.map(str::to_owned), size))
    }

    #[test]
    fn lists_of_every_form_are_read() {
        let hash = "AB".repeat(32);
        for list in [
            format!("{hash}  model.gguf\n"),
            format!("# made today\n\n{hash} *release/model.gguf\n"),
            format!("SHA256 (./model.gguf) = {hash}\n"),
            // As `gristmill hash` prints it.
            format!("sha256    {hash}  model.gguf:w\nfile-sha256  {hash}  model.gguf\n"),
        ] {
            assert_eq!(read(&list).unwrap(), (Some(hash.clone()), None), "{list}");
        }
        for manifest in [
            format!(
                r#"{{"quant_file": "out/model.gguf", "quant_sha256": "{hash}", "quant_bytes": 7}}"#
            ),
            format!(r#"{{"files": [{{"name": "model.gguf", "sha256": "{hash}", "size": 7}}]}}"#),
        ] {
            let expected = (Some(hash.clone()), Some(7));
            assert_eq!(read(&manifest).unwrap(), expected, "{manifest}");
        }
        for bad in ["", "model.gguf\n", "abc  model.gguf\n", "{}", "{"] {
            assert!(read(bad).is_err(), "{bad:?}");
        }
    }
}
