//! GLM 4.5 and later, Ling 3, Laguna, Spark: `<tool_call>NAME<arg_key>KEY</arg_key><arg_value>VALUE</arg_value></tool_call>`.

use crate::reply::Family;
use crate::reply::shape::parameters::Parameters;

/// The family.
pub static FAMILY: Family = Family {
    name: "glm",
    evidence: &[&["<arg_key>"]],
    calls: &["<tool_call>"],
    within: &[
        "<arg_key>",
        "</arg_key>",
        "<arg_value>",
        "</arg_value>",
        "</tool_call>",
    ],
    parse: |scan| CALLS.parse(scan),
    ..Family::NONE
};

const CALLS: Parameters = Parameters {
    section: &[],
    open: "<tool_call>",
    name_end: "",
    name_rest: "",
    key: "<arg_key>",
    key_end: "</arg_key>",
    value: "<arg_value>",
    value_end: "</arg_value>",
    close: "</tool_call>",
    section_end: "",
    kind: None,
};
