//! The words of Llama 3 without a default beginning token.

use super::{Name, PreTokenizer};
use crate::scan::Cl100k;

pub(super) static PRE: PreTokenizer = PreTokenizer {
    names: &[
        Name::new("chatglm-bpe").no_default_bos(),
        Name::new("glm4").no_default_bos().ignore_merges(),
        Name::new("glm5").no_default_bos().ignore_merges(),
    ],
    patterns: &[],
    stages: &[|text, sink| Cl100k::LLAMA3.split(text, sink)],
};
