//! Kimi K3: `<|open|>call tool="NAME" index="1"<|sep|><|open|>argument key="KEY" type="string"<|sep|>VALUE<|close|>argument<|sep|>…`.

use crate::reply::Family;
use crate::reply::shape::parameters::{Kind, Parameters};

/// The family.
pub static FAMILY: Family = Family {
    name: "kimi-k3",
    evidence: &[&["<|open|>", "<|close|>", "<|end_of_msg|>"]],
    calls: &["<|open|>tools<|sep|>"],
    dropped: &[
        "<|open|>response<|sep|>",
        "<|close|>response<|sep|>",
        "<|close|>message<|sep|>",
        "<|end_of_msg|>",
    ],
    thinks_anywhere: true,
    parse: |scan| CALLS.parse(scan),
    ..Family::NONE
};

const CALLS: Parameters = Parameters {
    section: &["<|open|>tools<|sep|>"],
    open: "<|open|>call tool=\"",
    name_end: "\"",
    name_rest: "<|sep|>",
    key: "<|open|>argument key=\"",
    key_end: "\"",
    value: "",
    value_end: "<|close|>argument<|sep|>",
    close: "<|close|>call<|sep|>",
    section_end: "<|close|>tools<|sep|>",
    kind: Some(Kind {
        string: "type=\"string\"",
        end: "<|sep|>",
    }),
};
