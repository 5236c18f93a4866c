//! StarCoder: every number alone, then GPT-2.

use super::{Name, PreTokenizer};
use crate::scan::{GPT2_PATTERN, gpt2, single_numbers};

pub(super) static PRE: PreTokenizer = PreTokenizer {
    names: &[
        Name::new("starcoder"),
        Name::new("refact"),
        Name::new("command-r").keep_spaces(),
        Name::new("smollm").keep_spaces(),
        Name::new("codeshell"),
        Name::new("exaone"),
        Name::new("minerva-7b"),
        Name::new("mellum2"),
    ],
    patterns: &[&[r"\p{N}", GPT2_PATTERN]],
    stages: &[single_numbers, gpt2],
};
