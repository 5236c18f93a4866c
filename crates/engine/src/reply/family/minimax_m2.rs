//! MiniMax M2: `<invoke name="NAME"><parameter name="KEY">VALUE</parameter></invoke>` between `<minimax:tool_call>` and its end.

use crate::reply::Family;
use crate::reply::shape::parameters::Parameters;

/// The family.
pub static FAMILY: Family = Family {
    name: "minimax-m2",
    evidence: &[&["<minimax:tool_call>"]],
    calls: &["<minimax:tool_call>"],
    within: &["</minimax:tool_call>"],
    thinks_anywhere: true,
    parse: |scan| CALLS.parse(scan),
    ..Family::NONE
};

const CALLS: Parameters = Parameters {
    section: &["<minimax:tool_call>"],
    open: "<invoke name=\"",
    name_end: "\">",
    name_rest: "",
    key: "<parameter name=\"",
    key_end: "\">",
    value: "",
    value_end: "</parameter>",
    close: "</invoke>",
    section_end: "</minimax:tool_call>",
    kind: None,
};
