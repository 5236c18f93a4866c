//! MiniMax M3: elements named after the parameters, `<invoke name="NAME"><KEY>VALUE</KEY></invoke>`, each tag behind a mark of its own.

use crate::reply::Family;
use crate::reply::scan::{DEPTH_MAX, Parsed, Scan, Stop};
use crate::reply::tools::{json_or_string, string};

/// The family.
pub static FAMILY: Family = Family {
    name: "minimax-m3",
    evidence: &[&["]<]minimax[>["]],
    calls: &["]<]minimax[>[<tool_call>"],
    within: &["]<]minimax[>["],
    thinks_anywhere: true,
    parse,
    ..Family::NONE
};

/// Every tag of a call begins with it.
const TAG: &str = "]<]minimax[>[<";

fn parse(scan: &mut Scan) -> Parsed<()> {
    tag(scan, "tool_call>")?;
    scan.space();
    loop {
        call(scan)?;
        scan.space();
        scan.mark(TAG)?;
        if scan.has("/tool_call>")? {
            return Ok(());
        }
        scan.back(TAG.len());
    }
}

fn tag(scan: &mut Scan, rest: &str) -> Parsed<()> {
    scan.mark(TAG)?;
    scan.mark(rest)
}

fn call(scan: &mut Scan) -> Parsed<()> {
    tag(scan, "invoke name=\"")?;
    scan.begin();
    let name = scan.name_until("\">")?.to_owned();
    scan.call().name = Some(name.clone());
    loop {
        scan.space();
        scan.mark(TAG)?;
        if scan.has("/invoke>")? {
            break;
        }
        let (key, value) = element(scan, &name, 0)?;
        scan.argument(&key, &value);
    }
    scan.close_arguments();
    scan.end()
}

/// An element behind its first bracket: its name, and its content as JSON. Elements named `item` make a list, others an object.
fn element(scan: &mut Scan, function: &str, depth: usize) -> Parsed<(String, String)> {
    if depth > DEPTH_MAX {
        return Err(Stop::Bad);
    }
    let key = scan.name_until(">")?.to_owned();
    let close = format!("/{key}>");
    let text = scan.until(TAG)?;
    if scan.has(&close)? {
        let value = match depth {
            0 => scan.tools().json_of(function, &key, text),
            _ => json_or_string(text),
        };
        return Ok((key, value));
    }
    let mut members = Vec::new();
    loop {
        members.push(element(scan, function, depth + 1)?);
        scan.space();
        scan.mark(TAG)?;
        if scan.has(&close)? {
            break;
        }
    }
    let is_list = members.iter().all(|(key, _)| key == "item");
    let shown = members.into_iter().map(|(key, value)| match is_list {
        true => value,
        false => format!("{}: {value}", string(&key)),
    });
    let shown = shown.collect::<Vec<_>>().join(", ");
    Ok((
        key,
        if is_list {
            format!("[{shown}]")
        } else {
            format!("{{{shown}}}")
        },
    ))
}
