//! Characters of a byte string and the Unicode classes that the pre-tokenizers ask for.
//!
//! Text is bytes, because a prompt may be cut inside a character: a byte that belongs to no valid
//! UTF-8 sequence is one character of its own, of the class of U+FFFD (a symbol), and keeps its byte.

use std::sync::LazyLock;

use regex_syntax::hir::{Class as HirClass, HirKind};

/// A set of Unicode classes, as bits. A character without any bit (control, format, unassigned,
/// private use) is in none of the classes.
pub(crate) type Class = u8;

/// `\p{L}`.
pub(crate) const LETTER: Class = 1;
/// `\p{N}`.
pub(crate) const NUMBER: Class = 2;
/// `\s`, the property White_Space.
pub(crate) const SPACE: Class = 4;
/// `\p{P}`.
pub(crate) const PUNCTUATION: Class = 8;
/// `\p{S}`.
pub(crate) const SYMBOL: Class = 16;
/// `\p{M}`.
pub(crate) const MARK: Class = 32;
/// `\p{Lu}` and `\p{Lt}`; LETTER is set too.
pub(crate) const UPPER: Class = 64;
/// `\p{Ll}`; LETTER is set too.
pub(crate) const LOWER: Class = 128;

const N_CODE_POINTS: usize = 0x11_0000;

/// The regular expression of each class.
const CLASS_PATTERNS: [(Class, &str); 8] = [
    (LETTER, r"\p{L}"),
    (NUMBER, r"\p{N}"),
    (SPACE, r"\s"),
    (PUNCTUATION, r"\p{P}"),
    (SYMBOL, r"\p{S}"),
    (MARK, r"\p{M}"),
    (UPPER, r"[\p{Lu}\p{Lt}]"),
    (LOWER, r"\p{Ll}"),
];

/// Classes of every code point, one byte each (1.1 MB, filled once by ranges in well under a millisecond).
static CLASSES: LazyLock<Box<[Class]>> = LazyLock::new(|| {
    let mut table = vec![0; N_CODE_POINTS].into_boxed_slice();
    for (class, pattern) in CLASS_PATTERNS {
        for (start, end) in ranges_of(pattern) {
            for entry in &mut table[start..=end] {
                *entry |= class;
            }
        }
    }
    table
});

/// The code point ranges of a one-character pattern, rising; empty if the pattern is no class, which the
/// test below excludes for the constants above.
pub(crate) fn ranges_of(pattern: &str) -> Vec<(usize, usize)> {
    let Ok(hir) = regex_syntax::parse(pattern) else {
        return Vec::new();
    };
    match hir.kind() {
        HirKind::Class(HirClass::Unicode(class)) => class
            .ranges()
            .iter()
            .map(|range| (range.start() as usize, range.end() as usize))
            .collect(),
        _ => Vec::new(),
    }
}

/// Classes of the ASCII characters, for the fast path.
static ASCII: [Class; 128] = {
    let mut table = [0; 128];
    let mut code = 0;
    while code < 128 {
        let byte = code as u8;
        table[code] = match byte {
            b'A'..=b'Z' => LETTER | UPPER,
            b'a'..=b'z' => LETTER | LOWER,
            b'0'..=b'9' => NUMBER,
            b' ' | 9..=13 => SPACE,
            b'$' | b'+' | b'<' | b'=' | b'>' | b'^' | b'`' | b'|' | b'~' => SYMBOL,
            b'!'..=b'/' | b':'..=b'@' | b'['..=b'_' | b'{'..=b'}' => PUNCTUATION,
            _ => 0,
        };
        code += 1;
    }
    table
};

/// The classes of a code point.
pub(crate) fn class_of(code: u32) -> Class {
    if code < 128 {
        return ASCII[code as usize];
    }
    CLASSES.get(code as usize).copied().unwrap_or(0)
}

/// One character of a byte string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Char {
    /// Code point; U+FFFD for a byte that is not part of valid UTF-8.
    pub code: u32,
    /// Length in bytes, 1 to 4.
    pub len: usize,
    /// False for a byte that is not part of valid UTF-8.
    pub valid: bool,
}

impl Char {
    pub(crate) fn class(self) -> Class {
        class_of(self.code)
    }

    pub(crate) fn is(self, classes: Class) -> bool {
        self.class() & classes != 0
    }
}

/// The character that starts at `at`; none at or past the end.
#[inline]
pub(crate) fn char_at(text: &[u8], at: usize) -> Option<Char> {
    let first = *text.get(at)?;
    if first < 0x80 {
        return Some(Char {
            code: u32::from(first),
            len: 1,
            valid: true,
        });
    }
    Some(multi_byte(text, at, first))
}

/// The character at `at`, whose first byte is not ASCII. Overlong forms, surrogates and values past
/// U+10FFFF are invalid, as in the Unicode standard.
fn multi_byte(text: &[u8], at: usize, first: u8) -> Char {
    const INVALID: Char = Char {
        code: 0xFFFD,
        len: 1,
        valid: false,
    };
    let (len, bits, least) = match first {
        0xC2..=0xDF => (2, u32::from(first & 0x1F), 0x80),
        0xE0..=0xEF => (3, u32::from(first & 0x0F), 0x800),
        0xF0..=0xF4 => (4, u32::from(first & 0x07), 0x1_0000),
        _ => return INVALID,
    };
    let Some(rest) = text.get(at + 1..at + len) else {
        return INVALID;
    };
    let mut code = bits;
    for &byte in rest {
        if byte & 0xC0 != 0x80 {
            return INVALID;
        }
        code = code << 6 | u32::from(byte & 0x3F);
    }
    if code < least || char::from_u32(code).is_none() {
        return INVALID;
    }
    Char {
        code,
        len,
        valid: true,
    }
}

/// The end of the run of characters from `at` on that are in one of `classes`.
#[inline]
pub(crate) fn skip_in(text: &[u8], at: usize, classes: Class) -> usize {
    skip_while(text, at, |class| class & classes != 0)
}

/// The end of the run of characters from `at` on that are in none of `classes`.
#[inline]
pub(crate) fn skip_out(text: &[u8], at: usize, classes: Class) -> usize {
    skip_while(text, at, |class| class & classes == 0)
}

#[inline]
fn skip_while(text: &[u8], mut at: usize, keep: impl Fn(Class) -> bool) -> usize {
    while let Some(&byte) = text.get(at) {
        if byte < 0x80 {
            if !keep(ASCII[byte as usize]) {
                break;
            }
            at += 1;
        } else {
            let c = multi_byte(text, at, byte);
            if !keep(c.class()) {
                break;
            }
            at += c.len;
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ascii_agrees_with_the_unicode_table() {
        for code in 0..128 {
            assert_eq!(ASCII[code as usize], CLASSES[code as usize], "U+{code:04X}");
        }
    }

    #[test]
    fn classes_of_a_few_characters() {
        for (c, class) in [
            ('é', LETTER | LOWER),
            ('Ǆ', LETTER | UPPER),
            ('ǅ', LETTER | UPPER),
            ('中', LETTER),
            ('²', NUMBER),
            ('\u{3000}', SPACE),
            ('\u{85}', SPACE),
            ('。', PUNCTUATION),
            ('€', SYMBOL),
            ('\u{301}', MARK),
            ('\u{200B}', 0),
            ('\u{FFFD}', SYMBOL),
        ] {
            assert_eq!(class_of(c as u32), class, "{c:?}");
        }
    }

    #[test]
    fn decodes_what_the_standard_library_decodes() {
        for c in [
            'a',
            'é',
            '中',
            '😀',
            '\u{7FF}',
            '\u{800}',
            '\u{FFFF}',
            '\u{10FFFF}',
        ] {
            let text = c.to_string();
            let expected = Char {
                code: c as u32,
                len: c.len_utf8(),
                valid: true,
            };
            assert_eq!(char_at(text.as_bytes(), 0), Some(expected));
        }
        assert_eq!(char_at(b"", 0), None);
    }

    #[test]
    fn a_stray_byte_is_one_character() {
        for text in [
            &b"\xE6\xAD"[..],
            b"\xC0\x80",
            b"\xED\xA0\x80",
            b"\xF4\x90\x80\x80",
            b"\xE0\x80\x80",
            b"\xFF",
            b"\x80",
            b"\xE6 a",
        ] {
            let c = char_at(text, 0).unwrap();
            assert_eq!(
                c,
                Char {
                    code: 0xFFFD,
                    len: 1,
                    valid: false
                },
                "{text:x?}"
            );
        }
    }
}
