//! Formats: `%` with its directives, and `str.format` with its braces.

use std::rc::Rc;

use super::{Arguments, select};
use crate::error::{Result, TemplateError};
use crate::meter::{Meter, TextBuilder};
use crate::value::{Number, Text, Value, display, repr, write_float};

/// How one value is written.
#[derive(Default)]
struct Style {
    fill: Option<char>,
    /// `<`, `>`, `^` or `=`, which pads behind the sign.
    align: Option<char>,
    plus: Option<char>,
    alternate: bool,
    commas: bool,
    width: usize,
    precision: Option<usize>,
    kind: Option<char>,
}

/// Digits behind the point that a format may ask for.
const PRECISION_MAX: usize = 1000;

/// The filter: `format % arguments`, the arguments by place or by name.
pub(super) fn format_filter(value: &Value, arguments: &mut Arguments) -> Result<Value> {
    let meter = Rc::clone(arguments.meter());
    let named = arguments.rest_named();
    let values = if named.is_empty() {
        let mut list = crate::value::ListBuilder::new(&meter)?;
        list.extend(&arguments.rest())?;
        list.tuple()?
    } else {
        let mut map = crate::value::MapBuilder::new(&meter)?;
        for (name, value) in named {
            map.insert(Value::Text(name), value)?;
        }
        map.value()?
    };
    printf(value.as_str().unwrap_or_default(), &values, &meter)
}

/// Python's `format % values`: a tuple's items one by one, a map's by name, other values alone.
pub(crate) fn printf(format: &str, values: &Value, meter: &Rc<Meter>) -> Result<Value> {
    meter.scan(format.len())?;
    let single = std::slice::from_ref(values);
    let mut rest = match values {
        Value::List(list) if list.is_tuple() => list.items(),
        _ => single,
    }
    .iter();
    let mut out = TextBuilder::new(meter)?;
    let mut characters = format.chars().peekable();
    while let Some(character) = characters.next() {
        if character != '%' {
            out.push(character)?;
            continue;
        }
        if characters.next_if_eq(&'%').is_some() {
            out.push('%')?;
            continue;
        }
        let mut named = None;
        if characters.next_if_eq(&'(').is_some() {
            let name: String = characters.by_ref().take_while(|&c| c != ')').collect();
            let key = Value::text(meter, &name)?;
            named = Some(select::attribute_of(values, Some(&key), meter)?);
        }
        let style = directive(&mut characters)?;
        let value = match &named {
            Some(value) => value,
            None => rest
                .next()
                .ok_or_else(|| TemplateError::operation("the format has too few values"))?,
        };
        write(value, &style, &mut out)?;
    }
    Value::from_builder(out)
}

/// Flags, width, precision and type behind a `%`.
fn directive(characters: &mut std::iter::Peekable<std::str::Chars>) -> Result<Style> {
    let mut style = Style {
        align: Some('>'),
        ..Style::default()
    };
    while let Some(flag) = characters.next_if(|c| "-+ #0".contains(*c)) {
        match flag {
            '-' => style.align = Some('<'),
            '0' if style.align != Some('<') => {
                (style.fill, style.align) = (Some('0'), Some('='));
            }
            '#' => style.alternate = true,
            '+' | ' ' => style.plus = Some(flag),
            _ => {}
        }
    }
    let number = |characters: &mut std::iter::Peekable<std::str::Chars>| {
        let mut n = 0usize;
        while let Some(digit) = characters.next_if(char::is_ascii_digit) {
            n = n
                .saturating_mul(10)
                .saturating_add(digit as usize - '0' as usize);
        }
        n
    };
    style.width = number(characters);
    if characters.next_if_eq(&'.').is_some() {
        style.precision = Some(number(characters));
    }
    while characters.next_if(|c| "hlL".contains(*c)).is_some() {}
    let kind = characters.next();
    style.kind = match kind {
        Some('i' | 'u') => Some('d'),
        Some('s' | 'r' | 'd' | 'x' | 'X' | 'o' | 'f' | 'F' | 'e' | 'E' | 'c') => kind,
        _ => {
            return Err(TemplateError::operation(
                "the format has an unknown directive",
            ));
        }
    };
    Ok(style)
}

/// Writes one value.
fn write(value: &Value, style: &Style, out: &mut TextBuilder) -> Result<()> {
    let mut body = TextBuilder::new(out.meter())?;
    let number = Number::of(value).filter(|_| !matches!(style.kind, Some('s' | 'r')));
    let is_number = number.is_some() && !matches!(style.kind, Some('c'));
    match (style.kind, number) {
        (Some('r'), _) => repr(value, &mut body)?,
        (Some('c'), Some(Number::Integer(n))) => {
            let character = u32::try_from(n).ok().and_then(char::from_u32);
            body.push(character.unwrap_or('\u{fffd}'))?;
        }
        (None | Some('s' | 'c'), None) | (Some('s'), _) => display(value, &mut body)?,
        (_, Some(number)) => body.push_str(&digits(number, style)?)?,
        (Some(kind), None) => {
            return Err(TemplateError::operation(format!(
                "a {} cannot be formatted by '{kind}'",
                value.kind()
            )));
        }
    }
    let text = body.as_str();
    let text = match style.precision {
        Some(n) if !is_number => {
            out.meter().scan(text.len())?;
            let end = text.char_indices().nth(n);
            &text[..end.map_or(text.len(), |(byte, _)| byte)]
        }
        _ => text,
    };
    let sign = match (text.starts_with('-'), style.plus) {
        (true, _) => "-",
        (false, Some('+')) if is_number => "+",
        (false, Some(' ')) if is_number => " ",
        _ => "",
    };
    let unsigned = if is_number {
        text.strip_prefix('-').unwrap_or(text)
    } else {
        text
    };
    aligned(
        if is_number { sign } else { "" },
        unsigned,
        is_number,
        style,
        out,
    )
}

fn aligned(
    sign: &str,
    text: &str,
    is_number: bool,
    style: &Style,
    out: &mut TextBuilder,
) -> Result<()> {
    out.meter().scan(text.len())?;
    let n = style
        .width
        .saturating_sub(sign.len() + text.chars().count());
    let align = style.align.unwrap_or(if is_number { '>' } else { '<' });
    let (before, behind_sign, after) = match align {
        '<' => (0, 0, n),
        '^' => (n / 2, 0, n - n / 2),
        '=' if is_number => (0, n, 0),
        _ => (n, 0, 0),
    };
    // only numbers are filled with zeros by '0'
    let fill = match style.fill {
        Some('0') if align == '=' && !is_number => ' ',
        fill => fill.unwrap_or(' '),
    };
    let fill = fill.to_string();
    out.push_repeated(&fill, before)?;
    out.push_str(sign)?;
    out.push_repeated(&fill, behind_sign)?;
    out.push_str(text)?;
    out.push_repeated(&fill, after)
}

/// A number in the digits a style asks for.
fn digits(number: Number, style: &Style) -> Result<String> {
    let precision = style.precision.unwrap_or(6);
    if precision > PRECISION_MAX {
        return Err(TemplateError::operation(format!(
            "a format has at most {PRECISION_MAX} digits"
        )));
    }
    let prefix = |prefix| if style.alternate { prefix } else { "" };
    let text = match (style.kind, number) {
        (Some('d') | None, Number::Integer(n)) => n.to_string(),
        (Some('d'), Number::Float(x)) if x.is_finite() => format!("{:.0}", x.trunc()),
        (Some('x'), Number::Integer(n)) => {
            signed(n, prefix("0x"), format!("{:x}", n.unsigned_abs()))
        }
        (Some('X'), Number::Integer(n)) => {
            signed(n, prefix("0X"), format!("{:X}", n.unsigned_abs()))
        }
        (Some('o'), Number::Integer(n)) => {
            signed(n, prefix("0o"), format!("{:o}", n.unsigned_abs()))
        }
        (Some('b'), Number::Integer(n)) => {
            signed(n, prefix("0b"), format!("{:b}", n.unsigned_abs()))
        }
        (Some('f' | 'F'), number) => format!("{:.precision$}", number.to_f64()).to_lowercase(),
        (Some('%'), number) => format!("{:.precision$}%", number.to_f64() * 100.0),
        (Some('e' | 'E'), number) => {
            let text = format!("{:.precision$e}", number.to_f64());
            let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
            let (sign, exponent) = match exponent.strip_prefix('-') {
                Some(exponent) => ('-', exponent),
                None => ('+', exponent),
            };
            format!("{digits}e{sign}{exponent:0>2}")
        }
        (None, Number::Float(x)) if style.precision.is_none() => write_float(x),
        _ => {
            return Err(TemplateError::operation(
                "the number cannot be formatted so",
            ));
        }
    };
    if !style.commas {
        return Ok(text);
    }
    let end = text
        .find(|c: char| c != '-' && !c.is_ascii_digit())
        .unwrap_or(text.len());
    let mut grouped = String::new();
    for (index, digit) in text[..end].chars().enumerate() {
        let left = end - index;
        if left % 3 == 0 && index > usize::from(text.starts_with('-')) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    Ok(grouped + &text[end..])
}

fn signed(n: i128, prefix: &str, digits: String) -> String {
    format!("{}{prefix}{digits}", if n < 0 { "-" } else { "" })
}

/// `str.format`: fields in braces by place or name, with `!r` and a style behind a colon.
pub(super) fn braces(format: &Rc<Text>, arguments: &mut Arguments) -> Result<Value> {
    let meter = Rc::clone(arguments.meter());
    let values = arguments.rest();
    let named = arguments.rest_named();
    let mut out = TextBuilder::new(&meter)?;
    let mut next = 0;
    let mut rest = format.as_str();
    while let Some(place) = rest.find(['{', '}']) {
        out.push_str(&rest[..place])?;
        let brace = &rest[place..place + 1];
        rest = &rest[place + 1..];
        if let Some(after) = rest.strip_prefix(brace) {
            out.push_str(brace)?;
            rest = after;
            continue;
        }
        let Some((field, after)) = rest.split_once('}').filter(|_| brace == "{") else {
            return Err(TemplateError::operation("format: a brace is alone"));
        };
        rest = after;
        let (field, spec) = field.split_once(':').unwrap_or((field, ""));
        let (path, conversion) = field.split_once('!').unwrap_or((field, ""));
        let (first, path) = path.split_once('.').unwrap_or((path, ""));
        let index = match first {
            "" => {
                next += 1;
                Some(next - 1)
            }
            first => first.parse().ok(),
        };
        let found = match index {
            Some(index) => values.get(index),
            None => named
                .iter()
                .find(|(name, _)| name.as_str() == first)
                .map(|(_, value)| value),
        };
        meter.work(1 + named.len() / 8)?;
        let missing = || TemplateError::operation("format: a field has no value");
        let mut value = found.ok_or_else(missing)?.clone();
        if !path.is_empty() {
            let path = Value::text(&meter, path)?;
            value = select::attribute_of(&value, Some(&path), &meter)?;
        }
        let mut style = specification(spec)?;
        if !conversion.is_empty() {
            style.kind = Some(if conversion == "r" { 'r' } else { 's' });
        }
        write(&value, &style, &mut out)?;
    }
    out.push_str(rest)?;
    Value::from_builder(out)
}

/// What stands behind the colon of a field.
fn specification(text: &str) -> Result<Style> {
    let mut style = Style::default();
    let is_align = |c: char| "<>^=".contains(c);
    let mut characters = text.chars().peekable();
    match (text.chars().next(), text.chars().nth(1)) {
        (Some(fill), Some(align)) if is_align(align) => {
            (style.fill, style.align) = (Some(fill), Some(align));
            characters.next();
            characters.next();
        }
        (Some(align), _) if is_align(align) => {
            style.align = Some(align);
            characters.next();
        }
        _ => {}
    }
    style.plus = characters
        .next_if(|c| "+- ".contains(*c))
        .filter(|&c| c != '-');
    style.alternate = characters.next_if_eq(&'#').is_some();
    if characters.next_if_eq(&'0').is_some() && style.align.is_none() {
        (style.fill, style.align) = (Some('0'), Some('='));
    }
    let mut number = 0usize;
    while let Some(digit) = characters.next_if(char::is_ascii_digit) {
        number = number
            .saturating_mul(10)
            .saturating_add(digit as usize - '0' as usize);
    }
    style.width = number;
    style.commas = characters.next_if_eq(&',').is_some();
    if characters.next_if_eq(&'.').is_some() {
        let mut precision = 0usize;
        while let Some(digit) = characters.next_if(char::is_ascii_digit) {
            precision = precision
                .saturating_mul(10)
                .saturating_add(digit as usize - '0' as usize);
        }
        style.precision = Some(precision);
    }
    style.kind = characters.next();
    match (style.kind, characters.next()) {
        (
            None | Some('s' | 'd' | 'x' | 'X' | 'o' | 'b' | 'f' | 'F' | 'e' | 'E' | '%' | 'c'),
            None,
        ) => Ok(style),
        _ => Err(TemplateError::operation(
            "format: a field has an unknown style",
        )),
    }
}
