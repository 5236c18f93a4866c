//! What a file without `tokenizer.ggml.pre` gets: a cut that suits no model exactly.

use super::{Name, PreTokenizer};
use crate::scan::{gpt2, number_runs, punctuation_runs_but_backtick, three_digits};

pub(super) static PRE: PreTokenizer = PreTokenizer {
    names: &[Name::new("default")],
    patterns: &[],
    stages: &[
        punctuation_runs_but_backtick,
        gpt2,
        number_runs,
        three_digits,
    ],
};
