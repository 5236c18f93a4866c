//! DeepSeek LLM: line breaks, words of cased scripts, punctuation, CJK and numbers, one after another.

use super::{Name, PreTokenizer};
use crate::scan::{
    CJK_PATTERN, Sink, cjk_runs, in_ranges, number_runs, single_line_breaks, spaced_runs,
};
use crate::unicode::{SPACE, skip_in, skip_out};

const LINE_BREAK: &str = "[\r\n]";
const WORD: &str = r"\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+";
const PUNCTUATION: &str = r"\s?[!-/:-~！-／：-～‘-‟　-。]+";
const SPACES_AT_END: &str = r"\s+$";

/// Letters of scripts with upper and lower case.
static LETTERS: &[(u32, u32)] = &[
    (0x0041, 0x005A),
    (0x0061, 0x007A),
    (0x00B5, 0x00B5),
    (0x00C0, 0x00D6),
    (0x00D8, 0x00F6),
    (0x00F8, 0x01BA),
    (0x01BC, 0x01BF),
    (0x01C4, 0x0293),
    (0x0295, 0x02AF),
    (0x0370, 0x0373),
    (0x0376, 0x0376),
    (0x0377, 0x0377),
    (0x037B, 0x037D),
    (0x037F, 0x037F),
    (0x0386, 0x0386),
    (0x0388, 0x038A),
    (0x038C, 0x038C),
    (0x038E, 0x03A1),
    (0x03A3, 0x03F5),
    (0x03F7, 0x0481),
    (0x048A, 0x052F),
    (0x0531, 0x0556),
    (0x10A0, 0x10C5),
    (0x13A0, 0x13F5),
    (0x13F8, 0x13FD),
    (0x1C90, 0x1CBA),
    (0x1CBD, 0x1CBF),
    (0x1D00, 0x1D2B),
    (0x1D6B, 0x1D77),
    (0x1D79, 0x1D9A),
    (0x1E00, 0x1F15),
    (0x1F18, 0x1F1D),
    (0x1F20, 0x1F45),
    (0x1F48, 0x1F4D),
    (0x1F50, 0x1F57),
    (0x1F59, 0x1F59),
    (0x1F5B, 0x1F5B),
    (0x1F5D, 0x1F5D),
    (0x1F5F, 0x1F7D),
    (0x1F80, 0x1FB4),
    (0x1FB6, 0x1FBC),
    (0x1FBE, 0x1FBE),
    (0x1FC2, 0x1FC4),
    (0x1FC6, 0x1FCC),
    (0x1FD0, 0x1FD3),
    (0x1FD6, 0x1FDB),
    (0x1FE0, 0x1FEC),
    (0x1FF2, 0x1FF4),
    (0x1FF6, 0x1FFC),
    (0x2102, 0x2102),
    (0x2107, 0x2107),
    (0x210A, 0x2113),
    (0x2115, 0x2115),
    (0x2119, 0x211D),
    (0x2124, 0x2124),
    (0x2126, 0x2126),
    (0x2128, 0x2128),
    (0x212A, 0x212D),
    (0x212F, 0x2134),
    (0x2139, 0x2139),
    (0x213C, 0x213F),
    (0x2145, 0x2149),
    (0x214E, 0x214E),
    (0x2183, 0x2183),
    (0x2184, 0x2184),
    (0x2C00, 0x2C7B),
    (0x2C7E, 0x2CE4),
    (0x2CEB, 0x2CEE),
    (0x2CF2, 0x2CF2),
    (0x2CF3, 0x2CF3),
    (0xA640, 0xA66D),
    (0xA680, 0xA69B),
    (0xA722, 0xA76F),
    (0xA771, 0xA787),
    (0xA78B, 0xA78E),
    (0xAB70, 0xABBF),
    (0xFB00, 0xFB06),
    (0xFB13, 0xFB17),
    (0xFF21, 0xFF3A),
    (0xFF41, 0xFF5A),
    (0x10400, 0x1044F),
    (0x104B0, 0x104D3),
    (0x104D8, 0x104FB),
    (0x10C80, 0x10CB2),
    (0x10CC0, 0x10CF2),
    (0x118A0, 0x118DF),
    (0x1E900, 0x1E943),
];

/// ASCII and full-width punctuation; its second range holds letters too, which the words have taken.
static MARKS: &[(u32, u32)] = &[
    (0x0021, 0x002F),
    (0x003A, 0x007E),
    (0x2018, 0x201F),
    (0x3000, 0x3002),
    (0xFF01, 0xFF0F),
    (0xFF1A, 0xFF5E),
];

pub(super) static PRE: PreTokenizer = PreTokenizer {
    names: &[Name::new("deepseek-llm").keep_spaces()],
    patterns: &[
        &[
            LINE_BREAK,
            WORD,
            PUNCTUATION,
            SPACES_AT_END,
            CJK_PATTERN,
            r"\p{N}+",
        ],
        &[
            LINE_BREAK,
            WORD,
            PUNCTUATION,
            SPACES_AT_END,
            CJK_PATTERN,
            r"\p{N}",
        ],
    ],
    stages: &[
        single_line_breaks,
        words,
        punctuation,
        spaces_at_end,
        cjk_runs,
        number_runs,
    ],
};

fn words(text: &[u8], sink: &mut Sink<'_>) {
    spaced_runs(text, sink, |c| in_ranges(LETTERS, c.code));
}

/// U+3000 lies in the last range, but counts as white space as in the reference.
fn punctuation(text: &[u8], sink: &mut Sink<'_>) {
    spaced_runs(text, sink, |c| in_ranges(MARKS, c.code) && !c.is(SPACE));
}

fn spaces_at_end(text: &[u8], sink: &mut Sink<'_>) {
    let mut start = text.len();
    let mut at = 0;
    while at < text.len() {
        let end = skip_in(text, at, SPACE);
        if end == text.len() {
            start = at;
            break;
        }
        at = skip_out(text, end, SPACE);
    }
    if start > 0 {
        sink(&text[..start]);
    }
    if start < text.len() {
        sink(&text[start..]);
    }
}
