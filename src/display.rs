//! Text for people: words of a file made safe to print, columns that line up, sizes and counts.

use std::borrow::Cow;

use unicode_width::UnicodeWidthStr as _;

/// Text safe to print on one line, whoever wrote the words in it: line breaks, which could forge a message of ours, control
/// characters, which could steer a terminal, and marks that turn the direction of writing around are escaped.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_unsafe(c) {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

fn is_unsafe(c: char) -> bool {
    c.is_control()
        // Direction of writing, then what takes no space or breaks lines, and tags.
        || matches!(c, '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{2060}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

/// The start of a text of a file that may have any length, for a line of its own.
pub fn cut(text: &str, n_chars: usize) -> Cow<'_, str> {
    match text.char_indices().nth(n_chars) {
        Some((end, _)) => Cow::Owned(format!("{}… ({} bytes)", &text[..end], text.len())),
        None => Cow::Borrowed(text),
    }
}

/// The text with spaces behind it up to a width of `n_columns`; Chinese characters take two.
pub fn pad(text: &str, n_columns: usize) -> String {
    let n_missing = n_columns.saturating_sub(text.width());
    format!("{text}{:n_missing$}", "")
}

/// The columns that a text takes on a terminal.
pub fn width(text: &str) -> usize {
    text.width()
}

pub use gristmill_convert::done;

/// How many there are of something, as in "1 tensor" and "2 tensors".
pub fn counted(n: usize, noun: &str) -> String {
    let plural = if n == 1 { "" } else { "s" };
    format!("{n} {noun}{plural}")
}

/// A size in binary units; the exact number below a KiB.
pub fn size(bytes: u64) -> String {
    let units = [
        (1u64 << 40, "TiB"),
        (1 << 30, "GiB"),
        (1 << 20, "MiB"),
        (1 << 10, "KiB"),
    ];
    match units.into_iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) => format!("{:.2} {name}", bytes as f64 / unit as f64),
        None => format!("{bytes} bytes"),
    }
}

/// A count, with a rounded form where it is large.
pub fn count(n: u64) -> String {
    let units = [(1e12, "T"), (1e9, "B"), (1e6, "M")];
    match units.into_iter().find(|(unit, _)| n as f64 >= *unit) {
        Some((unit, name)) => format!("{n} = {:.2} {name}", n as f64 / unit),
        None => n.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_steers_the_terminal() {
        assert_eq!(printable("plain 中文"), "plain 中文");
        assert_eq!(
            printable("a\u{1b}[2J\n\u{202e}b"),
            "a\\u{1b}[2J\\n\\u{202e}b"
        );
        assert_eq!(printable("a\tb\r\u{2028}c"), "a\\tb\\r\\u{2028}c");
        for c in [
            '\u{61c}',
            '\u{200b}',
            '\u{2028}',
            '\u{2060}',
            '\u{feff}',
            '\u{e0041}',
        ] {
            assert_eq!(printable(&c.to_string()), c.escape_default().to_string());
        }
    }

    #[test]
    fn wide_characters_take_two_columns() {
        assert_eq!(pad("ab", 5), "ab   ");
        assert_eq!(pad("中文", 5), "中文 ");
        assert_eq!(pad("中文字", 5), "中文字");
    }

    #[test]
    fn sizes_and_counts() {
        assert_eq!(
            [size(1023), size(1024), size(5 << 40)],
            ["1023 bytes", "1.00 KiB", "5.00 TiB"]
        );
        assert_eq!(
            [count(999_999), count(1_000_000)],
            ["999999", "1000000 = 1.00 M"]
        );
    }
}
