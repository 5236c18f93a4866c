//! Laguna: lines first, then the words of Qwen 2.

use super::{Name, PreTokenizer};
use crate::scan::{Cl100k, lines};

pub(super) static PRE: PreTokenizer = PreTokenizer {
    names: &[Name::new("laguna").keep_spaces()],
    patterns: &[&[
        r"[^\n]+|[\n]+",
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ]],
    stages: &[lines, |text, sink| Cl100k::QWEN2.split(text, sink)],
};
