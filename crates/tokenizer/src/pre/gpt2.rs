//! GPT-2: words, numbers and punctuation, each with at most one space before it.

use super::{Name, PreTokenizer};
use crate::scan::{GPT2_PATTERN, gpt2};

pub(super) static PRE: PreTokenizer = PreTokenizer {
    names: &[
        Name::new("gpt-2"),
        Name::new("phi-2"),
        Name::new("jina-es"),
        Name::new("jina-de"),
        Name::new("jina-v2-es").mask_strips_left(),
        Name::new("jina-v2-de").mask_strips_left(),
        Name::new("jina-v1-en"),
        Name::new("jina-v2-code").mask_strips_left(),
        Name::new("roberta-bpe"),
        Name::new("gigachat"),
        Name::new("a.x-4.0"),
        Name::new("mellum"),
        Name::new("modern-bert"),
        Name::new("exaone4"),
        Name::new("mpt"),
        Name::new("olmo"),
        Name::new("jais"),
        Name::new("trillion").keep_spaces(),
        Name::new("granite-docling").keep_spaces(),
    ],
    patterns: &[&[GPT2_PATTERN]],
    stages: &[gpt2],
};
