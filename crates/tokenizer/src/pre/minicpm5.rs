//! MiniCPM 5: numbers by three first, then the words of Llama 3.

use super::{Name, PreTokenizer};
use crate::scan::{Cl100k, numbers_by_three};

pub(super) static PRE: PreTokenizer = PreTokenizer {
    names: &[Name::new("minicpm5").ignore_merges()],
    patterns: &[&[
        r"\p{N}{1,3}",
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ]],
    stages: &[numbers_by_three, |text, sink| {
        Cl100k::LLAMA3.split(text, sink)
    }],
};
