//! DeepSeek 3: numbers by three, CJK runs, then words and punctuation that may lead each other.

use super::{Name, PreTokenizer};
use crate::scan::{Sink, in_ranges, mixed_punctuation, numbers_by_three, runs_of};

/// CJK ideographs, Hiragana and Katakana.
static KANA_AND_CJK: &[(u32, u32)] = &[(0x3040, 0x309F), (0x30A0, 0x30FF), (0x4E00, 0x9FA5)];

pub(super) static PRE: PreTokenizer = PreTokenizer {
    names: &[
        Name::new("deepseek-v3").keep_spaces(),
        Name::new("hunyuan-dense").keep_spaces(),
        Name::new("joyai-llm").keep_spaces(),
        Name::new("hy_v4").keep_spaces(),
    ],
    patterns: &[
        &[
            r"\p{N}{1,3}",
            r"[一-龥぀-ゟ゠-ヿ]+",
            "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
        ],
        &[
            r"\p{N}{1,3}",
            r"[一-龥぀-ゟ゠-ヿ]+",
            "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
        ],
    ],
    stages: &[numbers_by_three, kana_and_cjk, mixed_punctuation],
};

fn kana_and_cjk(text: &[u8], sink: &mut Sink<'_>) {
    runs_of(text, sink, |c| in_ranges(KANA_AND_CJK, c.code));
}
