//! Hermes, Qwen 2.5 and 3 and many others: `<tool_call>{"name": …, "arguments": {…}}</tool_call>`.

use crate::reply::Family;
use crate::reply::shape::objects::Objects;

/// The family.
pub static FAMILY: Family = Family {
    name: "hermes",
    evidence: &[&["<tool_call>"]],
    calls: &["<tool_call>"],
    within: &["</tool_call>"],
    parse: |scan| CALLS.parse(scan),
    ..Family::NONE
};

const CALLS: Objects = Objects::between(&["<tool_call>"], "</tool_call>");
