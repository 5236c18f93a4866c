//! Tiny Aya: numbers by three from the right, then the words of GPT-4o.

use super::{Name, PreTokenizer};
use crate::scan::{O200k, numbers_by_three_from_right};

pub(super) static PRE: PreTokenizer = PreTokenizer {
    names: &[
        Name::new("tiny_aya").keep_spaces(),
        Name::new("cohere2moe").keep_spaces(),
    ],
    patterns: &[&[
        r"\d{1,3}(?=(?:\d{3})*\b)",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ]],
    stages: &[numbers_by_three_from_right, |text, sink| {
        O200k::GPT4O.split(text, sink)
    }],
};
