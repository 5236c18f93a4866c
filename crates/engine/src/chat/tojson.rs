//! `tojson` as `transformers` defines it: Python's `json.dumps` without ASCII or HTML escaping.

use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{Error, ErrorKind, State};

/// Deeper values than this are refused.
const MAX_DEPTH: usize = 128;

struct Style {
    item_separator: String,
    key_separator: String,
    /// What one level is indented with; none writes one line.
    indent: Option<String>,
    ensure_ascii: bool,
    sort_keys: bool,
}

/// The filter. `indent` is a number or a string, `separators` a pair; both as in Python.
pub(super) fn tojson(
    state: &State,
    value: &Value,
    indent: Option<Value>,
    options: Kwargs,
) -> Result<Value, Error> {
    let indent = match indent {
        Some(indent) => Some(indent),
        None => options.get::<Option<Value>>("indent")?,
    };
    let style = style(indent, &options)?;
    options.assert_all_used()?;
    let mut text = String::new();
    write(value, &style, 0, &mut text)?;
    // pays for the output as the engine's own filters do
    state.consume_fuel((text.len() / 64) as u64)?;
    Ok(Value::from(text))
}

fn style(indent: Option<Value>, options: &Kwargs) -> Result<Style, Error> {
    let indent = match indent {
        None => None,
        Some(value) if value.is_none() || value.is_undefined() => None,
        Some(value) => Some(match value.as_str() {
            Some(text) => text.to_owned(),
            None => {
                let n = usize::try_from(value)?;
                if n > 64 {
                    return Err(Error::new(
                        ErrorKind::InvalidOperation,
                        "tojson: indent is too large",
                    ));
                }
                " ".repeat(n)
            }
        }),
    };
    let separators: Option<Vec<String>> = options.get("separators")?;
    let (item_separator, key_separator) = match separators {
        Some(pair) => match <[String; 2]>::try_from(pair) {
            Ok([item, key]) => (item, key),
            Err(_) => {
                return Err(Error::new(
                    ErrorKind::InvalidOperation,
                    "tojson: separators must be a pair",
                ));
            }
        },
        None => (
            if indent.is_some() { "," } else { ", " }.to_owned(),
            ": ".to_owned(),
        ),
    };
    let ensure_ascii: Option<bool> = options.get("ensure_ascii")?;
    let sort_keys: Option<bool> = options.get("sort_keys")?;
    Ok(Style {
        item_separator,
        key_separator,
        indent,
        ensure_ascii: ensure_ascii.unwrap_or(false),
        sort_keys: sort_keys.unwrap_or(false),
    })
}

fn write(value: &Value, style: &Style, depth: usize, out: &mut String) -> Result<(), Error> {
    if depth > MAX_DEPTH {
        return Err(Error::new(
            ErrorKind::InvalidOperation,
            "tojson: nested too deeply",
        ));
    }
    match value.kind() {
        ValueKind::None => out.push_str("null"),
        ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
        ValueKind::Number => write_number(value, out)?,
        ValueKind::String => write_string(value.as_str().unwrap_or_default(), style, out),
        ValueKind::Seq | ValueKind::Iterable => {
            let items: Vec<Value> = value.try_iter()?.collect();
            write_list(items.len(), '[', ']', style, depth, out, |index, out| {
                write(&items[index], style, depth + 1, out)
            })?;
        }
        ValueKind::Map => write_map(value, style, depth, out)?,
        kind => {
            return Err(Error::new(
                ErrorKind::InvalidOperation,
                format!("tojson: {kind} is not JSON serializable"),
            ));
        }
    }
    Ok(())
}

fn write_map(value: &Value, style: &Style, depth: usize, out: &mut String) -> Result<(), Error> {
    let mut entries = Vec::new();
    for key in value.try_iter()? {
        let text = match key.kind() {
            ValueKind::String => key.as_str().unwrap_or_default().to_owned(),
            ValueKind::None => "null".into(),
            ValueKind::Bool => key.is_true().to_string(),
            ValueKind::Number => key.to_string(),
            kind => {
                return Err(Error::new(
                    ErrorKind::InvalidOperation,
                    format!("tojson: a key cannot be {kind}"),
                ));
            }
        };
        entries.push((text, value.get_item(&key)?));
    }
    if style.sort_keys {
        entries.sort_by(|a, b| a.0.cmp(&b.0));
    }
    write_list(entries.len(), '{', '}', style, depth, out, |index, out| {
        let (key, item) = &entries[index];
        write_string(key, style, out);
        out.push_str(&style.key_separator);
        write(item, style, depth + 1, out)
    })
}

fn write_list(
    n: usize,
    open: char,
    close: char,
    style: &Style,
    depth: usize,
    out: &mut String,
    mut item: impl FnMut(usize, &mut String) -> Result<(), Error>,
) -> Result<(), Error> {
    let new_line = |depth: usize, out: &mut String| {
        if let Some(indent) = &style.indent {
            out.push('\n');
            (0..depth).for_each(|_| out.push_str(indent));
        }
    };
    out.push(open);
    for index in 0..n {
        if index > 0 {
            out.push_str(&style.item_separator);
        }
        new_line(depth + 1, out);
        item(index, out)?;
    }
    if n > 0 {
        new_line(depth, out);
    }
    out.push(close);
    Ok(())
}

fn write_number(value: &Value, out: &mut String) -> Result<(), Error> {
    if value.is_integer() {
        out.push_str(&value.to_string());
    } else {
        write_float(f64::try_from(value.clone())?, out);
    }
    Ok(())
}

/// Python's `repr` of a float: the shortest digits, an exponent below 1e-4 and from 1e16 on.
fn write_float(value: f64, out: &mut String) {
    if value.is_nan() {
        return out.push_str("NaN");
    }
    if value.is_infinite() {
        return out.push_str(if value > 0.0 { "Infinity" } else { "-Infinity" });
    }
    let magnitude = value.abs();
    if magnitude != 0.0 && !(1e-4..1e16).contains(&magnitude) {
        let text = format!("{value:e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, exponent) = match exponent.strip_prefix('-') {
            Some(exponent) => ('-', exponent),
            None => ('+', exponent),
        };
        out.push_str(&format!("{digits}e{sign}{exponent:0>2}"));
    } else {
        out.push_str(&format!("{value:?}"));
    }
}

fn write_string(text: &str, style: &Style, out: &mut String) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\0'..='\u{1f}' => out.push_str(&format!("\\u{:04x}", character as u32)),
            character if style.ensure_ascii && character as u32 > 0x7e => {
                let mut units = [0; 2];
                for unit in character.encode_utf16(&mut units) {
                    out.push_str(&format!("\\u{unit:04x}"));
                }
            }
            character => out.push(character),
        }
    }
    out.push('"');
}
