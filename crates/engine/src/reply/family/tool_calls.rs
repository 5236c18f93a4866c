//! Apriel and MiniMax M1: a list of objects, or one per line, between `<tool_calls>` and `</tool_calls>`.

use crate::reply::Family;
use crate::reply::shape::objects::Objects;

/// The family.
pub static FAMILY: Family = Family {
    name: "tool-calls",
    evidence: &[&["<tool_calls>"]],
    calls: &["<tool_calls>"],
    within: &["</tool_calls>"],
    parse: |scan| CALLS.parse(scan),
    ..Family::NONE
};

const CALLS: Objects = Objects::between(&["<tool_calls>"], "</tool_calls>");
