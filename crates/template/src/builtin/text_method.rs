//! Methods of strings.

use std::rc::Rc;

use super::{Arguments, format};
use crate::error::{Result, TemplateError};
use crate::meter::{Meter, TextBuilder};
use crate::value::{ListBuilder, Text, Value, display};

pub(super) static METHODS: &[&str] = &[
    "capitalize",
    "casefold",
    "center",
    "count",
    "endswith",
    "expandtabs",
    "find",
    "format",
    "index",
    "isalnum",
    "isalpha",
    "isascii",
    "isdecimal",
    "isdigit",
    "islower",
    "isnumeric",
    "isspace",
    "isupper",
    "join",
    "ljust",
    "lower",
    "lstrip",
    "partition",
    "removeprefix",
    "removesuffix",
    "replace",
    "rfind",
    "rindex",
    "rjust",
    "rpartition",
    "rsplit",
    "rstrip",
    "split",
    "splitlines",
    "startswith",
    "strip",
    "swapcase",
    "title",
    "upper",
    "zfill",
];

/// Calls a method; none for an unknown one.
pub(super) fn call(
    text: &Rc<Text>,
    name: &str,
    arguments: &mut Arguments,
) -> Result<Option<Value>> {
    let meter = Rc::clone(arguments.meter());
    meter.scan(text.len())?;
    Ok(Some(match name {
        "lower" | "casefold" => cased(text, str::to_lowercase, &meter)?,
        "upper" => cased(text, str::to_uppercase, &meter)?,
        "capitalize" | "title" | "swapcase" => by_position(text, name, &meter)?,
        "strip" | "lstrip" | "rstrip" => strip(text, name, arguments)?,
        "removeprefix" | "removesuffix" => remove(text, name, arguments)?,
        "startswith" | "endswith" => affix(text, name == "startswith", arguments)?,
        "find" | "rfind" | "index" | "rindex" => find(text, name, arguments)?,
        "count" => {
            let part = arguments.text("sub")?;
            Value::Integer(text.matches(&**part).count() as i128)
        }
        "split" | "rsplit" => split(text, name == "rsplit", arguments)?,
        "splitlines" => splitlines(text, arguments)?,
        "partition" | "rpartition" => partition(text, name == "rpartition", arguments)?,
        "replace" => {
            let old = arguments.text("old")?;
            let new = arguments.text("new")?;
            let count = arguments.optional_integer("count")?;
            replaced(text, &old, &new, count, &meter)?
        }
        "join" => join(text, arguments)?,
        "format" => format::braces(text, arguments)?,
        "center" | "ljust" | "rjust" => {
            let width = arguments.count("width", 0)?;
            let fill = arguments.optional_text("fillchar")?;
            let side = match name {
                "center" => Side::Both,
                "ljust" => Side::Right,
                _ => Side::Left,
            };
            padded(
                text,
                width,
                fill.as_ref().map_or(" ", |fill| fill.as_str()),
                side,
                &meter,
            )?
        }
        "zfill" => zero_filled(text, arguments)?,
        "expandtabs" => {
            let n = arguments.count("tabsize", 8)?;
            expand_tabs(text, n, &meter)?
        }
        name if name.starts_with("is") => Value::Bool(is(text, name)),
        _ => return Ok(None),
    }))
}

/// White space as Python sees it.
pub(super) fn is_space(character: char) -> bool {
    character.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&character)
}

fn cased(text: &str, change: fn(&str) -> String, meter: &Rc<Meter>) -> Result<Value> {
    let _room = meter.charge(text.len().saturating_mul(3))?; // no letter grows more
    Value::text(meter, &change(text))
}

fn by_position(text: &str, name: &str, meter: &Rc<Meter>) -> Result<Value> {
    let mut changed = TextBuilder::new(meter)?;
    let mut in_word = false;
    for (index, character) in text.chars().enumerate() {
        let upper = match name {
            "capitalize" => index == 0,
            "title" => !in_word,
            _ => character.is_lowercase(),
        };
        in_word = character.is_alphabetic();
        if upper {
            for character in character.to_uppercase() {
                changed.push(character)?;
            }
        } else {
            for character in character.to_lowercase() {
                changed.push(character)?;
            }
        }
    }
    Value::from_builder(changed)
}

fn strip(text: &Rc<Text>, name: &str, arguments: &mut Arguments) -> Result<Value> {
    let characters = arguments.optional_text("chars")?;
    // a long list of characters is looked through for each that is stripped
    let width = characters.as_ref().map_or(0, |characters| characters.len());
    arguments
        .meter()
        .work(text.len().saturating_mul(width) / 64)?;
    let stripped = |character: char| match &characters {
        Some(characters) => characters.contains(character),
        None => is_space(character),
    };
    let result = match name {
        "strip" => text.trim_matches(stripped),
        "lstrip" => text.trim_start_matches(stripped),
        _ => text.trim_end_matches(stripped),
    };
    if result.len() == text.len() {
        return Ok(Value::Text(Rc::clone(text)));
    }
    Value::text(arguments.meter(), result)
}

fn remove(text: &str, name: &str, arguments: &mut Arguments) -> Result<Value> {
    let affix = arguments.text("affix")?;
    let rest = match name {
        "removeprefix" => text.strip_prefix(affix.as_str()),
        _ => text.strip_suffix(affix.as_str()),
    };
    Value::text(arguments.meter(), rest.unwrap_or(text))
}

fn join(separator: &str, arguments: &mut Arguments) -> Result<Value> {
    let items = arguments.required("iterable")?;
    let meter = arguments.meter();
    let mut joined = TextBuilder::new(meter)?;
    for (index, item) in items.items(meter)?.items().iter().enumerate() {
        if index > 0 {
            joined.push_str(separator)?;
        }
        display(item, &mut joined)?;
    }
    Value::from_builder(joined)
}

fn affix(text: &str, at_start: bool, arguments: &mut Arguments) -> Result<Value> {
    let affix = arguments.required("prefix")?;
    let has = |affix: &Value| match affix.as_str() {
        Some(affix) if at_start => Ok(text.starts_with(affix)),
        Some(affix) => Ok(text.ends_with(affix)),
        None => Err(TemplateError::operation(format!(
            "a string cannot start or end with a {}",
            affix.kind()
        ))),
    };
    let Value::List(list) = &affix else {
        return Ok(Value::Bool(has(&affix)?));
    };
    for affix in list.items() {
        arguments.meter().copy(text.len())?;
        if has(affix)? {
            return Ok(Value::Bool(true));
        }
    }
    Ok(Value::Bool(false))
}

fn find(text: &str, name: &str, arguments: &mut Arguments) -> Result<Value> {
    let part = arguments.text("sub")?;
    arguments.meter().scan(part.len())?;
    let byte = match name {
        "find" | "index" => text.find(&**part),
        _ => text.rfind(&**part),
    };
    match byte {
        Some(byte) => Ok(Value::Integer(text[..byte].chars().count() as i128)),
        None if name.ends_with("find") => Ok(Value::Integer(-1)),
        None => Err(TemplateError::operation("the substring is not found")),
    }
}

/// Splits once at white space or a separator, from the end where `from_end`.
fn split_once<'t>(
    text: &'t str,
    separator: Option<&str>,
    from_end: bool,
) -> Option<(&'t str, &'t str)> {
    match (separator, from_end) {
        (Some(separator), false) => text.split_once(separator),
        (Some(separator), true) => text.rsplit_once(separator),
        (None, false) => text.split_once(is_space),
        (None, true) => text.rsplit_once(is_space),
    }
}

fn split(text: &str, from_end: bool, arguments: &mut Arguments) -> Result<Value> {
    let separator = arguments.optional_text("sep")?;
    let separator = separator.as_ref().map(|separator| separator.as_str());
    let n_max = arguments.optional_integer("maxsplit")?.unwrap_or(-1);
    let n_max = usize::try_from(n_max).unwrap_or(usize::MAX);
    if separator == Some("") {
        return Err(TemplateError::operation("split: the separator is empty"));
    }
    let meter = Rc::clone(arguments.meter());
    let mut parts = ListBuilder::new(&meter)?;
    let mut rest = text;
    // runs of white space separate once, and none is at the ends
    let trim = |text| -> &str {
        match (separator, from_end) {
            (Some(_), _) => text,
            (None, false) => str::trim_start_matches(text, is_space),
            (None, true) => str::trim_end_matches(text, is_space),
        }
    };
    loop {
        rest = trim(rest);
        if rest.is_empty() && separator.is_none() {
            break;
        }
        let once = match parts.len() < n_max {
            true => split_once(rest, separator, from_end),
            false => None,
        };
        let Some((before, after)) = once else {
            let whole = match (separator, from_end) {
                (None, true) => rest.trim_start_matches(is_space),
                (None, false) if parts.len() < n_max => rest.trim_end_matches(is_space),
                _ => rest,
            };
            parts.push(Value::text(&meter, whole)?)?;
            break;
        };
        let (part, left) = if from_end {
            (after, before)
        } else {
            (before, after)
        };
        parts.push(Value::text(&meter, part)?)?;
        rest = left;
    }
    if from_end {
        parts.reverse();
    }
    parts.value()
}

/// Lines with what ends them, as Python splits them.
pub(super) fn lines_of(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let is_end = |c: char| {
            matches!(
                c,
                '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{1c}'
                    ..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}'
            )
        };
        let length = rest.find(is_end).unwrap_or(rest.len());
        let (line, after) = rest.split_at(length);
        let n_end = match after.starts_with("\r\n") {
            true => 2,
            false => after.chars().next().map_or(0, char::len_utf8),
        };
        let (end, after) = after.split_at(n_end);
        rest = after;
        Some((line, end))
    })
}

fn splitlines(text: &str, arguments: &mut Arguments) -> Result<Value> {
    let keep_ends = arguments.flag("keepends", false);
    let meter = arguments.meter();
    let mut lines = ListBuilder::new(meter)?;
    for (line, end) in lines_of(text) {
        let mut kept = TextBuilder::new(meter)?;
        kept.push_str(line)?;
        kept.push_str(if keep_ends { end } else { "" })?;
        lines.push(Value::from_builder(kept)?)?;
    }
    lines.value()
}

fn partition(text: &str, from_end: bool, arguments: &mut Arguments) -> Result<Value> {
    let separator = arguments.text("sep")?;
    if separator.is_empty() {
        return Err(TemplateError::operation(
            "partition: the separator is empty",
        ));
    }
    let parts = match (split_once(text, Some(&separator), from_end), from_end) {
        (Some((before, after)), _) => [before, &separator, after],
        (None, false) => [text, "", ""],
        (None, true) => ["", "", text],
    };
    let mut list = ListBuilder::new(arguments.meter())?;
    for part in parts {
        list.push(Value::text(arguments.meter(), part)?)?;
    }
    list.tuple()
}

/// The text with `old` replaced by `new`, at most `count` times where that is not negative.
pub(super) fn replaced(
    text: &str,
    old: &str,
    new: &str,
    count: Option<i128>,
    meter: &Rc<Meter>,
) -> Result<Value> {
    meter.scan(old.len())?;
    let count = count.and_then(|count| usize::try_from(count).ok());
    let mut result = TextBuilder::new(meter)?;
    let mut copied = 0;
    for (place, _) in text.match_indices(old).take(count.unwrap_or(usize::MAX)) {
        result.push_str(&text[copied..place])?;
        result.push_str(new)?;
        copied = place + old.len();
    }
    result.push_str(&text[copied..])?;
    Value::from_builder(result)
}

/// Where padding goes.
#[derive(Clone, Copy)]
pub(super) enum Side {
    Left,
    Right,
    Both,
}

pub(super) fn padded(
    text: &str,
    width: usize,
    fill: &str,
    side: Side,
    meter: &Rc<Meter>,
) -> Result<Value> {
    let length = text.chars().count();
    let n = width.saturating_sub(length);
    let left = match side {
        Side::Left => n,
        Side::Right => 0,
        // Python's rule for an odd rest
        Side::Both => n / 2 + (n & width & 1),
    };
    let mut padded = TextBuilder::new(meter)?;
    padded.push_repeated(fill, left)?;
    padded.push_str(text)?;
    padded.push_repeated(fill, n - left)?;
    Value::from_builder(padded)
}

fn zero_filled(text: &str, arguments: &mut Arguments) -> Result<Value> {
    let width = arguments.count("width", 0)?;
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let mut filled = TextBuilder::new(arguments.meter())?;
    filled.push_str(&text[..text.len() - unsigned.len()])?;
    filled.push_repeated("0", width.saturating_sub(text.chars().count()))?;
    filled.push_str(unsigned)?;
    Value::from_builder(filled)
}

fn expand_tabs(text: &str, size: usize, meter: &Rc<Meter>) -> Result<Value> {
    let mut expanded = TextBuilder::new(meter)?;
    let mut column = 0;
    for character in text.chars() {
        match character {
            '\t' => {
                let n = column_rest(column, size);
                expanded.push_repeated(" ", n)?;
                column += n;
            }
            _ => {
                expanded.push(character)?;
                column = if matches!(character, '\n' | '\r') {
                    0
                } else {
                    column + 1
                };
            }
        }
    }
    Value::from_builder(expanded)
}

fn column_rest(column: usize, size: usize) -> usize {
    column.checked_rem(size).map_or(0, |rest| size - rest)
}

/// The tests of characters; false for an empty text, but for `isascii`.
fn is(text: &str, name: &str) -> bool {
    let all = |test: fn(char) -> bool| !text.is_empty() && text.chars().all(test);
    match name {
        "isascii" => text.is_ascii(),
        "isalnum" => all(char::is_alphanumeric),
        "isalpha" => all(char::is_alphabetic),
        "isspace" => all(is_space),
        "isdecimal" | "isdigit" | "isnumeric" => all(char::is_numeric),
        "islower" => text.chars().any(char::is_lowercase) && !text.chars().any(char::is_uppercase),
        _ => text.chars().any(char::is_uppercase) && !text.chars().any(char::is_lowercase),
    }
}
