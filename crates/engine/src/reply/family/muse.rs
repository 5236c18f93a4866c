//! Muse Glimmer: messages with a recipient, and `<atem:invoke name="NAME"><atem:parameter name="KEY">VALUE</atem:parameter></atem:invoke>`.

use crate::reply::Family;
use crate::reply::scan::{Parsed, Scan};
use crate::reply::shape::parameters::Parameters;

/// The family.
pub static FAMILY: Family = Family {
    name: "muse",
    evidence: &[&["<atem:function_calls>"]],
    calls: &["<|start|>assistant to=", "<atem:function_calls>"],
    within: &["<|message|>"],
    dropped: &[
        "<|start|>assistant to=user<|message|>",
        "<|start|>assistant<|message|>",
        "<|start|>assistant",
        "<|eom|>",
    ],
    lead: "<|start|>assistant",
    thinks_anywhere: true,
    parse,
    ..Family::NONE
};

const CALLS: Parameters = Parameters {
    section: &["<atem:function_calls>"],
    open: "<atem:invoke name=\"",
    name_end: "\">",
    name_rest: "",
    key: "<atem:parameter name=\"",
    key_end: "\">",
    value: "",
    value_end: "</atem:parameter>",
    close: "</atem:invoke>",
    section_end: "</atem:function_calls>",
    kind: None,
};

/// The recipient is said before the calls, and again inside.
fn parse(scan: &mut Scan) -> Parsed<()> {
    if scan.has("<|start|>assistant to=")? {
        scan.name_until("<|message|>")?;
        scan.space();
    }
    CALLS.parse(scan)
}
