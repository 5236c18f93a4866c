//! What a check finds: a code, a place, words, and a remedy.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::Serialize;

/// Findings of one code that are listed; more are counted.
const LISTED: usize = 10;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing; nothing is wrong.
    Note,
    /// The file works, but not everywhere or not as well as it should.
    Warning,
    /// The file is damaged, or contradicts itself.
    Error,
}

impl Severity {
    /// The severity in one word, as in a message.
    pub fn name(self) -> &'static str {
        match self {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Error => "error",
        }
    }
}

/// One thing that a check can find. Codes are stable: scripts may go by them.
#[derive(Debug, PartialEq, Eq)]
pub struct Code {
    /// The name, unique among all checks.
    pub name: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// What it means, in a few words.
    pub about: &'static str,
    /// What to do about it; empty where nothing is to be done.
    pub remedy: &'static str,
}

impl Code {
    /// A code whose findings are errors.
    pub(crate) const fn error(
        name: &'static str,
        about: &'static str,
        remedy: &'static str,
    ) -> Code {
        Code {
            name,
            severity: Severity::Error,
            about,
            remedy,
        }
    }

    /// A code whose findings are warnings.
    pub(crate) const fn warning(
        name: &'static str,
        about: &'static str,
        remedy: &'static str,
    ) -> Code {
        Code {
            name,
            severity: Severity::Warning,
            about,
            remedy,
        }
    }

    /// A code whose findings are notes.
    pub(crate) const fn note(
        name: &'static str,
        about: &'static str,
        remedy: &'static str,
    ) -> Code {
        Code {
            name,
            severity: Severity::Note,
            about,
            remedy,
        }
    }

    /// A finding of this code.
    pub(crate) fn find(&self, place: Place, text: impl Into<String>) -> Finding {
        Finding {
            code: self.name,
            severity: self.severity,
            place,
            text: text.into(),
            remedy: self.remedy.to_owned(),
        }
    }
}

/// Where something was found; what does not apply is absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Place {
    /// The file, where a set has several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
    /// The metadata key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The element of the key's array, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index: Option<u64>,
    /// The tensor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tensor: Option<String>,
    /// Bytes from the start of the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// The line of the chat template, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
}

impl Place {
    /// The model as a whole.
    pub(crate) fn whole() -> Place {
        Place::default()
    }

    pub(crate) fn file(path: &Path) -> Place {
        Place {
            file: Some(path.to_owned()),
            ..Place::default()
        }
    }

    pub(crate) fn key(key: impl Into<String>) -> Place {
        Place {
            key: Some(key.into()),
            ..Place::default()
        }
    }

    pub(crate) fn tensor(name: impl Into<String>) -> Place {
        Place {
            tensor: Some(name.into()),
            ..Place::default()
        }
    }

    pub(crate) fn at_index(self, index: usize) -> Place {
        Place {
            index: Some(index as u64),
            ..self
        }
    }

    pub(crate) fn at_byte(self, offset: u64) -> Place {
        Place {
            offset: Some(offset),
            ..self
        }
    }

    pub(crate) fn at_line(self, line: usize) -> Place {
        Place {
            line: Some(line).filter(|&line| line > 0),
            ..self
        }
    }

    pub(crate) fn in_file(self, path: &Path) -> Place {
        Place {
            file: Some(path.to_owned()),
            ..self
        }
    }
}

/// `key tokenizer.ggml.tokens[3]`, `tensor output.weight, byte 960`; the file is left to the reader, who may know it.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if let Some(key) = &self.key {
            let index = self.index.map(|index| format!("[{index}]"));
            parts.push(format!("{key}{}", index.unwrap_or_default()));
        }
        parts.extend(self.tensor.as_ref().map(|name| format!("tensor {name}")));
        parts.extend(self.line.map(|line| format!("line {line}")));
        parts.extend(self.offset.map(|offset| format!("byte {offset}")));
        f.write_str(&parts.join(", "))
    }
}

/// Something that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The name of its code.
    pub code: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// Where it is.
    pub place: Place,
    /// What was found, in words. Text of the file in it may hold any character.
    pub text: String,
    /// What to do about it; empty where nothing is to be done.
    pub remedy: String,
}

impl Finding {
    /// The same finding with a remedy that knows more of the case.
    pub(crate) fn with_remedy(self, remedy: impl Into<String>) -> Finding {
        Finding {
            remedy: remedy.into(),
            ..self
        }
    }
}

/// Characters of a text: words of the file in it may have megabytes.
const TEXT_CHARS: usize = 1000;

/// Keeps the start of a text.
pub(crate) fn cut(text: &mut String) {
    if let Some((end, _)) = text.char_indices().nth(TEXT_CHARS) {
        let n_bytes = text.len();
        text.truncate(end);
        text.push_str(&format!("… ({n_bytes} bytes)"));
    }
}

/// Takes findings; of each code only the first are kept, so that a hostile file cannot make the list long.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) list: Vec<Finding>,
    counts: HashMap<&'static str, usize>,
}

impl Findings {
    pub(crate) fn push(&mut self, mut finding: Finding) {
        cut(&mut finding.text);
        finding.place.key.as_mut().map(cut);
        finding.place.tensor.as_mut().map(cut);
        let count = self.counts.entry(finding.code).or_default();
        *count += 1;
        if *count <= LISTED {
            self.list.push(finding);
        }
    }

    /// Adds a finding of a code.
    pub(crate) fn add(&mut self, code: &'static Code, place: Place, text: impl Into<String>) {
        self.push(code.find(place, text));
    }

    /// Whether something was found under this code.
    pub(crate) fn has(&self, code: &Code) -> bool {
        self.counts.contains_key(code.name)
    }

    /// How many findings of each code are counted but not listed, by code.
    pub(crate) fn unlisted(&self) -> Vec<(&'static str, usize)> {
        let more = |(&code, &count): (&&'static str, &usize)| {
            let n = count.saturating_sub(LISTED);
            (n > 0).then_some((code, n))
        };
        let mut unlisted: Vec<_> = self.counts.iter().filter_map(more).collect();
        unlisted.sort_unstable();
        unlisted
    }
}
