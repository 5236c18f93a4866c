//! Mistral Nemo and its age: `[TOOL_CALLS][{"name": …, "arguments": {…}, "id": …}]`.

use crate::reply::Family;
use crate::reply::shape::objects::Objects;

/// The family.
pub static FAMILY: Family = Family {
    name: "mistral-list",
    evidence: &[&["[TOOL_CALLS]"]],
    calls: &["[TOOL_CALLS]"],
    parse: |scan| CALLS.parse(scan),
    ..Family::NONE
};

const CALLS: Objects = Objects::between(&["[TOOL_CALLS]"], "");
