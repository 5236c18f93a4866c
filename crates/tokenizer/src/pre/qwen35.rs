//! Qwen 3.5: as Qwen 2, with combining marks inside words.

use super::{Name, PreTokenizer};
use crate::scan::Cl100k;

const WORDS: Cl100k = Cl100k {
    marks: true,
    ..Cl100k::QWEN2
};

pub(super) static PRE: PreTokenizer = PreTokenizer {
    names: &[Name::new("qwen35").keep_spaces()],
    patterns: &[&[
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ]],
    stages: &[|text, sink| WORDS.split(text, sink)],
};
