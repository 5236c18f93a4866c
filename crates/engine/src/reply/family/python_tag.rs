//! Llama 3: a bare `{"name": …, "parameters": {…}}` at the beginning of the answer.

use crate::reply::Family;
use crate::reply::scan::{Parsed, Scan};
use crate::reply::shape::objects::Objects;

/// The family.
pub static FAMILY: Family = Family {
    name: "python-tag",
    evidence: &[
        &["<|python_tag|>"],
        &["<|start_header_id|>", "\"parameters\""],
    ],
    calls: &["<|python_tag|>"],
    first_calls: &["{"],
    parse,
    ..Family::NONE
};

/// Nothing stands around the object, so only the name of a function tells it from other text.
const CALLS: Objects = Objects {
    known_only: true,
    ..Objects::between(&[], "")
};

fn parse(scan: &mut Scan) -> Parsed<()> {
    if scan.has("<|python_tag|>")? {
        scan.space();
    }
    CALLS.bare(scan)
}
