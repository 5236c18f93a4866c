//! Bailing MoE: another spelling of the words of Qwen 2.

use super::{Name, PreTokenizer};
use crate::scan::Cl100k;

pub(super) static PRE: PreTokenizer = PreTokenizer {
    names: &[
        Name::new("bailingmoe").keep_spaces(),
        Name::new("bailingmoe2").keep_spaces(),
        Name::new("llada-moe").keep_spaces(),
    ],
    patterns: &[&[
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+",
    ]],
    stages: &[|text, sink| Cl100k::QWEN2.split(text, sink)],
};
