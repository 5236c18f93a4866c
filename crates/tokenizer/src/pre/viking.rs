//! Viking: the words of BLOOM, then every number alone.

use super::{Name, PreTokenizer};
use crate::scan::{sentence_words, single_numbers};

pub(super) static PRE: PreTokenizer = PreTokenizer {
    names: &[Name::new("viking").keep_spaces()],
    patterns: &[&[r" ?[^(\s|.,!?…。，、।۔،)]+", r"\p{N}"]],
    stages: &[sentence_words, single_numbers],
};
