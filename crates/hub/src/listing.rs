//! What a repository holds: every file with its size and the hash that the hub states.

use serde::Deserialize;
use sha1::Digest as _;

use crate::Result;
use crate::error::HubError;
use crate::name::is_hex;

/// A repository at one commit.
#[derive(Clone, Debug)]
pub(crate) struct Listing {
    /// The commit, 40 digits.
    pub commit: String,
    /// Its files, in the hub's order.
    pub files: Vec<RemoteFile>,
}

/// A file of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteFile {
    /// Its path in the repository.
    pub path: String,
    /// Its size.
    pub bytes: u64,
    /// The hash that it must have.
    pub digest: Digest,
}

/// A hash of a file, in lower case. The cache names files by it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Digest {
    /// SHA-256 of the bytes, of a large file.
    Sha256(String),
    /// The name of git's object, of a small one: SHA-1 of `blob`, the length and the bytes.
    GitBlob(String),
}

impl Digest {
    /// The digits.
    pub fn hex(&self) -> &str {
        match self {
            Digest::Sha256(hex) | Digest::GitBlob(hex) => hex,
        }
    }

    /// What it is, for people.
    pub fn kind(&self) -> &'static str {
        match self {
            Digest::Sha256(_) => "SHA-256",
            Digest::GitBlob(_) => "git hash",
        }
    }

    /// A hash of this kind over a file of so many bytes, which are fed to it next.
    pub(crate) fn start(&self, bytes: u64) -> Hasher {
        match self {
            Digest::Sha256(_) => Hasher::Sha256(sha2::Sha256::new()),
            Digest::GitBlob(_) => {
                Hasher::GitBlob(sha1::Sha1::new().chain_update(format!("blob {bytes}\0")))
            }
        }
    }
}

/// A hash that is being worked out.
pub(crate) enum Hasher {
    Sha256(sha2::Sha256),
    GitBlob(sha1::Sha1),
}

impl Hasher {
    pub fn update(&mut self, bytes: &[u8]) {
        match self {
            Hasher::Sha256(hasher) => hasher.update(bytes),
            Hasher::GitBlob(hasher) => hasher.update(bytes),
        }
    }

    /// The digits of the result.
    pub fn finish(self) -> String {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        match self {
            Hasher::Sha256(hasher) => hex(&hasher.finalize()),
            Hasher::GitBlob(hasher) => hex(&hasher.finalize()),
        }
    }
}

/// The hub's own description, as far as it is read.
#[derive(Deserialize)]
struct Described {
    sha: String,
    siblings: Vec<Sibling>,
}

#[derive(Deserialize)]
struct Sibling {
    rfilename: String,
    size: Option<u64>,
    #[serde(rename = "blobId")]
    blob_id: Option<String>,
    lfs: Option<Lfs>,
}

#[derive(Deserialize)]
struct Lfs {
    sha256: String,
    size: Option<u64>,
}

impl Listing {
    /// Reads the hub's description of a repository. Files of which it states no size or no hash are left out.
    ///
    /// # Errors
    /// `Listing`.
    pub fn parse(repo: &str, text: &[u8]) -> Result<Listing> {
        let wrong = |reason: String| HubError::Listing {
            repo: repo.to_owned(),
            reason,
        };
        let described: Described =
            serde_json::from_slice(text).map_err(|error| wrong(error.to_string()))?;
        if !is_hex(&described.sha, 40) {
            return Err(wrong("it names no commit".to_owned()));
        }
        let files = described.siblings.into_iter().filter_map(Sibling::file);
        Ok(Listing {
            commit: described.sha.to_ascii_lowercase(),
            files: files.collect(),
        })
    }
}

impl Sibling {
    fn file(self) -> Option<RemoteFile> {
        let (digest, bytes) = match (self.lfs, self.blob_id) {
            (Some(lfs), _) => {
                let hex = Some(lfs.sha256).filter(|hex| is_hex(hex, 64))?;
                (
                    Digest::Sha256(hex.to_ascii_lowercase()),
                    lfs.size.or(self.size)?,
                )
            }
            (None, blob) => {
                let hex = blob.filter(|hex| is_hex(hex, 40))?;
                (Digest::GitBlob(hex.to_ascii_lowercase()), self.size?)
            }
        };
        Some(RemoteFile {
            path: self.rfilename,
            bytes,
            digest,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `printf 'hello' | git hash-object --stdin` and `printf 'hello' | sha256sum`.
    #[test]
    fn hashes_are_those_of_git_and_sha256sum() {
        let of = |digest: Digest| {
            let mut hasher = digest.start(5);
            hasher.update(b"hel");
            hasher.update(b"lo");
            hasher.finish()
        };
        assert_eq!(
            of(Digest::GitBlob(String::new())),
            "b6fc4c620b67d95f953a5c1c1230aaab5db5a1b0"
        );
        assert_eq!(
            of(Digest::Sha256(String::new())),
            "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
        );
    }

    #[test]
    fn a_description_without_a_commit_is_refused() {
        let parse = |text: &str| Listing::parse("a/b", text.as_bytes());
        assert!(parse("<html>").is_err());
        assert!(parse(r#"{"sha": "../..", "siblings": []}"#).is_err());
        let commit = "0".repeat(40);
        let text = format!(
            r#"{{"sha": "{commit}", "siblings": [{{"rfilename": "a", "size": 1, "blobId": "x/../y"}}, {{"rfilename": "b"}}]}}"#
        );
        assert!(parse(&text).unwrap().files.is_empty());
    }
}
