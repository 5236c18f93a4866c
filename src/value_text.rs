//! A metadata value in one line of text.

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
        Value::F32(value) => value.to_string(),
        Value::F64(value) => value.to_string(),
        Value::Bool(value) => value.to_string(),
    }
}

fn show_text(text: &Text, n_chars: usize) -> String {
    // A character has at most four bytes: the start that can be shown, and one more character, lies in these.
    let n_bytes = n_chars.saturating_add(1).saturating_mul(4);
    let start = &text.as_bytes()[..n_bytes.min(text.len())];
    let shown = escape_invalid(start);
    match shown.char_indices().nth(n_chars) {
        Some((end, _)) => format!("\"{}…\" ({} bytes)", printable(&shown[..end]), text.len()),
        None => format!("\"{}\"", printable(&shown)),
    }
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
    fn long_values_are_cut_between_characters() {
        let show = |value: Value| show(&value, EXTENT);
        assert_eq!(show("abcde".into()), "\"abcde\"");
        assert_eq!(show("abcdef".into()), "\"abcde…\" (6 bytes)");
        assert_eq!(show("中文字符一二三".into()), "\"中文字符一…\" (21 bytes)");
        assert_eq!(show(Value::String(Text::from_bytes([0xa1]))), "\"\\xa1\"");
        assert_eq!(show("a\u{1b}[2J".into()), "\"a\\u{1b}[2J\"");
        assert_eq!(show(vec![1u8, 2, 3].into()), "[1, 2, 3] (3)");
        assert_eq!(show(vec![1u8, 2, 3, 4].into()), "[1, 2, 3, …] (4)");
        assert_eq!(show(Vec::<bool>::new().into()), "[] (0)");
    }
}
