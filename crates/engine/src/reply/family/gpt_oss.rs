//! gpt-oss: messages on the channels `analysis`, `commentary` and `final`.

use super::harmony;
use crate::reply::Family;

/// The family.
pub static FAMILY: Family = Family {
    name: "gpt-oss",
    evidence: &[&["<|channel|>"]],
    calls: &[
        "<|channel|>commentary to=functions.",
        "<|channel|>analysis to=functions.",
        "<|start|>assistant to=functions.",
    ],
    within: &["<|constrain|>", "<|call|>"],
    dropped: &[
        "<|channel|>final<|message|>",
        "<|channel|>final <|constrain|>json<|message|>",
        "<|channel|>commentary<|message|>",
        "<|start|>assistant",
        "<|end|>",
        "<|return|>",
    ],
    lead: "<|start|>assistant",
    thinks_anywhere: true,
    parse: harmony::parse,
    ..Family::NONE
};
