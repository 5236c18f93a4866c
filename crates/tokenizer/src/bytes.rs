//! The alphabet of byte-level BPE: every byte is written as one printable character.

use std::sync::LazyLock;

use crate::unicode::char_at;

/// Code points that stand for bytes lie below this.
const N_CODES: usize = 0x144;

/// The byte that each code point stands for; `None` for one that stands for none.
static BYTE_OF_CODE: LazyLock<[Option<u8>; N_CODES]> = LazyLock::new(|| {
    let mut table = [None; N_CODES];
    let mut n_moved = 0;
    for byte in 0..=255_u8 {
        let printable = matches!(byte, 0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF);
        let code = if printable {
            usize::from(byte)
        } else {
            n_moved += 1;
            0xFF + n_moved
        };
        table[code] = Some(byte);
    }
    table
});

/// The bytes that a token's text stands for, appended to `out`; false if a character stands for none, and
/// then `out` is as it was.
pub(crate) fn decode_into(text: &[u8], out: &mut Vec<u8>) -> bool {
    let n_before = out.len();
    let mut at = 0;
    while let Some(c) = char_at(text, at) {
        match byte_of(c.code).filter(|_| c.valid) {
            Some(byte) => out.push(byte),
            None => {
                out.truncate(n_before);
                return false;
            }
        }
        at += c.len;
    }
    true
}

/// The byte that a code point stands for.
pub(crate) fn byte_of(code: u32) -> Option<u8> {
    BYTE_OF_CODE.get(code as usize).copied().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_one_character() {
        let mut bytes: Vec<u8> = BYTE_OF_CODE.iter().flatten().copied().collect();
        bytes.sort_unstable();
        assert_eq!(bytes, (0..=255).collect::<Vec<u8>>());
    }

    #[test]
    fn known_characters() {
        let mut out = Vec::new();
        assert!(decode_into("Ġa\u{120}ĊÃ©".as_bytes(), &mut out));
        assert_eq!(out, b" a \n\xC3\xA9");
        assert!(!decode_into("a b".as_bytes(), &mut out));
        assert!(!decode_into("中".as_bytes(), &mut out));
        assert_eq!(out, b" a \n\xC3\xA9");
    }
}
