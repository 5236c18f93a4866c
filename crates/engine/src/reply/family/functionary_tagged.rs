//! Functionary 3.1 and Llama 3.1 as its authors describe it: `<function=NAME>{…}</function>`.

use crate::reply::Family;
use crate::reply::shape::named::Named;

/// The family.
pub static FAMILY: Family = Family {
    name: "functionary-tagged",
    evidence: &[&["<function="]],
    calls: &["<function="],
    parse: |scan| CALLS.parse(scan),
    ..Family::NONE
};

const CALLS: Named = Named::alone(&["<function="], ">", &["</function>"]);
