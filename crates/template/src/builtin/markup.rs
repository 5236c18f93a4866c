//! Filters of HTML and XML.

use std::rc::Rc;

use super::Arguments;
use super::text::text_of;
use super::text_method::is_space;
use crate::error::{Result, TemplateError};
use crate::meter::TextBuilder;
use crate::value::{Value, repr};

/// The named characters of HTML 5, by name: `name=code` or `name=code,code` in hexadecimal, a line each, sorted by the bytes
/// of the names. Names that need no semicolon stand twice, with and without it. From the HTML standard, section 13.5.
static ENTITIES: &str = include_str!("entities.txt");

/// The longest name that is looked for.
const NAME_CHARS_MAX: usize = 32;

fn push_escaped(text: &str, escaped: &mut TextBuilder) -> Result<()> {
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;")?,
            '<' => escaped.push_str("&lt;")?,
            '>' => escaped.push_str("&gt;")?,
            '\'' => escaped.push_str("&#39;")?,
            '"' => escaped.push_str("&#34;")?,
            other => escaped.push(other)?,
        }
    }
    Ok(())
}

/// Text for HTML.
pub(super) fn escape(value: &Value, arguments: &mut Arguments) -> Result<Value> {
    let text = text_of(value, arguments.meter())?;
    let mut escaped = TextBuilder::new(arguments.meter())?;
    push_escaped(&text, &mut escaped)?;
    Value::from_builder(escaped)
}

/// Attributes from a map, `autospace=true` with a space in front.
pub(super) fn xmlattr(value: &Value, arguments: &mut Arguments) -> Result<Value> {
    let spaced = arguments.flag("autospace", true);
    let Value::Map(map) = value else {
        return Err(TemplateError::operation(format!(
            "xmlattr of a {}",
            value.kind()
        )));
    };
    let meter = Rc::clone(arguments.meter());
    let mut attributes = TextBuilder::new(&meter)?;
    for (key, value) in map.entries() {
        if !value.is_given() {
            continue;
        }
        let Value::Text(key) = key else {
            return Err(TemplateError::operation("xmlattr: a key is no string"));
        };
        meter.scan(key.len())?;
        if key.contains([' ', '\t', '\n', '\r', '\u{b}', '\u{c}', '/', '>', '=']) {
            let mut shown = TextBuilder::new(&meter)?;
            repr(&Value::Text(Rc::clone(key)), &mut shown)?;
            let shown: String = shown.as_str().chars().take(50).collect();
            return Err(TemplateError::operation(format!(
                "xmlattr: {shown} is no name of an attribute"
            )));
        }
        if spaced || !attributes.as_str().is_empty() {
            attributes.push(' ')?;
        }
        push_escaped(key, &mut attributes)?;
        attributes.push_str("=\"")?;
        push_escaped(&text_of(value, &meter)?, &mut attributes)?;
        attributes.push('"')?;
    }
    Value::from_builder(attributes)
}

/// Text without tags and comments, white space as single spaces, named and numbered characters as themselves.
pub(super) fn striptags(value: &Value, arguments: &mut Arguments) -> Result<Value> {
    let text = text_of(value, arguments.meter())?;
    let mut bare = TextBuilder::new(arguments.meter())?;
    let mut rest: &str = &text;
    while let Some(start) = rest.find('<') {
        let (end, n) = match rest[start..].strip_prefix("<!--") {
            Some(inside) => (inside.find("-->").map(|end| start + 4 + end), 3),
            None => (rest[start..].find('>').map(|end| start + end), 1),
        };
        // What is never closed is no tag.
        let Some(end) = end else { break };
        bare.push_str(&rest[..start])?;
        rest = &rest[end + n..];
    }
    bare.push_str(rest)?;
    let mut collapsed = TextBuilder::new(arguments.meter())?;
    let words = bare.as_str().split(is_space);
    for (index, word) in words.filter(|word| !word.is_empty()).enumerate() {
        if index > 0 {
            collapsed.push(' ')?;
        }
        collapsed.push_str(word)?;
    }
    let mut plain = TextBuilder::new(arguments.meter())?;
    unescape(collapsed.as_str(), &mut plain)?;
    Value::from_builder(plain)
}

/// Writes a text with its references to characters resolved, as HTML 5 and Python's `html.unescape` do.
fn unescape(text: &str, out: &mut TextBuilder) -> Result<()> {
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        out.meter().work(2)?; // a search in the table of names
        out.push_str(&rest[..at])?;
        rest = &rest[at + 1..];
        let n = match rest.strip_prefix('#') {
            Some(number) => numbered(number, out)?.map(|n| n + 1),
            None => named(rest, out)?,
        };
        match n {
            Some(n) => rest = &rest[n..],
            None => out.push('&')?,
        }
    }
    out.push_str(rest)
}

/// Resolves a number, decimal or hexadecimal behind an x, with or without a semicolon; gives the bytes that it takes.
fn numbered(text: &str, out: &mut TextBuilder) -> Result<Option<usize>> {
    let (digits, radix) = match text.strip_prefix(['x', 'X']) {
        Some(digits) => (digits, 16),
        None => (text, 10),
    };
    let n_digits = digits
        .bytes()
        .take_while(|b| char::from(*b).is_digit(radix))
        .count();
    if n_digits == 0 {
        return Ok(None);
    }
    out.meter().scan(n_digits)?;
    let add = |number: u32, digit: char| {
        let digit = digit.to_digit(radix).unwrap_or(0);
        number.saturating_mul(radix).saturating_add(digit)
    };
    let number = digits[..n_digits].chars().fold(0, add);
    if let Some(character) = character(number) {
        out.push(character)?;
    }
    let has_end = digits[n_digits..].starts_with(';');
    Ok(Some(
        text.len() - digits.len() + n_digits + usize::from(has_end),
    ))
}

/// The character that a number stands for; none for numbers that stand for nothing.
fn character(number: u32) -> Option<char> {
    /// What the numbers from 0x80 on mean, as in Windows-1252; 0 where they mean themselves.
    const WINDOWS: [u16; 32] = [
        0x20ac, 0, 0x201a, 0x0192, 0x201e, 0x2026, 0x2020, 0x2021, 0x02c6, 0x2030, 0x0160, 0x2039,
        0x0152, 0, 0x017d, 0, 0, 0x2018, 0x2019, 0x201c, 0x201d, 0x2022, 0x2013, 0x2014, 0x02dc,
        0x2122, 0x0161, 0x203a, 0x0153, 0, 0x017e, 0x0178,
    ];
    let windows = number
        .checked_sub(0x80)
        .and_then(|at| WINDOWS.get(at as usize));
    match (number, windows) {
        (0, _) => Some(char::REPLACEMENT_CHARACTER),
        (0x0d, _) => Some('\r'),
        (_, Some(&code)) if code != 0 => char::from_u32(u32::from(code)),
        (_, Some(_)) => char::from_u32(number),
        (1..=8 | 0xb | 0xe..=0x1f | 0x7f, _) => None,
        (0xfdd0..=0xfdef, _) => None,
        // The last two of every plane are no characters.
        _ if number <= 0x10ffff && number & 0xfffe == 0xfffe => None,
        _ => Some(char::from_u32(number).unwrap_or(char::REPLACEMENT_CHARACTER)),
    }
}

/// Resolves the longest name that the text begins with; gives the bytes that it takes.
fn named(text: &str, out: &mut TextBuilder) -> Result<Option<usize>> {
    let ends = |c: char| matches!(c, '\t' | '\n' | '\u{c}' | ' ' | '<' | '&' | '#' | ';');
    let mut n = 0;
    for character in text.chars().take(NAME_CHARS_MAX) {
        if ends(character) {
            break;
        }
        n += character.len_utf8();
    }
    if n > 0 && text[n..].starts_with(';') {
        n += 1;
    }
    out.meter().work(4 * n)?;
    for length in (2..=n)
        .rev()
        .filter(|&length| text.is_char_boundary(length))
    {
        let Some(codes) = entity(&text[..length]) else {
            continue;
        };
        for code in codes.split(',') {
            // The table holds only characters.
            let code = u32::from_str_radix(code, 16).ok().and_then(char::from_u32);
            out.push(code.unwrap_or(char::REPLACEMENT_CHARACTER))?;
        }
        return Ok(Some(length));
    }
    Ok(None)
}

/// The codes of a name in [`ENTITIES`], found by halves.
fn entity(name: &str) -> Option<&'static str> {
    let mut rest = ENTITIES;
    while !rest.is_empty() {
        // The table is ASCII, so that every byte is a boundary.
        let middle = rest[..rest.len() / 2].rfind('\n').map_or(0, |at| at + 1);
        let end = rest[middle..]
            .find('\n')
            .map_or(rest.len(), |at| middle + at);
        let (found, codes) = rest[middle..end].split_once('=')?;
        match name.cmp(found) {
            std::cmp::Ordering::Equal => return Some(codes),
            std::cmp::Ordering::Less => rest = &rest[..middle],
            std::cmp::Ordering::Greater => rest = rest.get(end + 1..).unwrap_or(""),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_characters_is_sorted_and_sound() {
        let entries: Vec<_> = ENTITIES
            .lines()
            .map(|line| line.split_once('=').unwrap())
            .collect();
        assert_eq!(entries.len(), 2231);
        assert!(entries.windows(2).all(|pair| pair[0].0 < pair[1].0));
        assert!(ENTITIES.is_ascii());
        for (name, codes) in entries {
            assert_eq!(entity(name), Some(codes));
            for code in codes.split(',') {
                assert!(char::from_u32(u32::from_str_radix(code, 16).unwrap()).is_some());
            }
        }
        assert_eq!(entity("nosuch;"), None);
    }
}
