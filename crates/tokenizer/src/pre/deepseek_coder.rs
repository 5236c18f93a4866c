//! DeepSeek Coder: line breaks, letters, punctuation, CJK and single numbers, one after another.

use super::{Name, PreTokenizer};
use crate::scan::{CJK_PATTERN, cjk_runs, single_line_breaks, single_numbers, spaced_runs};
use crate::unicode::{LETTER, PUNCTUATION};

pub(super) static PRE: PreTokenizer = PreTokenizer {
    names: &[Name::new("deepseek-coder").keep_spaces()],
    patterns: &[&["[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", CJK_PATTERN, r"\p{N}"]],
    stages: &[
        single_line_breaks,
        |text, sink| spaced_runs(text, sink, |c| c.is(LETTER)),
        |text, sink| spaced_runs(text, sink, |c| c.is(PUNCTUATION)),
        cjk_runs,
        single_numbers,
    ],
};
