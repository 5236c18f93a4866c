//! Hunyuan 3: as GLM, each tag with an ending of its own: `<tool_call:opensource>NAME<tool_sep:opensource>…`.

use crate::reply::shape::parameters::Parameters;
use crate::reply::{Family, Reasoning};

/// The family.
pub static FAMILY: Family = Family {
    name: "hy3",
    evidence: &[&["<tool_call{}>", ":opensource"]],
    calls: &["<tool_calls:opensource>", "<tool_call:opensource>"],
    within: &[
        "<tool_sep:opensource>",
        "</tool_call:opensource>",
        "</tool_calls:opensource>",
    ],
    reasoning: Some(Reasoning {
        start: "<think:opensource>",
        end: "</think:opensource>",
    }),
    parse: |scan| CALLS.parse(scan),
    ..Family::NONE
};

const CALLS: Parameters = Parameters {
    section: &["<tool_calls:opensource>"],
    open: "<tool_call:opensource>",
    name_end: "<tool_sep:opensource>",
    name_rest: "",
    key: "<arg_key:opensource>",
    key_end: "</arg_key:opensource>",
    value: "<arg_value:opensource>",
    value_end: "</arg_value:opensource>",
    close: "</tool_call:opensource>",
    section_end: "</tool_calls:opensource>",
    kind: None,
};
