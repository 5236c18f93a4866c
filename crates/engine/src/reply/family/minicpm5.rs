//! MiniCPM 5: `<function name="NAME"><param name="KEY">VALUE</param></function>`.

use crate::reply::Family;
use crate::reply::shape::parameters::Parameters;

/// The family.
pub static FAMILY: Family = Family {
    name: "minicpm5",
    evidence: &[&["<function name=\"", "<param name=\""]],
    calls: &["<function name=\""],
    parse: |scan| CALLS.parse(scan),
    ..Family::NONE
};

const CALLS: Parameters = Parameters {
    section: &[],
    open: "<function name=\"",
    name_end: "\">",
    name_rest: "",
    key: "<param name=\"",
    key_end: "\">",
    value: "",
    value_end: "</param>",
    close: "</function>",
    section_end: "",
    kind: None,
};
