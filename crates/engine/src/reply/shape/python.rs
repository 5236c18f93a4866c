//! Values as Python writes them, and with the words of JSON too.

use crate::reply::scan::{DEPTH_MAX, Parsed, Scan, Stop};
use crate::reply::tools::string;

/// Words that stand for values.
const WORDS: &[(&str, &str)] = &[
    ("True", "true"),
    ("False", "false"),
    ("None", "null"),
    ("true", "true"),
    ("false", "false"),
    ("null", "null"),
];

/// Reads a value and writes it as JSON.
pub fn value(scan: &mut Scan, out: &mut String, depth: usize) -> Parsed<()> {
    if depth > DEPTH_MAX {
        return Err(Stop::Bad);
    }
    match scan.rest().chars().next().ok_or(Stop::More)? {
        '[' => members(scan, out, ('[', "]"), depth),
        '(' => members(scan, out, ('[', ")"), depth),
        '{' => members(scan, out, ('{', "}"), depth),
        quote @ ('"' | '\'') => {
            let text = quoted(scan, quote)?;
            out.push_str(&string(&text));
            Ok(())
        }
        _ => {
            let rest = scan.rest();
            let end = rest.find([',', ')', ']', '}', ':', ' ', '\n']);
            let end = end.ok_or(Stop::More)?;
            let word = &rest[..end];
            let known = WORDS.iter().find(|(name, _)| *name == word);
            let number = || {
                let number = serde_json::from_str::<serde_json::Number>(word);
                number.map(|_| word).map_err(|_| Stop::Bad)
            };
            let json = known.map_or_else(number, |(_, json)| Ok(*json))?;
            scan.advance(end);
            out.push_str(json);
            Ok(())
        }
    }
}

/// A list or a map; a comma may stand before its end.
fn members(
    scan: &mut Scan,
    out: &mut String,
    (open, close): (char, &str),
    depth: usize,
) -> Parsed<()> {
    scan.advance(1);
    out.push(open);
    let mut is_first = true;
    loop {
        scan.space();
        if scan.has(close)? {
            out.push(if open == '{' { '}' } else { ']' });
            return Ok(());
        }
        if !is_first {
            scan.mark(",")?;
            scan.space();
            if scan.rest().starts_with(close) {
                continue;
            }
            out.push_str(", ");
        }
        if open == '{' && !scan.rest().starts_with(['"', '\'']) {
            return Err(if scan.rest().is_empty() {
                Stop::More
            } else {
                Stop::Bad
            });
        }
        value(scan, out, depth + 1)?;
        if open == '{' {
            scan.space();
            scan.mark(":")?;
            scan.space();
            out.push_str(": ");
            value(scan, out, depth + 1)?;
        }
        is_first = false;
    }
}

/// A string between quotes.
fn quoted(scan: &mut Scan, quote: char) -> Parsed<String> {
    let mut text = String::new();
    let mut characters = scan.rest().char_indices().skip(1);
    while let Some((at, character)) = characters.next() {
        match character {
            _ if character == quote => {
                scan.advance(at + 1);
                return Ok(text);
            }
            '\\' => match characters.next().ok_or(Stop::More)?.1 {
                'n' => text.push('\n'),
                't' => text.push('\t'),
                'r' => text.push('\r'),
                other if other == quote || other == '\\' => text.push(other),
                other => text.extend(['\\', other]),
            },
            other => text.push(other),
        }
    }
    Err(Stop::More)
}
