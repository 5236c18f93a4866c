//! Escape sequences in a prompt, so that a line break can be typed as `\n`.

/// Replaces `\n`, `\r`, `\t`, `\'`, `\"`, `\\` and `\xHH`; what is no escape sequence stays as it is.
pub fn unescape(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, after @ ..] = rest {
        let (byte, length) = match (first, after) {
            (b'\\', [b'n', ..]) => (b'\n', 2),
            (b'\\', [b'r', ..]) => (b'\r', 2),
            (b'\\', [b't', ..]) => (b'\t', 2),
            (b'\\', [quoted @ (b'\'' | b'"' | b'\\'), ..]) => (*quoted, 2),
            (b'\\', [b'x', high, low, ..]) => match (hexadecimal(*high), hexadecimal(*low)) {
                (Some(high), Some(low)) => (high << 4 | low, 4),
                _ => (b'\\', 1),
            },
            (byte, _) => (*byte, 1),
        };
        out.push(byte);
        rest = &rest[length..];
    }
    out
}

fn hexadecimal(digit: u8) -> Option<u8> {
    // A hexadecimal digit is below 16.
    char::from(digit).to_digit(16).map(|value| value as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_sequences_change() {
        let cases = [
            (r"a\nb\tc\r", "a\nb\tc\r"),
            (r#"\'\"\\n"#, "'\"\\n"),
            (r"\x41\x4", r"A\x4"),
            (r"\d\", r"\d\"),
        ];
        for (text, expected) in cases {
            assert_eq!(unescape(text.as_bytes()), expected.as_bytes(), "{text}");
        }
        assert_eq!(unescape(br"\xff"), [0xff]);
    }
}
