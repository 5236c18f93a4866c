//! Lists of hashes, as this crate, the reference and `sha256sum` write them.

use std::path::Path;

use super::HashKind;
use crate::error::{Error, Result};

/// The most bytes of a list: a line for each of a million tensors.
const BYTES_MAX: u64 = 256 << 20;
/// The name of a whole file's SHA-256 in our lists; other tools pass over it.
pub const FILE_SHA256: &str = "file-sha256";

/// A list of hashes.
#[derive(Clone, Debug, Default)]
pub struct Manifest {
    lines: Vec<Line>,
}

#[derive(Clone, Debug)]
struct Line {
    kind: String,
    hash: String,
    name: String,
}

/// What a list says of a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is the one in the list.
    Equal,
    /// The list has another one.
    Different,
    /// The list has none.
    Absent,
}

impl Manifest {
    /// Reads a list: lines of kind, hash and name, or of SHA-256 and file name.
    ///
    /// # Errors
    /// What the system says, [`Error::NoManifest`] for a file that holds nothing of the kind.
    pub fn read(path: &Path) -> Result<Manifest> {
        let no_manifest = || Error::NoManifest {
            path: path.to_owned(),
        };
        let about = std::fs::metadata(path).map_err(|source| Error::io(path, "read", source))?;
        if about.len() > BYTES_MAX {
            return Err(no_manifest());
        }
        let bytes = std::fs::read(path).map_err(|source| Error::io(path, "read", source))?;
        let manifest = Manifest::parse(&String::from_utf8_lossy(&bytes));
        if manifest.lines.is_empty() {
            return Err(no_manifest());
        }
        Ok(manifest)
    }

    /// The lines of a text that are hashes; others are passed over.
    pub fn parse(text: &str) -> Manifest {
        Manifest {
            lines: text.lines().filter_map(line).collect(),
        }
    }

    /// Whether there is a hash of this kind.
    pub fn has(&self, kind: HashKind) -> bool {
        self.lines.iter().any(|line| line.kind == kind.name())
    }

    /// Whether there is a hash of a whole file.
    pub fn has_files(&self) -> bool {
        self.lines.iter().any(|line| line.kind == FILE_SHA256)
    }

    /// What the list says of a hash; `kind` is [`HashKind::name`] or [`FILE_SHA256`]. A name is looked for as it is,
    /// and then without its folder, since a list often lies beside its files.
    pub fn outcome(&self, kind: &str, name: &str, hash: &str) -> Outcome {
        let of_kind = || self.lines.iter().filter(|line| line.kind == kind);
        let exact = of_kind().find(|line| line.name == name);
        let found = exact.or_else(|| of_kind().find(|line| bare(&line.name) == bare(name)));
        match found {
            None => Outcome::Absent,
            Some(line) if line.hash.eq_ignore_ascii_case(hash) => Outcome::Equal,
            Some(_) => Outcome::Different,
        }
    }
}

/// A name without the folder of its file. Names of tensors, behind a colon, stay whole.
fn bare(name: &str) -> &str {
    let (file, _) = name.split_once(".gguf:").unwrap_or((name, ""));
    let folder = file.rfind(['/', '\\']).map_or(0, |slash| slash + 1);
    &name[folder..]
}

fn line(text: &str) -> Option<Line> {
    let (first, rest) = text.trim().split_once(char::is_whitespace)?;
    let owned = |kind: &str, hash: &str, name: &str| {
        Some(Line {
            kind: kind.to_owned(),
            hash: hash.to_owned(),
            name: name.to_owned(),
        })
    };
    if first.len() == 64 && first.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        // `sha256sum` puts a star before the name of a file that it read as binary.
        let name = rest.trim_start();
        return owned(FILE_SHA256, first, name.strip_prefix('*').unwrap_or(name));
    }
    if first != FILE_SHA256 && HashKind::from_name(first).is_none() {
        return None;
    }
    let (hash, name) = rest.trim_start().split_once(char::is_whitespace)?;
    owned(first, hash, name.trim_start())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_three_tools_are_read() {
        let hash = "ab".repeat(32);
        let text = format!(
            "# words\nsha256    {hash}  dir/a.gguf:blk.0/x\nxxh64     15fb1e2f45746371  a b.gguf\n{hash}  *c.gguf\n{hash}  d.gguf\nmd5 00 e.gguf\n"
        );
        let manifest = Manifest::parse(&text);
        assert_eq!(manifest.lines.len(), 4);
        assert!(manifest.has(HashKind::Xxh64) && manifest.has_files());
        assert!(!manifest.has(HashKind::Uuid));
        let outcome = |kind, name, hash: &str| manifest.outcome(kind, name, hash);
        assert_eq!(
            outcome("sha256", "a.gguf:blk.0/x", &hash.to_uppercase()),
            Outcome::Equal
        );
        assert_eq!(
            outcome("xxh64", "/m/a b.gguf", "15fb1e2f45746372"),
            Outcome::Different
        );
        assert_eq!(outcome(FILE_SHA256, "c.gguf", &hash), Outcome::Equal);
        assert_eq!(outcome("sha256", "c.gguf", &hash), Outcome::Absent);
    }
}
