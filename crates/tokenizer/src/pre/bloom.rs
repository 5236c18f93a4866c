//! BLOOM: words end at white space and sentence punctuation.

use super::{Name, PreTokenizer};
use crate::scan::sentence_words;

pub(super) static PRE: PreTokenizer = PreTokenizer {
    names: &[
        Name::new("bloom"),
        Name::new("poro-chat").keep_spaces(),
        Name::new("gpt3-finnish"),
    ],
    patterns: &[&[r" ?[^(\s|.,!?…。，、।۔،)]+"]],
    stages: &[sentence_words],
};
