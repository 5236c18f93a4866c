//! Gemma 4: `<|tool_call>call:NAME{KEY:<|"|>TEXT<|"|>,KEY:1}<tool_call|>`, keys and strings without the quotes of JSON.

use crate::reply::Family;
use crate::reply::scan::{DEPTH_MAX, Parsed, Scan, Stop};
use crate::reply::tools::{json_or_string, string};

/// The family.
pub static FAMILY: Family = Family {
    name: "gemma4",
    evidence: &[&["<|tool_call>call:"]],
    calls: &["<|tool_call>"],
    within: &["<|\"|>", "<tool_call|>"],
    thinks_anywhere: true,
    parse,
    ..Family::NONE
};

/// A string stands between two of these.
const QUOTE: &str = "<|\"|>";

fn parse(scan: &mut Scan) -> Parsed<()> {
    scan.mark("<|tool_call>call:")?;
    scan.begin();
    let rest = scan.rest();
    let end = rest.find(['{', '<', '\n']).ok_or(Stop::More)?;
    scan.call().name = Some(rest[..end].to_owned());
    scan.advance(end);
    let mut arguments = String::new();
    object(scan, &mut arguments, 0)?;
    scan.call().arguments = arguments;
    scan.end()?;
    scan.close("<tool_call|>")
}

fn object(scan: &mut Scan, out: &mut String, depth: usize) -> Parsed<()> {
    scan.mark("{")?;
    out.push('{');
    let mut is_first = true;
    loop {
        scan.space();
        if scan.has("}")? {
            out.push('}');
            return Ok(());
        }
        if !is_first {
            scan.mark(",")?;
            scan.space();
            out.push_str(", ");
        }
        let key = match scan.has(QUOTE)? {
            true => {
                let key = scan.until(QUOTE)?;
                scan.mark(":")?;
                key
            }
            false => scan.name_until(":")?,
        };
        out.push_str(&string(key));
        out.push_str(": ");
        value(scan, out, depth + 1)?;
        is_first = false;
    }
}

fn list(scan: &mut Scan, out: &mut String, depth: usize) -> Parsed<()> {
    scan.mark("[")?;
    out.push('[');
    let mut is_first = true;
    loop {
        scan.space();
        if scan.has("]")? {
            out.push(']');
            return Ok(());
        }
        if !is_first {
            scan.mark(",")?;
            out.push_str(", ");
        }
        value(scan, out, depth + 1)?;
        is_first = false;
    }
}

fn value(scan: &mut Scan, out: &mut String, depth: usize) -> Parsed<()> {
    scan.space();
    if depth > DEPTH_MAX {
        return Err(Stop::Bad);
    }
    match scan.rest().chars().next().ok_or(Stop::More)? {
        '{' => object(scan, out, depth),
        '[' => list(scan, out, depth),
        '<' => {
            scan.mark(QUOTE)?;
            out.push_str(&string(scan.until(QUOTE)?));
            Ok(())
        }
        _ => {
            let rest = scan.rest();
            let end = rest.find([',', '}', ']']).ok_or(Stop::More)?;
            scan.advance(end);
            out.push_str(&json_or_string(rest[..end].trim()));
            Ok(())
        }
    }
}
