//! A metadata value in one line of text.

use std::borrow::Cow;

use gristmill_gguf::{Array, Text, Value, escape_invalid};

use crate::display::printable;

/// Characters of a string to show where nobody asks for more.
pub const CHARS: usize = 80;

/// How much of a value to show.
#[derive(Clone, Copy)]
pub struct Extent {
    /// Elements of an array.
    pub n_items: usize,
    /// Characters of a string.
    pub n_chars: usize,
}

/// A value in one line: long strings are cut, long arrays shown from their start.
pub fn show(value: &Value, extent: Extent) -> String {
    match value {
        Value::String(text) => show_text(text, extent.n_chars),
        Value::Array(array) => show_array(array, extent),
        Value::U8(value) => value.to_string(),
        Value::I8(value) => value.to_string(),
        Value::U16(value) => value.to_string(),
        Value::I16(value) => value.to_string(),
        Value::U32(value) => value.to_string(),
        Value::I32(value) => value.to_string(),
        Value::U64(value) => value.to_string(),
        Value::I64(value) => value.to_string(),
        Value::F32(value) => number(f64::from(*value), value.to_string(), format!("{value:e}")),
        Value::F64(value) => number(*value, value.to_string(), format!("{value:e}")),
        Value::Bool(value) => value.to_string(),
    }
}

/// Numbers of hundreds of digits are written with an exponent.
fn number(value: f64, plain: String, with_exponent: String) -> String {
    let is_plain = value == 0.0 || !value.is_finite() || (1e-9..1e18).contains(&value.abs());
    if is_plain { plain } else { with_exponent }
}

/// Two values, each in one line. Strings that begin alike are shown from where they part: their starts would tell nothing.
pub fn show_pair(before: &Value, after: &Value, extent: Extent) -> (String, String) {
    if let (Value::String(before), Value::String(after)) = (before, after) {
        let pairs = before.as_bytes().iter().zip(after.as_bytes());
        let n_alike = pairs.take_while(|(a, b)| a == b).count();
        let longer = before.len().max(after.len());
        if longer > extent.n_chars && n_alike > extent.n_chars / 2 {
            let start = character_start(before.as_bytes(), n_alike.saturating_sub(LEAD_BYTES));
            return (
                show_text_from(before, start, extent.n_chars),
                show_text_from(after, start, extent.n_chars),
            );
        }
    }
    (show(before, extent), show(after, extent))
}

/// What is shown before the place where two strings part.
const LEAD_BYTES: usize = 24;

/// The start of the character in which a byte lies.
fn character_start(bytes: &[u8], mut place: usize) -> usize {
    let is_inside = |place: usize| bytes.get(place).is_some_and(|byte| byte & 0xc0 == 0x80);
    while place > 0 && is_inside(place) {
        place -= 1;
    }
    place
}

/// A string from a byte on, both ends marked where they are not its own.
fn show_text_from(text: &Text, start: usize, n_chars: usize) -> String {
    let rest = Text::from_bytes(&text.as_bytes()[start.min(text.len())..]);
    let (shown, is_whole) = start_of(&rest, n_chars);
    let tail = if is_whole { "" } else { "…" };
    let lead = if start > 0 { "…" } else { "" };
    format!(
        "\"{lead}{}{tail}\" (from byte {start} of {})",
        printable(&shown),
        text.len()
    )
}

/// Text to stand between quotes: a quote in it is no end, and a backslash no escape of ours.
fn quoted(text: &str) -> Cow<'_, str> {
    match text.contains(['"', '\\']) {
        true => Cow::Owned(text.replace('\\', "\\\\").replace('"', "\\\"")),
        false => Cow::Borrowed(text),
    }
}

fn show_text(text: &Text, n_chars: usize) -> String {
    let (shown, is_whole) = start_of(text, n_chars);
    match is_whole {
        true => format!("\"{}\"", printable(&shown)),
        false => format!("\"{}…\" ({} bytes)", printable(&shown), text.len()),
    }
}

/// The first characters of a text, and whether they are all. A byte that is no text takes the place of one, as `\xNN`, and
/// the backslash of a text that looks like that is doubled.
fn start_of(text: &Text, n_chars: usize) -> (String, bool) {
    let (mut shown, mut n_left) = (String::new(), n_chars);
    // A character has at most four bytes: the start that can be shown, and one more character, lies in these.
    let n_bytes = n_chars.saturating_add(1).saturating_mul(4);
    let start = &text.as_bytes()[..n_bytes.min(text.len())];
    for chunk in start.utf8_chunks() {
        let valid = chunk.valid();
        let end = valid.char_indices().nth(n_left).map(|(end, _)| end);
        shown += &quoted(&valid[..end.unwrap_or(valid.len())]);
        if end.is_some() {
            return (shown, false);
        }
        n_left -= valid.chars().count();
        let invalid = &chunk.invalid()[..n_left.min(chunk.invalid().len())];
        shown += &escape_invalid(invalid);
        n_left -= invalid.len();
        if invalid.len() < chunk.invalid().len() {
            return (shown, false);
        }
    }
    (shown, true)
}

fn show_array(array: &Array, extent: Extent) -> String {
    let items: Vec<String> = array
        .iter()
        .take(extent.n_items)
        .map(|item| show(&item, extent))
        .collect();
    let more = match (array.len() > extent.n_items, items.is_empty()) {
        (true, false) => ", …",
        (true, true) => "…",
        (false, _) => "",
    };
    format!("[{}{more}] ({})", items.join(", "), array.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXTENT: Extent = Extent {
        n_items: 3,
        n_chars: 5,
    };

    #[test]
    fn strings_that_begin_alike_are_shown_from_where_they_part() {
        let extent = Extent {
            n_items: 3,
            n_chars: 30,
        };
        let start = "x".repeat(100);
        let pair = |a: &str, b: &str| {
            let value = |end: &str| format!("{start}{end}").into();
            show_pair(&value(a), &value(b), extent)
        };
        let (a, b) = pair("old", "newer");
        assert_eq!(
            a,
            format!("\"…{}old\" (from byte 76 of 103)", "x".repeat(24))
        );
        assert_eq!(
            b,
            format!("\"…{}newer\" (from byte 76 of 105)", "x".repeat(24))
        );
        let short = show_pair(&"ab".into(), &"ac".into(), extent);
        assert_eq!(short, ("\"ab\"".to_owned(), "\"ac\"".to_owned()));
    }

    #[test]
    fn long_values_are_cut_between_characters() {
        let show = |value: Value| show(&value, EXTENT);
        assert_eq!(show("abcde".into()), "\"abcde\"");
        assert_eq!(show("abcdef".into()), "\"abcde…\" (6 bytes)");
        assert_eq!(show("中文字符一二三".into()), "\"中文字符一…\" (21 bytes)");
        assert_eq!(show(Value::String(Text::from_bytes([0xa1]))), "\"\\xa1\"");
        assert_eq!(show("a\u{1b}[2J".into()), "\"a\\u{1b}[2J\"");
        assert_eq!(show("a\"b".into()), "\"a\\\"b\"");
        // A byte that is no text, and text that looks like one.
        assert_eq!(show("\\xff".into()), "\"\\\\xff\"");
        let bytes = Value::String(Text::from_bytes(b"\\xff\xff\xff"));
        assert_eq!(show(bytes), "\"\\\\xff\\xff…\" (6 bytes)");
        assert_eq!(show(f64::MAX.into()), "1.7976931348623157e308");
        assert_eq!(show(1e-6f32.into()), "0.000001");
        assert_eq!(show((-0f32).into()), "-0");
        assert_eq!(show(vec![1u8, 2, 3].into()), "[1, 2, 3] (3)");
        assert_eq!(show(vec![1u8, 2, 3, 4].into()), "[1, 2, 3, …] (4)");
        assert_eq!(show(Vec::<bool>::new().into()), "[] (0)");
    }
}
