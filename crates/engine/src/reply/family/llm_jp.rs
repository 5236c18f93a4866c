//! LLM-jp 4: the channels of gpt-oss, with a space behind each control token.

use super::harmony;
use crate::reply::{Family, Reasoning};

/// The family.
pub static FAMILY: Family = Family {
    name: "llm-jp",
    evidence: &[&["chat_format=llm-jp-harmony-v1"]],
    calls: &[
        "<|channel|> commentary to=functions.",
        "<|channel|> analysis to=functions.",
        "<|start|>assistant to=functions.",
    ],
    within: &["<|constrain|>", "<|call|>"],
    dropped: &[
        "<|channel|> final<|message|>",
        "<|channel|> final <|constrain|>json<|message|>",
        "<|channel|> commentary<|message|>",
        "<|start|>assistant",
        "<|end|>",
        "<|return|>",
    ],
    lead: "<|start|>assistant",
    reasoning: Some(Reasoning {
        start: "<|channel|> analysis<|message|>",
        end: "<|end|>",
    }),
    thinks_anywhere: true,
    parse: harmony::parse,
    ..Family::NONE
};
