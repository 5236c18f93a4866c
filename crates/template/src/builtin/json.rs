//! `tojson` as `transformers` defines it: Python's `json.dumps` without ASCII or HTML escaping.

use super::Arguments;
use crate::error::{Result, TemplateError};
use crate::meter::TextBuilder;
use crate::value::{Map, Value, display, write_float};

struct Style {
    item_separator: String,
    key_separator: String,
    /// What one level is indented with; none writes one line.
    indent: Option<(String, usize)>,
    ensure_ascii: bool,
    sort_keys: bool,
}

/// The filter. `indent` is a number or a string, `separators` a pair; both as in Python.
pub(super) fn tojson(value: &Value, arguments: &mut Arguments) -> Result<Value> {
    let ensure_ascii = arguments.named("ensure_ascii");
    let style = style(arguments, ensure_ascii)?;
    let mut text = TextBuilder::new(arguments.meter())?;
    write(value, &style, 0, &mut text)?;
    Value::from_builder(text)
}

fn style(arguments: &mut Arguments, ensure_ascii: Option<Value>) -> Result<Style> {
    let indent = match arguments.next("indent") {
        None | Some(Value::None | Value::Undefined) => None,
        Some(Value::Text(text)) => Some((text.to_string(), 1)),
        Some(value) => {
            let n = value.as_integer().unwrap_or(0).max(0);
            Some((" ".to_owned(), usize::try_from(n).unwrap_or(usize::MAX)))
        }
    };
    let (item_separator, key_separator) = match arguments.named("separators") {
        None | Some(Value::None) => (
            if indent.is_some() { "," } else { ", " }.to_owned(),
            ": ".to_owned(),
        ),
        Some(pair) => match pair.items(arguments.meter())?.items() {
            [Value::Text(item), Value::Text(key)] => (item.to_string(), key.to_string()),
            _ => {
                return Err(TemplateError::operation(
                    "tojson: separators must be a pair of strings",
                ));
            }
        },
    };
    Ok(Style {
        item_separator,
        key_separator,
        indent,
        ensure_ascii: ensure_ascii.is_some_and(|value| value.is_true()),
        sort_keys: arguments
            .named("sort_keys")
            .is_some_and(|value| value.is_true()),
    })
}

/// The recursion ends at the limit of nesting, since no value is nested deeper.
fn write(value: &Value, style: &Style, depth: usize, out: &mut TextBuilder) -> Result<()> {
    match value {
        Value::None => out.push_str("null"),
        Value::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Value::Integer(_) => display(value, out),
        Value::Float(x) if x.is_nan() => out.push_str("NaN"),
        Value::Float(x) if x.is_infinite() => {
            out.push_str(if *x > 0.0 { "Infinity" } else { "-Infinity" })
        }
        Value::Float(x) => out.push_str(&write_float(*x)),
        Value::Text(text) => write_string(text, style, out),
        Value::List(list) => {
            let items = list.items();
            write_list(items.len(), ["[", "]"], style, depth, out, |index, out| {
                write(&items[index], style, depth + 1, out)
            })
        }
        Value::Map(map) => write_map(map, style, depth, out),
        other => Err(TemplateError::operation(format!(
            "tojson: a {} is no JSON",
            other.kind()
        ))),
    }
}

fn write_map(map: &Map, style: &Style, depth: usize, out: &mut TextBuilder) -> Result<()> {
    let mut order: Vec<usize> = (0..map.len()).collect();
    let entries = map.entries();
    if style.sort_keys {
        let longest = entries
            .iter()
            .filter_map(|(key, _)| Some(key.as_str()?.len()));
        let comparison = 2 + longest.max().unwrap_or(0) / 64;
        let n_rounds = 1 + map.len().checked_ilog2().unwrap_or(0) as usize;
        out.meter().work(
            map.len()
                .saturating_mul(n_rounds)
                .saturating_mul(comparison),
        )?;
        order.sort_by(|&a, &b| entries[a].0.as_str().cmp(&entries[b].0.as_str()));
    }
    write_list(order.len(), ["{", "}"], style, depth, out, |index, out| {
        let (key, item) = &entries[order[index]];
        match key {
            Value::Text(text) => write_string(text, style, out)?,
            other => {
                out.push('"')?;
                write(other, style, depth + 1, out)?;
                out.push('"')?;
            }
        }
        out.push_str(&style.key_separator)?;
        write(item, style, depth + 1, out)
    })
}

fn write_list(
    n: usize,
    [open, close]: [&str; 2],
    style: &Style,
    depth: usize,
    out: &mut TextBuilder,
    mut item: impl FnMut(usize, &mut TextBuilder) -> Result<()>,
) -> Result<()> {
    let new_line = |depth: usize, out: &mut TextBuilder| match &style.indent {
        Some((unit, n)) => {
            out.push('\n')?;
            out.push_repeated(unit, n.saturating_mul(depth))
        }
        None => Ok(()),
    };
    out.push_str(open)?;
    for index in 0..n {
        if index > 0 {
            out.push_str(&style.item_separator)?;
        }
        new_line(depth + 1, out)?;
        item(index, out)?;
    }
    if n > 0 {
        new_line(depth, out)?;
    }
    out.push_str(close)
}

fn write_string(text: &str, style: &Style, out: &mut TextBuilder) -> Result<()> {
    out.meter().scan(text.len())?;
    out.push('"')?;
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\"")?,
            '\\' => out.push_str("\\\\")?,
            '\n' => out.push_str("\\n")?,
            '\r' => out.push_str("\\r")?,
            '\t' => out.push_str("\\t")?,
            '\u{8}' => out.push_str("\\b")?,
            '\u{c}' => out.push_str("\\f")?,
            '\0'..='\u{1f}' => out.push_str(&format!("\\u{:04x}", character as u32))?,
            character if style.ensure_ascii && character as u32 > 0x7e => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    out.push_str(&format!("\\u{unit:04x}"))?;
                }
            }
            character => out.push(character)?,
        }
    }
    out.push('"')
}
