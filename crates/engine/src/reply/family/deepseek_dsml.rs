//! DeepSeek V3.2 and V4: `<｜DSML｜invoke name="NAME"><｜DSML｜parameter name="KEY" string="true">VALUE</｜DSML｜parameter></｜DSML｜invoke>`.

use crate::reply::Family;
use crate::reply::scan::{Parsed, Scan};
use crate::reply::shape::parameters::{Kind, Parameters};

/// The family.
pub static FAMILY: Family = Family {
    name: "deepseek-dsml",
    evidence: &[&["dsml_token"], &["DSML"]],
    calls: &["<｜DSML｜function_calls>", "<｜DSML｜tool_calls>"],
    within: &["｜DSML｜"],
    parse,
    ..Family::NONE
};

const OLD: Parameters = Parameters {
    section: &["<｜DSML｜function_calls>"],
    section_end: "</｜DSML｜function_calls>",
    ..CALLS
};

const CALLS: Parameters = Parameters {
    section: &["<｜DSML｜tool_calls>"],
    open: "<｜DSML｜invoke name=\"",
    name_end: "\">",
    name_rest: "",
    key: "<｜DSML｜parameter name=\"",
    key_end: "\"",
    value: "",
    value_end: "</｜DSML｜parameter>",
    close: "</｜DSML｜invoke>",
    section_end: "</｜DSML｜tool_calls>",
    kind: Some(Kind {
        string: "string=\"true\"",
        end: ">",
    }),
};

fn parse(scan: &mut Scan) -> Parsed<()> {
    match scan.rest().starts_with("<｜DSML｜f") {
        true => OLD.parse(scan),
        false => CALLS.parse(scan),
    }
}
