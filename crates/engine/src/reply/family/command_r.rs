//! Command R and R+: `Action: ```json [{"tool_name": …, "parameters": {…}}] ``` `.

use crate::reply::Family;
use crate::reply::shape::objects::Objects;

/// The family.
pub static FAMILY: Family = Family {
    name: "command-r",
    evidence: &[&["Action:", "\"tool_name\""]],
    calls: &["Action:"],
    within: &["```"],
    parse: |scan| CALLS.parse(scan),
    ..Family::NONE
};

const CALLS: Objects = Objects {
    before: &["```json"],
    ..Objects::between(&["Action:"], "```")
};
