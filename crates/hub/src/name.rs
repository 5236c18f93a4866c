//! Names on the hub, and which of them may become names on this disk.

use std::fmt;
use std::str::FromStr;

use crate::error::HubError;

/// `user/repository`, with `:QUANTIZATION` behind it where one is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelName {
    /// `user/repository`.
    pub repo: String,
    /// What stands behind the colon.
    pub quantization: Option<String>,
}

impl FromStr for ModelName {
    type Err = HubError;

    fn from_str(name: &str) -> Result<Self, HubError> {
        let wrong = |reason| HubError::BadName {
            name: name.to_owned(),
            reason,
        };
        let (repo, quantization) = match name.split_once(':') {
            Some((repo, quantization)) => (repo, Some(quantization)),
            None => (name, None),
        };
        let Some((user, rest)) = repo.split_once('/') else {
            return Err(wrong("it has no slash between user and repository"));
        };
        if rest.contains('/') {
            return Err(wrong("it has more than one slash"));
        }
        // The hub's own rule, which lets nothing steer an address or a path.
        let sound = |part: &str| {
            let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
            let edge = |c: Option<char>| c.is_some_and(|c| !matches!(c, '-' | '.'));
            part.len() <= 96
                && part.chars().all(plain)
                && edge(part.chars().next())
                && edge(part.chars().next_back())
                && !part.contains("..")
                && !part.contains("--")
        };
        if !(sound(user) && sound(rest)) {
            return Err(wrong(
                "user and repository are letters, digits, and single '-', '_' and '.' between them",
            ));
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        match quantization {
            Some(text) if text.is_empty() || !text.chars().all(plain) => {
                Err(wrong("behind the colon stands no quantization"))
            }
            quantization => Ok(ModelName {
                repo: repo.to_owned(),
                quantization: quantization.map(str::to_owned),
            }),
        }
    }
}

impl fmt::Display for ModelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.quantization {
            Some(quantization) => write!(f, "{}:{quantization}", self.repo),
            None => f.write_str(&self.repo),
        }
    }
}

/// Whether a path of a repository stays below the folder that it is put in, on every system.
pub(crate) fn is_safe_path(path: &str) -> bool {
    let safe = |part: &str| {
        !part.is_empty()
            && part.trim_end_matches(['.', ' ']).len() == part.len()
            && part.len() <= 255
            && !part.chars().any(|c| {
                c.is_control() || matches!(c, '\\' | ':' | '<' | '>' | '"' | '|' | '?' | '*')
            })
    };
    path.len() <= 1024 && path.split('/').all(safe)
}

/// Whether a branch, tag or commit can be part of an address and of a path.
pub(crate) fn is_revision(revision: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/' | '+');
    is_safe_path(revision) && revision.chars().all(plain)
}

/// Whether it is a hash of so many hexadecimal digits.
pub(crate) fn is_hex(text: &str, n_digits: usize) -> bool {
    text.len() == n_digits && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// A path of a repository as part of an address.
pub(crate) fn encoded(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b'/' => {
                out.push(byte.into());
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_user_repository_and_quantization() {
        let name: ModelName = "ggml-org/gemma-3_1b.it-GGUF:q8_0".parse().unwrap();
        assert_eq!(name.repo, "ggml-org/gemma-3_1b.it-GGUF");
        assert_eq!(name.quantization.as_deref(), Some("q8_0"));
        assert_eq!(name.to_string(), "ggml-org/gemma-3_1b.it-GGUF:q8_0");
        for wrong in [
            "", "a", "/b", "a/", "a/b/c", "../b", "a/..", "a/b:", "a/b:q/4", "a/.b", "a b/c",
            "a/b--c",
        ] {
            assert!(wrong.parse::<ModelName>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn paths_stay_in_their_folder() {
        for safe in ["a.gguf", "Q4/a b.gguf", "ü/模型.gguf", "a..b"] {
            assert!(is_safe_path(safe), "{safe}");
        }
        for unsafe_path in [
            "", "/a", "../a", "a/../b", "a//b", "./a", "a\\b", "c:a", "a\0b", "a\n", "a/", "a.",
            "..",
        ] {
            assert!(!is_safe_path(unsafe_path), "{unsafe_path:?}");
        }
        assert!(is_revision("refs/pr/1") && is_revision("v1.0"));
        assert!(!is_revision("../main") && !is_revision("a?b") && !is_revision(""));
        assert_eq!(encoded("a b/ü#.gguf"), "a%20b/%C3%BC%23.gguf");
    }
}
