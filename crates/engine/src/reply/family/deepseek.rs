//! DeepSeek R1, V3 and V3.1: `<｜tool▁call▁begin｜>function<｜tool▁sep｜>NAME` and fenced JSON, or `NAME<｜tool▁sep｜>{…}`.

use crate::reply::Family;
use crate::reply::scan::{Parsed, Scan};

/// The family.
pub static FAMILY: Family = Family {
    name: "deepseek",
    evidence: &[&["<｜tool▁calls▁begin｜>"]],
    calls: &["<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>"],
    within: &[
        "<｜tool▁sep｜>",
        "<｜tool▁call▁end｜>",
        "<｜tool▁calls▁end｜>",
    ],
    parse,
    ..Family::NONE
};

/// Newer models leave out the word and the fences.
fn parse(scan: &mut Scan) -> Parsed<()> {
    if scan.has("<｜tool▁calls▁begin｜>")? {
        scan.space();
    }
    scan.mark("<｜tool▁call▁begin｜>")?;
    loop {
        scan.begin();
        let mut name = scan.name_until("<｜tool▁sep｜>")?;
        if name == "function" {
            name = scan.name_until("\n")?;
        }
        scan.call().name = Some(name.to_owned());
        scan.space();
        let is_fenced = scan.has("```json")?;
        scan.space();
        scan.arguments()?;
        scan.end()?;
        if is_fenced {
            scan.close("```")?;
        }
        scan.close("<｜tool▁call▁end｜>")?;
        scan.space();
        if scan.has("<｜tool▁calls▁end｜>")? || !scan.has("<｜tool▁call▁begin｜>")? {
            return Ok(());
        }
    }
}
