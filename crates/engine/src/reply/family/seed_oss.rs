//! Seed OSS: as Qwen 3 Coder, between `<seed:tool_call>` and `</seed:tool_call>`.

use super::qwen3_coder;
use crate::reply::Family;
use crate::reply::shape::parameters::Parameters;

/// The family.
pub static FAMILY: Family = Family {
    name: "seed-oss",
    evidence: &[&["<seed:tool_call>"]],
    calls: &["<seed:tool_call>"],
    within: &["</seed:tool_call>"],
    parse: |scan| CALLS.parse(scan),
    ..Family::NONE
};

const CALLS: Parameters = Parameters {
    section: &["<seed:tool_call>"],
    section_end: "</seed:tool_call>",
    ..qwen3_coder::CALLS
};
