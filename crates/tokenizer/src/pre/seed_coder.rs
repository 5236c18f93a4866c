//! Seed Coder: as Qwen 2, with no line break in punctuation.

use super::{Name, PreTokenizer};
use crate::scan::Cl100k;

const WORDS: Cl100k = Cl100k {
    line_breaks_after_punctuation: false,
    ..Cl100k::QWEN2
};

pub(super) static PRE: PreTokenizer = PreTokenizer {
    names: &[Name::new("seed-coder").keep_spaces()],
    patterns: &[&[
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+",
    ]],
    stages: &[|text, sink| WORDS.split(text, sink)],
};
