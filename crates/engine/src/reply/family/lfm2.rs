//! LFM 2: `<|tool_call_start|>[NAME(KEY="VALUE", …)]<|tool_call_end|>`, as Python writes calls.

use crate::reply::Family;
use crate::reply::scan::{Parsed, Scan};
use crate::reply::shape::python;

/// The family.
pub static FAMILY: Family = Family {
    name: "lfm2",
    evidence: &[
        &["<|tool_list_start|>"],
        &["List of tools: ["],
        &["<|tool_call_start|>"],
    ],
    calls: &["<|tool_call_start|>"],
    within: &["<|tool_call_end|>"],
    parse,
    ..Family::NONE
};

fn parse(scan: &mut Scan) -> Parsed<()> {
    scan.mark("<|tool_call_start|>")?;
    scan.space();
    scan.mark("[")?;
    loop {
        scan.space();
        call(scan)?;
        scan.space();
        if scan.has("]")? {
            return scan.close("<|tool_call_end|>");
        }
        scan.mark(",")?;
    }
}

fn call(scan: &mut Scan) -> Parsed<()> {
    scan.begin();
    let name = scan.name_until("(")?;
    scan.call().name = Some(name.to_owned());
    let mut is_first = true;
    loop {
        scan.space();
        if scan.has(")")? {
            break;
        }
        if !is_first {
            scan.mark(",")?;
            scan.space();
        }
        let key = scan.name_until("=")?;
        scan.space();
        let mut value = String::new();
        python::value(scan, &mut value, 0)?;
        scan.argument(key, &value);
        is_first = false;
    }
    scan.close_arguments();
    scan.end()
}
