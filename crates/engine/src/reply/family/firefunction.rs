//! Firefunction: `functools[{"name": …, "arguments": {…}}]`.

use crate::reply::Family;
use crate::reply::shape::objects::Objects;

/// The family.
pub static FAMILY: Family = Family {
    name: "firefunction",
    evidence: &[&["functools["]],
    calls: &["functools"],
    parse: |scan| CALLS.parse(scan),
    ..Family::NONE
};

const CALLS: Objects = Objects::between(&["functools"], "");
