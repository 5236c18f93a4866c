//! Ids to text: pieces, whole texts, and a stream that never splits a character.

use crate::bytes;
use crate::spm::ESCAPED_SPACE;
use crate::unicode::char_at;
use crate::vocabulary::{Attributes, Vocabulary};

/// How texts of normal tokens are written in a vocabulary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spelling {
    /// One character per byte.
    ByteLevel,
    /// Spaces as U+2581.
    EscapedSpaces,
}

/// The bytes that each token stands for, in one buffer.
pub(crate) struct Pieces {
    bytes: Vec<u8>,
    /// Where piece `id` ends in `bytes`.
    ends: Vec<usize>,
}

impl Pieces {
    pub(crate) fn new(vocabulary: &Vocabulary, spelling: Spelling) -> Pieces {
        let n_tokens = vocabulary.len();
        let mut pieces = Pieces {
            bytes: Vec::with_capacity(8 * n_tokens),
            ends: Vec::with_capacity(n_tokens),
        };
        for (id, &attributes) in vocabulary.attributes.iter().enumerate() {
            push_piece(
                vocabulary.texts.text(id),
                attributes,
                spelling,
                &mut pieces.bytes,
            );
            pieces.ends.push(pieces.bytes.len());
        }
        pieces
    }

    /// The bytes of a token; none for an id outside the vocabulary.
    pub(crate) fn get(&self, id: u32) -> &[u8] {
        let Some(&end) = self.ends.get(id as usize) else {
            return &[];
        };
        let start = if id == 0 {
            0
        } else {
            self.ends[id as usize - 1]
        };
        &self.bytes[start..end]
    }
}

fn push_piece(text: &[u8], attributes: Attributes, spelling: Spelling, out: &mut Vec<u8>) {
    let verbatim = Attributes::UNKNOWN
        .with(Attributes::CONTROL)
        .with(Attributes::USER_DEFINED);
    if attributes.has(verbatim) {
        out.extend_from_slice(text);
    } else if attributes.has(Attributes::NORMAL) {
        match spelling {
            Spelling::ByteLevel => push_byte_level(text, out),
            Spelling::EscapedSpaces => push_unescaped(text, out),
        }
    } else if attributes.has(Attributes::BYTE) {
        match byte_of_text(text) {
            Some(byte) => out.push(byte),
            None => out.extend_from_slice(text),
        }
    }
    // Unused and undefined tokens stand for nothing.
}

/// A character that stands for no byte is kept as it is.
fn push_byte_level(text: &[u8], out: &mut Vec<u8>) {
    let mut at = 0;
    while let Some(c) = char_at(text, at) {
        match bytes::byte_of(c.code).filter(|_| c.valid) {
            Some(byte) => out.push(byte),
            None => out.extend_from_slice(&text[at..at + c.len]),
        }
        at += c.len;
    }
}

fn push_unescaped(mut text: &[u8], out: &mut Vec<u8>) {
    while let Some(&first) = text.first() {
        match text.strip_prefix(ESCAPED_SPACE) {
            Some(rest) => {
                out.push(b' ');
                text = rest;
            }
            None => {
                out.push(first);
                text = &text[1..];
            }
        }
    }
}

/// The byte that `<0xNN>` names.
fn byte_of_text(text: &[u8]) -> Option<u8> {
    let digits = text.strip_prefix(b"<0x")?.strip_suffix(b">")?;
    let digits = std::str::from_utf8(digits)
        .ok()
        .filter(|digits| digits.len() == 2)?;
    u8::from_str_radix(digits, 16).ok()
}

/// Turns pieces into text as they come. A character is given out once its last byte is there; a byte
/// that belongs to no character becomes U+FFFD.
#[derive(Clone, Debug, Default)]
pub struct Utf8Stream {
    /// The start of a character, at most three bytes.
    pending: Vec<u8>,
}

impl Utf8Stream {
    /// A stream at its start.
    pub fn new() -> Utf8Stream {
        Utf8Stream::default()
    }

    /// Takes the next bytes and returns the characters that are complete.
    pub fn push(&mut self, bytes: &[u8]) -> String {
        self.pending.extend_from_slice(bytes);
        let mut text = String::new();
        let mut n_used = 0;
        for chunk in self.pending.utf8_chunks() {
            text.push_str(chunk.valid());
            n_used += chunk.valid().len();
            let invalid = chunk.invalid();
            let at_end = n_used + invalid.len() == self.pending.len();
            if invalid.is_empty() || (at_end && may_continue(invalid)) {
                break;
            }
            text.push(char::REPLACEMENT_CHARACTER);
            n_used += invalid.len();
        }
        self.pending.drain(..n_used);
        text
    }

    /// The end: a character that was not completed becomes one U+FFFD.
    pub fn finish(&mut self) -> String {
        let pending = std::mem::take(&mut self.pending);
        if pending.is_empty() {
            String::new()
        } else {
            char::REPLACEMENT_CHARACTER.to_string()
        }
    }
}

/// True if more bytes could make these a character. They are one maximal invalid sequence, so if they
/// begin a character, they are a proper prefix of one.
fn may_continue(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

/// What the reference does to a whole detokenized text for some vocabularies: removes the space before
/// `.`, `,`, `?` and `!`, then the spaces around a single apostrophe, then the space before `'s`, `'m`,
/// `'re` and `'ve`.
pub(crate) fn clean_spaces(text: &mut Vec<u8>) {
    let punctuation = |text: &[u8], i: usize| matches!(text[i], b'?' | b'!' | b'.' | b',');
    remove_spaces(text, |text, i| {
        (text[i - 1] == b' ' && punctuation(text, i)).then_some(0)
    });
    remove_spaces(text, |text, i| {
        let alone = text[i] == b'\'' && text[i - 1] == b' ' && text.get(i + 1) == Some(&b' ');
        alone.then_some(1)
    });
    remove_spaces(text, |text, i| {
        let tail = (text[i] == b'\'' && text[i - 1] == b' ').then(|| &text[i + 1..])?;
        let short = matches!(tail, [b's' | b'm', ..] | [b'r' | b'v', b'e', ..]);
        short.then_some(0)
    });
}

/// One pass: where `after` says so for a place, the character before it goes, and as many after it. Behind one that
/// went so, nothing more goes.
fn remove_spaces(text: &mut Vec<u8>, after: impl Fn(&[u8], usize) -> Option<usize>) {
    let mut kept = Vec::with_capacity(text.len());
    kept.extend(text.first());
    let (mut i, mut behind_gap) = (1, false);
    while i < text.len() {
        let n_after = after(text, i).filter(|_| !behind_gap);
        if n_after.is_some() {
            kept.pop();
        }
        kept.push(text[i]);
        i += 1 + n_after.unwrap_or(0);
        behind_gap = n_after > Some(0);
    }
    *text = kept;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_stream(pieces: &[&[u8]], expected: &[&str]) {
        let mut stream = Utf8Stream::new();
        let mut texts: Vec<String> = pieces.iter().map(|piece| stream.push(piece)).collect();
        texts.push(stream.finish());
        assert_eq!(texts, expected);
    }

    /// The pieces of case B67.
    #[test]
    fn b67_a_stream_never_splits_a_character() {
        check_stream(&[b"\xF0\x9F", b"\x98\xB8"], &["", "😸", ""]);
        check_stream(&[b"\xE6", b"\xAD\xAA"], &["", "歪", ""]);
        check_stream(&[b" \xF0", b"\x9F\x98", b"\xB8!"], &[" ", "", "😸!", ""]);
        check_stream(&[b"ab\xF0\x9F"], &["ab", "\u{FFFD}"]);
    }

    #[test]
    fn bytes_of_no_character_are_replaced_at_once() {
        check_stream(
            &[b"a\xFFb", b"\xE6", b"a"],
            &["a\u{FFFD}b", "", "\u{FFFD}a", ""],
        );
        check_stream(&[b"\xE6\xAD", b"\xE6\xAD\xAA"], &["", "\u{FFFD}歪", ""]);
        check_stream(&[b"\xA1"], &["\u{FFFD}", ""]);
        check_stream(&[b"\xF0\x9F", b"\xFF"], &["", "\u{FFFD}\u{FFFD}", ""]);
    }

    #[test]
    fn spaces_are_cleaned_as_in_the_reference() {
        let clean = |text: &str| {
            let mut text = text.as_bytes().to_vec();
            clean_spaces(&mut text);
            String::from_utf8(text).unwrap()
        };
        assert_eq!(clean("a , b ."), "a, b.");
        assert_eq!(
            clean("it's 's 'S 't 're 've 'm 'll 'd"),
            "it's's 'S 't're've'm 'll 'd"
        );
        assert_eq!(clean("x ' y"), "x'y");
        assert_eq!(clean("x ' ' y"), "x'' y");
        assert_eq!(clean(""), "");
        assert_eq!(clean(" ."), ".");
    }

    #[test]
    fn byte_tokens() {
        assert_eq!(byte_of_text(b"<0x0A>"), Some(10));
        assert_eq!(byte_of_text(b"<0x>"), None);
        assert_eq!(byte_of_text(b"<0x+1>"), Some(1));
    }
}
