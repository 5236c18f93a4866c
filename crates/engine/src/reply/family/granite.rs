//! Granite 3 and Phi 4 mini: `<|tool_call|>[{"name": …, "arguments": {…}}]`.

use crate::reply::Family;
use crate::reply::shape::objects::Objects;

/// The family.
pub static FAMILY: Family = Family {
    name: "granite",
    evidence: &[&["<|tool_call|>"]],
    calls: &["<|tool_call|>"],
    within: &["<|/tool_call|>"],
    parse: |scan| CALLS.parse(scan),
    ..Family::NONE
};

const CALLS: Objects = Objects::between(&["<|tool_call|>"], "<|/tool_call|>");
