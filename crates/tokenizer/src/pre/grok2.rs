//! Grok 2: the words of Qwen 2.

use super::{Name, PreTokenizer};
use crate::scan::Cl100k;

pub(super) static PRE: PreTokenizer = PreTokenizer {
    names: &[Name::new("grok-2").keep_spaces()],
    patterns: &[],
    stages: &[|text, sink| Cl100k::QWEN2.split(text, sink)],
};
