//! Kimi K2: as GPT-4o, with runs of Han characters apart.

use super::{Name, PreTokenizer};
use crate::scan::{O200k, in_ranges};

/// CJK ideographs with their extensions A to F, and the compatibility ideographs.
static HAN: &[(u32, u32)] = &[
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x2_0000, 0x2_A6DF),
    (0x2_A700, 0x2_EBEF),
    (0x2_F800, 0x2_FA1F),
];

const WORDS: O200k = O200k {
    slashes: false,
    apart: |code| in_ranges(HAN, code),
    ..O200k::GPT4O
};

pub(super) static PRE: PreTokenizer = PreTokenizer {
    names: &[Name::new("kimi-k2").keep_spaces().merges_optional()],
    patterns: &[&[
        r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ]],
    stages: &[|text, sink| WORDS.split(text, sink)],
};
