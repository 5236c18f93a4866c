//! Llama 3: numbers by three, case-insensitive contractions; a word that is a token is taken whole.

use super::{Name, PreTokenizer};
use crate::scan::Cl100k;

pub(super) static PRE: PreTokenizer = PreTokenizer {
    names: &[
        Name::new("llama-bpe").ignore_merges().add_bos(),
        Name::new("llama3").ignore_merges().add_bos(),
        Name::new("llama-v3").ignore_merges().add_bos(),
        Name::new("falcon3").ignore_merges().add_bos(),
        Name::new("falcon-h1").ignore_merges().add_bos(),
        Name::new("pixtral").ignore_merges().add_bos(),
        Name::new("midm-2.0").ignore_merges().add_bos(),
        Name::new("lfm2").ignore_merges().add_bos(),
        Name::new("jina-v5-nano").ignore_merges().add_bos(),
    ],
    patterns: &[&[
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ]],
    stages: &[|text, sink| Cl100k::LLAMA3.split(text, sink)],
};
