//! Filters of text. What is no string is made one first, as Jinja does.

use std::rc::Rc;

use super::Arguments;
use super::text_method::{self, Side, is_space, lines_of};
use crate::error::Result;
use crate::meter::{Meter, TextBuilder};
use crate::value::{Text, Value, display, repr};

/// The value as a string, and a step for every few of its bytes.
pub(super) fn text_of(value: &Value, meter: &Rc<Meter>) -> Result<Rc<Text>> {
    let text = match value {
        Value::Text(text) => Rc::clone(text),
        other => {
            let mut text = TextBuilder::new(meter)?;
            display(other, &mut text)?;
            Text::from_builder(text)?
        }
    };
    meter.scan(text.len())?;
    Ok(text)
}

pub(super) fn string(value: &Value, arguments: &mut Arguments) -> Result<Value> {
    Ok(Value::Text(text_of(value, arguments.meter())?))
}

/// Calls the method of the same name.
fn by_method(value: &Value, name: &str, arguments: &mut Arguments) -> Result<Value> {
    let text = text_of(value, arguments.meter())?;
    Ok(text_method::call(&text, name, arguments)?.unwrap_or(Value::Undefined))
}

pub(super) fn lower(value: &Value, arguments: &mut Arguments) -> Result<Value> {
    by_method(value, "lower", arguments)
}

pub(super) fn upper(value: &Value, arguments: &mut Arguments) -> Result<Value> {
    by_method(value, "upper", arguments)
}

pub(super) fn capitalize(value: &Value, arguments: &mut Arguments) -> Result<Value> {
    by_method(value, "capitalize", arguments)
}

/// `trim(chars=none)`
pub(super) fn trim(value: &Value, arguments: &mut Arguments) -> Result<Value> {
    by_method(value, "strip", arguments)
}

/// `replace(old, new, count=none)`
pub(super) fn replace(value: &Value, arguments: &mut Arguments) -> Result<Value> {
    let text = text_of(value, arguments.meter())?;
    let old = arguments.required("old")?;
    let new = arguments.required("new")?;
    let meter = Rc::clone(arguments.meter());
    let (old, new) = (text_of(&old, &meter)?, text_of(&new, &meter)?);
    let count = arguments.optional_integer("count")?;
    text_method::replaced(&text, &old, &new, count, &meter)
}

/// `split(sep=none, maxsplit=-1)`
pub(super) fn split(value: &Value, arguments: &mut Arguments) -> Result<Value> {
    by_method(value, "split", arguments)
}

pub(super) fn lines(value: &Value, arguments: &mut Arguments) -> Result<Value> {
    by_method(value, "splitlines", arguments)
}

/// `center(width=80)`
pub(super) fn center(value: &Value, arguments: &mut Arguments) -> Result<Value> {
    let text = text_of(value, arguments.meter())?;
    let width = arguments.count("width", 80)?;
    text_method::padded(&text, width, " ", Side::Both, arguments.meter())
}

/// Capitals behind white space and opening brackets, small letters elsewhere.
pub(super) fn title(value: &Value, arguments: &mut Arguments) -> Result<Value> {
    let text = text_of(value, arguments.meter())?;
    let mut titled = TextBuilder::new(arguments.meter())?;
    titled.meter().scan(2 * text.len())?;
    let mut starts = true;
    for character in text.chars() {
        if starts {
            for upper in character.to_uppercase() {
                titled.push(upper)?;
            }
        } else {
            for lower in character.to_lowercase() {
                titled.push(lower)?;
            }
        }
        starts = is_space(character) || "-({[<".contains(character);
    }
    Value::from_builder(titled)
}

/// `indent(width=4, first=false, blank=false)`
pub(super) fn indent(value: &Value, arguments: &mut Arguments) -> Result<Value> {
    let text = text_of(value, arguments.meter())?;
    let (unit, n) = match arguments.next("width") {
        Some(Value::Text(text)) => (Some(text), 1),
        Some(other) => {
            let n = other.as_integer().unwrap_or(4).max(0);
            (None, usize::try_from(n).unwrap_or(usize::MAX))
        }
        None => (None, 4),
    };
    let unit = unit.as_ref().map_or(" ", |unit| unit.as_str());
    let first = arguments.flag("first", false);
    let blank = arguments.flag("blank", false);
    let mut indented = TextBuilder::new(arguments.meter())?;
    let ends_with_line = text.is_empty()
        || lines_of(&text)
            .last()
            .is_some_and(|(_, end)| !end.is_empty());
    let lines = lines_of(&text).map(|(line, _)| line);
    for (index, line) in lines.chain(ends_with_line.then_some("")).enumerate() {
        if index > 0 {
            indented.push('\n')?;
        }
        if (index == 0 && first) || (index > 0 && (blank || !line.is_empty())) {
            indented.push_repeated(unit, n)?;
        }
        indented.push_str(line)?;
    }
    Value::from_builder(indented)
}

/// `truncate(length=255, killwords=false, end='...', leeway=5)`
pub(super) fn truncate(value: &Value, arguments: &mut Arguments) -> Result<Value> {
    let text = text_of(value, arguments.meter())?;
    let length = arguments.count("length", 255)?;
    let cut_words = arguments.flag("killwords", false);
    let end = arguments.optional_text("end")?;
    let end = end.as_ref().map_or("...", |end| end.as_str());
    let leeway = arguments.count("leeway", 5)?;
    if text.chars().count() <= length.saturating_add(leeway) {
        return Ok(Value::Text(text));
    }
    let kept = length.saturating_sub(end.chars().count());
    let kept = text
        .char_indices()
        .nth(kept)
        .map_or(text.len(), |(byte, _)| byte);
    let kept = &text[..kept];
    let mut truncated = TextBuilder::new(arguments.meter())?;
    truncated.push_str(match kept.rfind(' ') {
        Some(space) if !cut_words => &kept[..space],
        _ => kept,
    })?;
    truncated.push_str(end)?;
    Value::from_builder(truncated)
}

/// Text for a URL.
pub(super) fn urlencode(value: &Value, arguments: &mut Arguments) -> Result<Value> {
    let text = text_of(value, arguments.meter())?;
    let mut encoded = TextBuilder::new(arguments.meter())?;
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"_.-~/".contains(&byte) {
            encoded.push(char::from(byte))?;
        } else {
            encoded.push_str(&format!("%{byte:02X}"))?;
        }
    }
    Value::from_builder(encoded)
}

pub(super) fn wordcount(value: &Value, arguments: &mut Arguments) -> Result<Value> {
    let text = text_of(value, arguments.meter())?;
    let words = text.split(|c: char| !(c == '_' || c.is_alphanumeric()));
    Ok(Value::Integer(
        words.filter(|word| !word.is_empty()).count() as i128,
    ))
}

/// The value as Python shows it.
pub(super) fn pprint(value: &Value, arguments: &mut Arguments) -> Result<Value> {
    let mut text = TextBuilder::new(arguments.meter())?;
    repr(value, &mut text)?;
    Value::from_builder(text)
}
