//! GigaChat 3: `function call<|role_sep|>{"name": …, "arguments": {…}}` as a message of its own, or behind `<|function_call|>`.

use crate::reply::Family;
use crate::reply::shape::objects::Objects;

/// The family.
pub static FAMILY: Family = Family {
    name: "gigachat",
    evidence: &[&["<|role_sep|>", "<|message_sep|>"]],
    calls: &[
        "<|message_sep|>\n\nfunction call<|role_sep|>",
        "<|function_call|>",
    ],
    within: &["<|message_sep|>"],
    parse: |scan| CALLS.parse(scan),
    ..Family::NONE
};

const CALLS: Objects = Objects::between(
    &[
        "<|message_sep|>\n\nfunction call<|role_sep|>",
        "<|function_call|>",
    ],
    "<|message_sep|>",
);
