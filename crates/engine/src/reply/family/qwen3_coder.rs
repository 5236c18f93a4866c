//! Qwen 3 Coder, Qwen 3.5, Nemotron 3, Step 3.5: `<tool_call><function=NAME><parameter=KEY>VALUE</parameter></function></tool_call>`.

use crate::reply::Family;
use crate::reply::shape::parameters::Parameters;

/// The family.
pub static FAMILY: Family = Family {
    name: "qwen3-coder",
    evidence: &[&["<function=", "<parameter="]],
    calls: &["<tool_call>", "<function="],
    within: &["</tool_call>"],
    parse: |scan| CALLS.parse(scan),
    ..Family::NONE
};

/// Calls of functions and parameters named in their tags.
pub(super) const CALLS: Parameters = Parameters {
    section: &["<tool_call>"],
    open: "<function=",
    name_end: ">",
    name_rest: "",
    key: "<parameter=",
    key_end: ">",
    value: "",
    value_end: "</parameter>",
    close: "</function>",
    section_end: "</tool_call>",
    kind: None,
};
