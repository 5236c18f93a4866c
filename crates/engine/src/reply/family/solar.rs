//! Solar Open: `<|tool_call:begin|>ID<|tool_call:name|>NAME<|tool_call:args|>{…}<|tool_call:end|>` in a section.

use crate::reply::Family;
use crate::reply::shape::named::Named;

/// The family.
pub static FAMILY: Family = Family {
    name: "solar",
    evidence: &[&["<|tool_call:begin|>"]],
    calls: &["<|tool_calls|>", "<|tool_call:begin|>"],
    within: &[
        "<|tool_call:name|>",
        "<|tool_call:args|>",
        "<|tool_call:end|>",
        "<|calls|>",
    ],
    dropped: &[
        "<|begin|>assistant<|content|>",
        "<|begin|>assistant",
        "<|content|>",
        "<|end|>",
    ],
    lead: "<|begin|>assistant",
    thinks_anywhere: true,
    parse: |scan| CALLS.parse(scan),
    ..Family::NONE
};

const CALLS: Named = Named {
    section: &["<|tool_calls|>"],
    section_end: "<|calls|>",
    id_end: Some("<|tool_call:name|>"),
    ..Named::alone(
        &["<|tool_call:begin|>"],
        "<|tool_call:args|>",
        &["<|tool_call:end|>"],
    )
};
