//! Mistral Small 3.2, Devstral, Ministral 3: `[TOOL_CALLS]NAME[CALL_ID]ID[ARGS]{…}`, the id in some of them only.

use crate::reply::Family;
use crate::reply::shape::named::Named;

/// The family.
pub static FAMILY: Family = Family {
    name: "mistral-named",
    evidence: &[&["[TOOL_CALLS]", "[ARGS]"]],
    calls: &["[TOOL_CALLS]"],
    within: &["[CALL_ID]", "[ARGS]"],
    parse: |scan| CALLS.parse(scan),
    ..Family::NONE
};

const CALLS: Named = Named {
    id_start: Some("[CALL_ID]"),
    ..Named::alone(&["[TOOL_CALLS]"], "[ARGS]", &[])
};
