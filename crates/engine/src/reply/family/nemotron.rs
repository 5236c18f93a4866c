//! Nemotron: `<TOOLCALL>[{"name": …, "arguments": {…}}]</TOOLCALL>`.

use crate::reply::Family;
use crate::reply::shape::objects::Objects;

/// The family.
pub static FAMILY: Family = Family {
    name: "nemotron",
    evidence: &[&["<TOOLCALL>"]],
    calls: &["<TOOLCALL>"],
    within: &["</TOOLCALL>"],
    parse: |scan| CALLS.parse(scan),
    ..Family::NONE
};

const CALLS: Objects = Objects::between(&["<TOOLCALL>"], "</TOOLCALL>");
