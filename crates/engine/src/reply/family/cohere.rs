//! Command R7B and later: `<|START_ACTION|>[{"tool_call_id": …, "tool_name": …, "parameters": {…}}]<|END_ACTION|>`.

use crate::reply::Family;
use crate::reply::shape::objects::Objects;

/// The family.
pub static FAMILY: Family = Family {
    name: "cohere",
    evidence: &[&["<|START_ACTION|>"]],
    calls: &["<|START_ACTION|>"],
    within: &["<|END_ACTION|>"],
    dropped: &[
        "<|START_RESPONSE|>",
        "<|END_RESPONSE|>",
        "<|START_TEXT|>",
        "<|END_TEXT|>",
    ],
    parse: |scan| CALLS.parse(scan),
    ..Family::NONE
};

const CALLS: Objects = Objects::between(&["<|START_ACTION|>"], "<|END_ACTION|>");
