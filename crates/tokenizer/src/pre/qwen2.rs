//! Qwen 2: as Llama 3, but every number stands alone.

use super::{Name, PreTokenizer};
use crate::scan::Cl100k;

pub(super) static PRE: PreTokenizer = PreTokenizer {
    names: &[
        Name::new("qwen2").keep_spaces(),
        Name::new("deepseek-r1-qwen").keep_spaces(),
        Name::new("kormo").keep_spaces(),
        Name::new("f2llmv2").keep_spaces(),
        Name::new("megrez"),
        Name::new("stablelm2"),
        Name::new("hunyuan").keep_spaces(),
        Name::new("solar-open").keep_spaces(),
    ],
    patterns: &[&[
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ]],
    stages: &[|text, sink| Cl100k::QWEN2.split(text, sink)],
};
