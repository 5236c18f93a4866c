//! Functionary 3.2: every part of an answer begins with its recipient, `>>>all` or `>>>NAME`.

use crate::reply::Family;
use crate::reply::shape::named::Named;

/// The family.
pub static FAMILY: Family = Family {
    name: "functionary",
    evidence: &[&[">>>all", ">>>${recipient}"]],
    calls: &[">>>"],
    dropped: &[">>>all\n"],
    lead: ">>>",
    parse: |scan| CALLS.parse(scan),
    ..Family::NONE
};

const CALLS: Named = Named::alone(&[">>>"], "\n", &[]);
