//! GPT-4o: case-aware words that include combining marks, numbers by three.

use super::{Name, PreTokenizer};
use crate::scan::O200k;

pub(super) static PRE: PreTokenizer = PreTokenizer {
    names: &[
        Name::new("gpt-4o").keep_spaces(),
        Name::new("llama4").keep_spaces(),
        Name::new("kanana2").keep_spaces(),
        Name::new("talkie").keep_spaces(),
        Name::new("minimax-m2").keep_spaces(),
        Name::new("granite-embed-multi-97m")
            .ignore_merges()
            .keep_spaces(),
    ],
    patterns: &[&[
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ]],
    stages: &[|text, sink| O200k::GPT4O.split(text, sink)],
};
