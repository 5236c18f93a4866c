//! Tokens with a role: beginning, end, end of turn, fill-in-the-middle, and all that end a generation.
//!
//! Files name some by id. The rest are found by their text, as the reference does.

use gristmill_gguf::Metadata;

use crate::error::TokenizerError;
use crate::vocabulary::{Attributes, Vocabulary};

/// The ids of tokens with a role.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roles {
    /// Beginning of a text.
    pub bos: Option<u32>,
    /// End of a text.
    pub eos: Option<u32>,
    /// End of a turn.
    pub eot: Option<u32>,
    /// End of a message that another of the same turn follows.
    pub eom: Option<u32>,
    /// Unknown text.
    pub unknown: Option<u32>,
    /// Separator.
    pub separator: Option<u32>,
    /// Padding.
    pub padding: Option<u32>,
    /// Mask.
    pub mask: Option<u32>,
    /// Fill in the middle: before the prefix.
    pub fim_prefix: Option<u32>,
    /// Fill in the middle: before the suffix.
    pub fim_suffix: Option<u32>,
    /// Fill in the middle: before the answer.
    pub fim_middle: Option<u32>,
    /// Fill in the middle: padding.
    pub fim_padding: Option<u32>,
    /// Fill in the middle: before a repository's name.
    pub fim_repository: Option<u32>,
    /// Fill in the middle: between files.
    pub fim_separator: Option<u32>,
    /// All tokens that end a generation, ascending.
    pub end_of_generation: Vec<u32>,
}

/// A field of [`Roles`], its key, and texts that mean it where the key is missing.
type Role = (
    fn(&mut Roles) -> &mut Option<u32>,
    &'static str,
    &'static [&'static str],
);

/// In the order of the reference, so that of two keys for one role the later counts.
const ROLES: &[Role] = &[
    (|roles| &mut roles.bos, "tokenizer.ggml.bos_token_id", &[]),
    (|roles| &mut roles.eos, "tokenizer.ggml.eos_token_id", &[]),
    (
        |roles| &mut roles.eot,
        "tokenizer.ggml.eot_token_id",
        END_OF_TURN,
    ),
    (
        |roles| &mut roles.eom,
        "tokenizer.ggml.eom_token_id",
        &["<|eom_id|>"],
    ),
    (
        |roles| &mut roles.unknown,
        "tokenizer.ggml.unknown_token_id",
        &[],
    ),
    (
        |roles| &mut roles.separator,
        "tokenizer.ggml.seperator_token_id",
        &[],
    ),
    (
        |roles| &mut roles.padding,
        "tokenizer.ggml.padding_token_id",
        &[],
    ),
    (|roles| &mut roles.mask, "tokenizer.ggml.mask_token_id", &[]),
    (
        |roles| &mut roles.fim_prefix,
        "tokenizer.ggml.fim_pre_token_id",
        FIM_PREFIX,
    ),
    (
        |roles| &mut roles.fim_suffix,
        "tokenizer.ggml.fim_suf_token_id",
        FIM_SUFFIX,
    ),
    (
        |roles| &mut roles.fim_middle,
        "tokenizer.ggml.fim_mid_token_id",
        FIM_MIDDLE,
    ),
    (
        |roles| &mut roles.fim_padding,
        "tokenizer.ggml.fim_pad_token_id",
        FIM_PADDING,
    ),
    (
        |roles| &mut roles.fim_repository,
        "tokenizer.ggml.fim_rep_token_id",
        FIM_REPOSITORY,
    ),
    (
        |roles| &mut roles.fim_separator,
        "tokenizer.ggml.fim_sep_token_id",
        &["<|file_sep|>"],
    ),
    (
        |roles| &mut roles.fim_prefix,
        "tokenizer.ggml.prefix_token_id",
        &[],
    ),
    (
        |roles| &mut roles.fim_suffix,
        "tokenizer.ggml.suffix_token_id",
        &[],
    ),
    (
        |roles| &mut roles.fim_middle,
        "tokenizer.ggml.middle_token_id",
        &[],
    ),
];

const END_OF_TURN: &[&str] = &[
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "<｜end▁of▁sentence｜>",
    "<end_of_utterance>",
];

const FIM_PREFIX: &[&str] = &[
    "<|fim_prefix|>",
    "<fim-prefix>",
    "<fim_prefix>",
    "<｜fim▁begin｜>",
    "<PRE>",
    "▁<PRE>",
    "<|code_prefix|>",
    "<|prefix|>",
];

const FIM_SUFFIX: &[&str] = &[
    "<|fim_suffix|>",
    "<fim-suffix>",
    "<fim_suffix>",
    "<｜fim▁hole｜>",
    "<SUF>",
    "▁<SUF>",
    "<|code_suffix|>",
    "<|suffix|>",
];

const FIM_MIDDLE: &[&str] = &[
    "<|fim_middle|>",
    "<fim-middle>",
    "<fim_middle>",
    "<｜fim▁end｜>",
    "<MID>",
    "▁<MID>",
    "<|code_middle|>",
    "<|middle|>",
];

const FIM_PADDING: &[&str] = &["<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"];

const FIM_REPOSITORY: &[&str] = &[
    "<|fim_repo|>",
    "<|repo_name|>",
    "<fim-repo>",
    "<REPO>",
    "<reponame>",
];

/// Texts that end a generation wherever they occur in a vocabulary.
const END_OF_GENERATION: &[&str] = &[
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|flush|>",
    "<|calls|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "</s>",
    "<|eom_id|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "<|end_of_text|>",
    "<end_of_utterance>",
    "<eos>",
    "<turn|>",
    "<|tool_response>",
    "<｜end▁of▁sentence｜>",
    "[e~[",
];

impl Roles {
    /// Reads the ids that the file gives over `defaults` and finds the others by text. Tokens found by
    /// text become control tokens, whatever the file says.
    pub(crate) fn read(
        metadata: &Metadata,
        vocabulary: &mut Vocabulary,
        defaults: Roles,
        (warnings, notes): (&mut Vec<String>, &mut Vec<String>),
    ) -> Result<Roles, TokenizerError> {
        let mut roles = defaults;
        let n_tokens = vocabulary.len();
        for &(field, key, _) in ROLES {
            let id = field(&mut roles);
            // A default that the vocabulary is too small for does not exist.
            *id = id.filter(|&id| (id as usize) < n_tokens);
            let Some(found) = metadata.u64(key)? else {
                continue;
            };
            match u32::try_from(found)
                .ok()
                .filter(|&found| (found as usize) < n_tokens)
            {
                Some(found) => *id = Some(found),
                None if matches!(
                    key,
                    "tokenizer.ggml.bos_token_id" | "tokenizer.ggml.eos_token_id"
                ) =>
                {
                    return Err(TokenizerError::IdOutOfRange {
                        key,
                        id: found,
                        n_tokens,
                    });
                }
                None => warnings.push(format!(
                    "{key} is {found}, but there are only {n_tokens} tokens; the entry is ignored"
                )),
            }
        }
        for &(field, _, texts) in ROLES {
            if field(&mut roles).is_some() {
                continue;
            }
            let found = texts.iter().find_map(|text| vocabulary.find(text));
            if let Some(id) = found {
                *field(&mut roles) = Some(id);
                make_control(vocabulary, id, notes);
            }
        }
        roles.collect_ends(vocabulary, notes);
        Ok(roles)
    }

    fn collect_ends(&mut self, vocabulary: &mut Vocabulary, notes: &mut Vec<String>) {
        let mut ends: Vec<u32> = [self.fim_padding, self.fim_repository, self.fim_separator]
            .into_iter()
            .flatten()
            .collect();
        for text in END_OF_GENERATION {
            if let Some(id) = vocabulary.find(text) {
                ends.push(id);
                make_control(vocabulary, id, notes);
            }
        }
        // Harmony writes these inside an answer, so they always show.
        for text in ["<|channel|>", "<|message|>", "<|start|>", "<|constrain|>"] {
            if let Some(id) = vocabulary.find(text) {
                vocabulary.attributes[id as usize] = Attributes::USER_DEFINED;
            }
        }
        ends.extend([self.eos, self.eot, self.eom].into_iter().flatten());
        let has = |text: &str| vocabulary.find(text).filter(|id| ends.contains(id));
        let calls = has("<|call|>").or(has("<|calls|>"));
        let harmony =
            calls.is_some() && (has("<|return|>").is_some() || has("<|flush|>").is_some());
        let end = has("<|end|>").filter(|_| harmony);
        let plain = has("<|tool_response>").or(has("<|plamo:eos|>"));
        let closing = has("</s>").filter(|_| plain.is_some());
        for (id, attributes) in [
            (end, Attributes::USER_DEFINED),
            (closing, Attributes::NORMAL),
        ] {
            if let Some(id) = id {
                ends.retain(|&end| end != id);
                vocabulary.attributes[id as usize] = attributes;
            }
        }
        ends.sort_unstable();
        ends.dedup();
        self.end_of_generation = ends;
    }
}

fn make_control(vocabulary: &mut Vocabulary, id: u32, notes: &mut Vec<String>) {
    let attributes = &mut vocabulary.attributes[id as usize];
    if attributes.has(Attributes::CONTROL) {
        return;
    }
    *attributes = attributes.with(Attributes::CONTROL);
    let text = gristmill_gguf::escape_invalid(vocabulary.texts.text(id as usize)).into_owned();
    notes.push(format!(
        "the file does not mark token {id} ({text}) as a control token, though it is named like one; it is treated as one, as in the reference, and no answer changes"
    ));
}
