//! Ufakzeka: as Qwen 2 without contractions, so that Turkish suffixes stay attached.

use super::{Name, PreTokenizer};
use crate::scan::Cl100k;

const WORDS: Cl100k = Cl100k {
    contractions: false,
    ..Cl100k::QWEN2
};

pub(super) static PRE: PreTokenizer = PreTokenizer {
    names: &[Name::new("ufakzeka").keep_spaces()],
    patterns: &[&[
        r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ]],
    stages: &[|text, sink| WORDS.split(text, sink)],
};
