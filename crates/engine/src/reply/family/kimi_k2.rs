//! Kimi K2: `<|tool_call_begin|>functions.NAME:0<|tool_call_argument_begin|>{…}<|tool_call_end|>` in a section.

use crate::reply::Family;
use crate::reply::shape::named::Named;

/// The family.
pub static FAMILY: Family = Family {
    name: "kimi-k2",
    evidence: &[&["<|tool_calls_section_begin|>", "<|tool_call_begin|>"]],
    calls: &["<|tool_calls_section_begin|>", "<|tool_call_begin|>"],
    within: &[
        "<|tool_call_argument_begin|>",
        "<|tool_call_end|>",
        "<|tool_calls_section_end|>",
    ],
    parse: |scan| CALLS.parse(scan),
    ..Family::NONE
};

const CALLS: Named = Named {
    section: &["<|tool_calls_section_begin|>"],
    section_end: "<|tool_calls_section_end|>",
    split: name_of,
    ..Named::alone(
        &["<|tool_call_begin|>"],
        "<|tool_call_argument_begin|>",
        &["<|tool_call_end|>"],
    )
};

/// The whole is the id, and the name stands inside: `functions.NAME:0`.
fn name_of(id: &str) -> (Option<&str>, &str) {
    let name = id.strip_prefix("functions.").unwrap_or(id);
    let name = name.rsplit_once(':').map_or(name, |(name, _)| name);
    (Some(id), name)
}
