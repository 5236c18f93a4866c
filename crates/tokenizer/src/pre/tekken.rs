//! Tekken (Mistral): case-aware words without contractions, every number alone.

use super::{Name, PreTokenizer};
use crate::scan::O200k;

const WORDS: O200k = O200k {
    contractions: false,
    n_numbers: 1,
    ..O200k::GPT4O
};

pub(super) static PRE: PreTokenizer = PreTokenizer {
    names: &[Name::new("tekken").keep_spaces().ignore_merges().add_bos()],
    patterns: &[&[
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ]],
    stages: &[|text, sink| WORDS.split(text, sink)],
};
