//! Falcon: runs of punctuation, then GPT-2, then digits by three.

use super::{Name, PreTokenizer};
use crate::scan::{GPT2_PATTERN, PUNCTUATION_PATTERN, gpt2, punctuation_runs, three_digits};

pub(super) static PRE: PreTokenizer = PreTokenizer {
    names: &[Name::new("falcon")],
    patterns: &[&[PUNCTUATION_PATTERN, GPT2_PATTERN, r"[0-9][0-9][0-9]"]],
    stages: &[punctuation_runs, gpt2, three_digits],
};
