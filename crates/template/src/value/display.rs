//! Values as text: Python's `str` and `repr`.

use super::{Value, write_float};
use crate::error::Result;
use crate::meter::TextBuilder;

/// Python's `str`; undefined is nothing. The recursion ends at the limit of nesting.
pub(crate) fn display(value: &Value, out: &mut TextBuilder) -> Result<()> {
    match value {
        Value::Undefined => Ok(()),
        Value::None => out.push_str("None"),
        Value::Bool(value) => out.push_str(if *value { "True" } else { "False" }),
        Value::Integer(n) => out.push_str(&n.to_string()),
        Value::Float(x) if x.is_nan() => out.push_str("nan"),
        Value::Float(x) if x.is_infinite() => out.push_str(if *x < 0.0 { "-inf" } else { "inf" }),
        Value::Float(x) => out.push_str(&write_float(*x)),
        Value::Text(text) => out.push_str(text),
        Value::List(list) => {
            let (open, close) = match (list.is_tuple(), list.items().len()) {
                (false, _) => ("[", "]"),
                (true, 1) => ("(", ",)"),
                (true, _) => ("(", ")"),
            };
            out.push_str(open)?;
            for (index, item) in list.items().iter().enumerate() {
                if index > 0 {
                    out.push_str(", ")?;
                }
                repr(item, out)?;
            }
            out.push_str(close)
        }
        Value::Map(map) => {
            out.push_str("{")?;
            for (index, (key, item)) in map.entries().iter().enumerate() {
                entry(index, key, item, out)?;
            }
            out.push_str("}")
        }
        Value::Namespace(namespace) => {
            out.push_str("<Namespace {")?;
            for (index, (key, item)) in namespace.entries().iter().enumerate() {
                entry(index, &Value::Text(key.clone()), item, out)?;
            }
            out.push_str("}>")
        }
        other => {
            out.push_str("<")?;
            out.push_str(other.kind())?;
            out.push_str(">")
        }
    }
}

fn entry(index: usize, key: &Value, item: &Value, out: &mut TextBuilder) -> Result<()> {
    if index > 0 {
        out.push_str(", ")?;
    }
    repr(key, out)?;
    out.push_str(": ")?;
    repr(item, out)
}

/// Python's `repr`: strings with quotes and escapes.
pub(crate) fn repr(value: &Value, out: &mut TextBuilder) -> Result<()> {
    match value {
        Value::Undefined => out.push_str("Undefined"),
        Value::Text(text) => {
            let quote = if text.contains('\'') && !text.contains('"') {
                '"'
            } else {
                '\''
            };
            out.push(quote)?;
            out.meter().scan(text.len())?;
            for character in text.chars() {
                repr_character(character, quote, out)?;
            }
            out.push(quote)
        }
        other => display(other, out),
    }
}

fn repr_character(character: char, quote: char, out: &mut TextBuilder) -> Result<()> {
    match character {
        '\\' => out.push_str("\\\\"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        character if character == quote => {
            out.push('\\')?;
            out.push(character)
        }
        character if is_printable(character) => out.push(character),
        character => {
            let code = character as u32;
            out.push_str(&match code {
                0..=0xff => format!("\\x{code:02x}"),
                0x100..=0xffff => format!("\\u{code:04x}"),
                _ => format!("\\U{code:08x}"),
            })
        }
    }
}

/// Whether Python prints the character as it is, as far as Rust's tables say so.
fn is_printable(character: char) -> bool {
    if character.is_ascii() {
        return !character.is_ascii_control();
    }
    if character.is_alphanumeric() {
        return true;
    }
    // in the middle of a text, as combining marks are escaped at its start only
    let mut text = String::from("a");
    text.push(character);
    format!("{text:?}").len() == text.len() + 2
}
