//! Apertus: `<|tools_prefix|>[{"NAME": {…}}]<|tools_suffix|>`.

use crate::reply::Family;
use crate::reply::shape::objects::Objects;

/// The family.
pub static FAMILY: Family = Family {
    name: "apertus",
    evidence: &[&["<|tools_prefix|>"]],
    calls: &["<|tools_prefix|>"],
    within: &["<|tools_suffix|>"],
    parse: |scan| CALLS.parse(scan),
    ..Family::NONE
};

const CALLS: Objects = Objects {
    name_is_key: true,
    ..Objects::between(&["<|tools_prefix|>"], "<|tools_suffix|>")
};
