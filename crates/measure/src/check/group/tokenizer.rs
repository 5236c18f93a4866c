//! The vocabulary: arrays of the right types and lengths, ids in range, merges that resolve, an end to every answer.

use std::collections::HashMap;

use gristmill_gguf::{Array, Metadata, StringArray, Value, ValueType, escape_invalid};
use gristmill_tokenizer::{Attributes, Tokenizer, pre};

use super::{Group, without_vocabulary};
use crate::MeasureError;
use crate::check::finding::{Code, Findings, Place};
use crate::check::subject::Subject;

pub(crate) static GROUP: Group = Group {
    name: "tokenizer",
    about: "array lengths and types, ids in range, duplicates, merges, special tokens, pre-tokenizer",
    codes: &[
        &NONE,
        &KIND,
        &TOKENS,
        &LENGTH,
        &TYPE,
        &TOKEN_TYPE,
        &DUPLICATE,
        &EMPTY,
        &ID_TYPE,
        &ID_RANGE,
        &END_DEFAULT,
        &NO_END,
        &NOTHING_TO_ADD,
        &PRE_MISSING,
        &PRE_UNKNOWN,
        &NO_MERGES,
        &BAD_MERGE,
        &UNRESOLVED_MERGE,
        &BYTES_MISSING,
        &BYTE_TOKENS,
        &CHARSMAP,
        &UNUSABLE,
        &RETYPED,
    ],
    skip: without_vocabulary,
    run,
};

const TOKENS_KEY: &str = "tokenizer.ggml.tokens";
const MERGES_KEY: &str = "tokenizer.ggml.merges";
const CONVERT: &str = "the vocabulary is damaged, or was made by a faulty tool; convert the model again from its original checkpoint";
const PRE_REMEDY: &str = "answers of such a file are garbled in a way that is easy to miss: convert the model again with `--tokenizer-pre NAME`, or set `tokenizer.ggml.pre` with `gristmill edit` if you know the right name";

static NONE: Code = Code::note(
    "no-vocabulary",
    "the file has no vocabulary, so that text cannot be turned into tokens",
    "fine for a model that takes ids or embeddings; else convert it again with its tokenizer files",
);
pub(crate) static KIND: Code = Code::note(
    "tokenizer-kind",
    "a kind of tokenizer that gristmill does not have: only lengths, types and ids were checked",
    "update gristmill; another engine may run the file",
);
static TOKENS: Code = Code::error(
    "tokens",
    "the list of tokens is missing, empty, or no list of strings",
    CONVERT,
);
static LENGTH: Code = Code::error(
    "array-length",
    "an array with a value for each token has another length than the list of tokens",
    CONVERT,
);
static TYPE: Code = Code::error(
    "array-type",
    "an array of the tokenizer has another element type than it must have",
    CONVERT,
);
static TOKEN_TYPE: Code = Code::warning(
    "token-type",
    "a token type that does not exist (1 to 6 do)",
    "engines take such tokens for ordinary text, and a control token may be shown to people; convert the model again",
);
static DUPLICATE: Code = Code::error(
    "duplicate-token",
    "two tokens of one text: llama.cpp ends with an assertion, and one of the two can never be produced from text",
    CONVERT,
);
static EMPTY: Code = Code::note(
    "empty-token",
    "a token without text",
    "engines give it a name of their own",
);
static ID_TYPE: Code = Code::error(
    "token-id-type",
    "the id of a special token is no integer",
    "set it with `gristmill edit`",
);
pub(crate) static ID_RANGE: Code = Code::error(
    "token-id",
    "the id of a special token is not in the vocabulary",
    "set it to the id of the right token with `gristmill edit`: an answer that never stops is what comes of a wrong end token",
);
static END_DEFAULT: Code = Code::warning(
    "end-default",
    "the file does not name its end token, and engines assume an id that is rarely right",
    "answers may never stop: set `tokenizer.ggml.eos_token_id` with `gristmill edit`",
);
static NO_END: Code = Code::warning(
    "no-end-token",
    "no token ends a generation",
    "answers never stop by themselves: set `tokenizer.ggml.eos_token_id` (or `eot_token_id` for the end of a turn) with `gristmill edit`",
);
pub(crate) static NOTHING_TO_ADD: Code = Code::error(
    "nothing-to-add",
    "the file asks for a special token around every text that it does not define",
    "name the token's id, or set the key that asks for it to false, with `gristmill edit`",
);
static PRE_MISSING: Code = Code::warning(
    "pre-missing",
    "tokenizer.ggml.pre is missing: engines cut text by a default that is rarely the model's own",
    PRE_REMEDY,
);
static PRE_UNKNOWN: Code = Code::error(
    "pre-unknown",
    "tokenizer.ggml.pre names a pre-tokenizer that is not known",
    PRE_REMEDY,
);
static NO_MERGES: Code = Code::error("no-merges", "byte-level BPE without its merges", CONVERT);
pub(crate) static BAD_MERGE: Code = Code::error(
    "bad-merge",
    "a merge that is not two parts with a space between them",
    CONVERT,
);
static UNRESOLVED_MERGE: Code = Code::warning(
    "unresolved-merge",
    "a merge of parts, or to a whole, that are no tokens: it can never apply",
    "tokens and merges are of different tokenizers, or tokens were cut off; compare ids with the original tokenizer",
);
static BYTES_MISSING: Code = Code::note(
    "bytes-missing",
    "bytes that no token of byte-level BPE stands for: text with them loses them",
    "common for bytes that hardly occur in text; a tokenizer that lost ordinary ones was cut off",
);
static BYTE_TOKENS: Code = Code::warning(
    "byte-tokens-missing",
    "bytes that SentencePiece has no token to fall back to: characters outside the vocabulary become unknown tokens",
    "convert the model again with the tokenizer of its checkpoint",
);
static CHARSMAP: Code = Code::error(
    "charsmap",
    "the table of characters of a unigram tokenizer is too short, or of another type than bytes",
    CONVERT,
);
static UNUSABLE: Code = Code::error("tokenizer", "the tokenizer cannot be used", CONVERT);
static RETYPED: Code = Code::note(
    "control-token",
    "a token that looks like a control token and is not marked as one; engines treat it as one",
    "nothing is to be done; a conversion by a current tool marks it",
);

fn run(subject: &Subject, findings: &mut Findings) -> Result<(), MeasureError> {
    let Some(metadata) = subject.metadata() else {
        return Ok(());
    };
    let kind = text(metadata, "tokenizer.ggml.model");
    let has_tokens = metadata.contains(TOKENS_KEY);
    if matches!(kind.as_deref(), None | Some("none" | "no_vocab")) && !has_tokens {
        findings.add(&NONE, Place::whole(), "there is no vocabulary");
        return Ok(());
    }
    let Some(tokens) = tokens(metadata, findings) else {
        return Ok(());
    };
    lengths(metadata, tokens, findings);
    token_types(metadata, findings);
    let ids = duplicates(tokens, findings);
    special_ids(metadata, tokens.len(), findings);
    charsmap(metadata, findings);
    match kind.as_deref() {
        Some("gpt2") => byte_level(metadata, &ids, findings),
        Some("llama") => byte_tokens(&ids, findings),
        Some("bert") => {}
        Some(other) => {
            let text = format!("the tokenizer \"{other}\" is one that gristmill does not have");
            findings.add(&KIND, Place::key("tokenizer.ggml.model"), text);
            added_tokens(metadata, other, findings);
            return Ok(());
        }
        None => {
            let text =
                "tokenizer.ggml.model is missing or no text: nothing says how the tokens are used";
            findings.add(&UNUSABLE, Place::key("tokenizer.ggml.model"), text);
            return Ok(());
        }
    }
    usable(metadata, findings);
    Ok(())
}

fn text(metadata: &Metadata, key: &str) -> Option<String> {
    metadata.str(key).ok().flatten().map(str::to_owned)
}

fn tokens<'a>(metadata: &'a Metadata, findings: &mut Findings) -> Option<&'a StringArray> {
    let place = || Place::key(TOKENS_KEY);
    match metadata.required_strings(TOKENS_KEY) {
        Ok(tokens) if tokens.is_empty() => {
            findings.add(&TOKENS, place(), "the list of tokens is empty")
        }
        Ok(tokens) => return Some(tokens),
        Err(error) => findings.add(&TOKENS, place(), error.to_string()),
    }
    None
}

/// The arrays that go with the tokens.
fn lengths(metadata: &Metadata, tokens: &StringArray, findings: &mut Findings) {
    let n_tokens = tokens.len();
    let fits = |key: &str, ty: ValueType| match key {
        "tokenizer.ggml.scores" => matches!(ty, ValueType::F32 | ValueType::I32),
        _ => ty.is_integer(),
    };
    for key in ["tokenizer.ggml.scores", "tokenizer.ggml.token_type"] {
        match metadata.get(key) {
            None => {}
            Some(Value::Array(array)) if !fits(key, array.element_type()) => {
                let text = format!("{key} is an array of {}", array.element_type());
                findings.add(&TYPE, Place::key(key), text);
            }
            Some(Value::Array(array)) if array.len() != n_tokens => {
                let text = format!(
                    "{key} has {} elements, but there are {n_tokens} tokens",
                    array.len()
                );
                findings.add(&LENGTH, Place::key(key), text);
            }
            Some(Value::Array(_)) => {}
            Some(other) => {
                let text = format!("{key} is {}, not an array", other.type_name());
                findings.add(&TYPE, Place::key(key), text);
            }
        }
    }
}

fn token_types(metadata: &Metadata, findings: &mut Findings) {
    let key = "tokenizer.ggml.token_type";
    let types = metadata.array(key).ok().flatten().and_then(Array::integers);
    for (index, ty) in types.into_iter().flatten().enumerate() {
        if !(1..=6).contains(&ty) {
            let text = format!("token {index} has the type {ty}");
            findings.add(&TOKEN_TYPE, Place::key(key).at_index(index), text);
        }
    }
}

/// The ids by text; what is there twice, or has no text, is reported.
fn duplicates<'a>(tokens: &'a StringArray, findings: &mut Findings) -> HashMap<&'a [u8], usize> {
    let mut ids = HashMap::with_capacity(tokens.len());
    for (id, token) in tokens.iter().enumerate() {
        let place = || Place::key(TOKENS_KEY).at_index(id);
        if token.is_empty() {
            findings.add(&EMPTY, place(), format!("token {id} has no text"));
        } else if let Some(first) = ids.insert(token, id) {
            let shown = escape_invalid(token);
            findings.add(
                &DUPLICATE,
                place(),
                format!("tokens {first} and {id} are both {shown:?}"),
            );
        }
    }
    ids
}

/// Every `tokenizer.ggml.…_token_id`, known or not.
fn special_ids(metadata: &Metadata, n_tokens: usize, findings: &mut Findings) {
    for (key, value) in metadata.iter() {
        let is_id = key.starts_with("tokenizer.ggml.") && key.ends_with("_token_id");
        if !is_id {
            continue;
        }
        match value.as_integer() {
            Some(id) if usize::try_from(id).is_ok_and(|id| id < n_tokens) => {}
            Some(id) => {
                let text = format!("{key} is {id}, but there are only {n_tokens} tokens");
                findings.add(&ID_RANGE, Place::key(key), text);
            }
            None => {
                let text = format!("{key} is {}, not an integer", value.type_name());
                findings.add(&ID_TYPE, Place::key(key), text);
            }
        }
    }
}

/// The size of the table comes first in it.
fn charsmap(metadata: &Metadata, findings: &mut Findings) {
    let key = "tokenizer.ggml.precompiled_charsmap";
    let bytes: Option<Vec<u8>> = match metadata.get(key) {
        None => return,
        Some(Value::Array(Array::U8(bytes))) => Some(bytes.clone()),
        Some(Value::Array(Array::I8(bytes))) => {
            Some(bytes.iter().map(|&byte| byte as u8).collect())
        }
        Some(_) => None,
    };
    let Some(bytes) = bytes else {
        findings.add(
            &CHARSMAP,
            Place::key(key),
            format!("{key} is no array of bytes"),
        );
        return;
    };
    let size = bytes
        .first_chunk::<4>()
        .map(|size| u32::from_le_bytes(*size) as usize);
    if size.is_none_or(|size| size.saturating_add(4) >= bytes.len()) {
        let text = format!(
            "{key} has {} bytes, too few for the size that it begins with",
            bytes.len()
        );
        findings.add(&CHARSMAP, Place::key(key), text);
    }
}

/// What byte-level BPE needs: a pre-tokenizer, merges, a token for every byte.
fn byte_level(metadata: &Metadata, ids: &HashMap<&[u8], usize>, findings: &mut Findings) {
    let place = || Place::key("tokenizer.ggml.pre");
    match text(metadata, "tokenizer.ggml.pre").as_deref() {
        None | Some("") => findings.add(&PRE_MISSING, place(), "tokenizer.ggml.pre is missing"),
        Some(name) if pre::by_name(name).is_none() => {
            let nearest = pre::nearest_name(name);
            let text = format!(
                "\"{name}\" is no pre-tokenizer that is known; the nearest name is \"{nearest}\""
            );
            findings.add(&PRE_UNKNOWN, place(), text);
        }
        Some(_) => {}
    }
    if !metadata.contains("tokenizer.ggml.eos_token_id") {
        let text = "tokenizer.ggml.eos_token_id is missing; engines assume 11";
        findings.add(
            &END_DEFAULT,
            Place::key("tokenizer.ggml.eos_token_id"),
            text,
        );
    }
    merges(metadata, ids, findings);
    let missing: Vec<String> = (0u8..=255)
        .filter(|&byte| {
            let mut buffer = [0; 4];
            let spelling = byte_level_char(byte).encode_utf8(&mut buffer);
            !ids.contains_key(spelling.as_bytes())
        })
        .map(|byte| format!("{byte:#04x}"))
        .collect();
    bytes_missing(&BYTES_MISSING, &missing, findings);
}

/// The character that stands for a byte in byte-level vocabularies: itself where it is printable in Latin-1, else the
/// next free one from U+0100 on.
fn byte_level_char(byte: u8) -> char {
    let is_printable = |byte: u8| matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
    if is_printable(byte) {
        return char::from(byte);
    }
    let n_before = (0..byte).filter(|&before| !is_printable(before)).count() as u32;
    // At most 68 bytes are not printable, so this is a letter of Latin Extended-A.
    char::from_u32(0x100 + n_before).unwrap_or('\u{fffd}')
}

fn merges(metadata: &Metadata, ids: &HashMap<&[u8], usize>, findings: &mut Findings) {
    let place = || Place::key(MERGES_KEY);
    let merges = match metadata.strings(MERGES_KEY) {
        Ok(Some(merges)) => merges,
        // Kimi K2 can do without: its words are tokens.
        Ok(None) if text(metadata, "tokenizer.ggml.pre").as_deref() == Some("kimi-k2") => return,
        Ok(None) => return findings.add(&NO_MERGES, place(), "tokenizer.ggml.merges is missing"),
        Err(error) => return findings.add(&NO_MERGES, place(), error.to_string()),
    };
    let mut whole = Vec::new();
    for (index, merge) in merges.iter().enumerate() {
        let place = || place().at_index(index);
        // A part may begin with a space, but not be nothing.
        let space = merge.iter().skip(1).position(|&byte| byte == b' ');
        let parts = space.map(|space| (&merge[..space + 1], &merge[space + 2..]));
        let Some((left, right)) = parts.filter(|(_, right)| !right.is_empty()) else {
            let shown = escape_invalid(merge);
            findings.add(&BAD_MERGE, place(), format!("entry {index} is {shown:?}"));
            continue;
        };
        whole.clear();
        whole.extend_from_slice(left);
        whole.extend_from_slice(right);
        let unknown = [left, right, &whole]
            .into_iter()
            .find(|part| !ids.contains_key(part));
        if let Some(unknown) = unknown {
            let text = format!(
                "entry {index}, {:?}: {:?} is no token",
                escape_invalid(merge),
                escape_invalid(unknown)
            );
            findings.add(&UNRESOLVED_MERGE, place(), text);
        }
    }
}

/// SentencePiece falls back to a token for each byte.
fn byte_tokens(ids: &HashMap<&[u8], usize>, findings: &mut Findings) {
    let missing: Vec<String> = (0u8..=255)
        .map(|byte| format!("<0x{byte:02X}>"))
        .filter(|token| !ids.contains_key(token.as_bytes()))
        .collect();
    bytes_missing(&BYTE_TOKENS, &missing, findings);
}

fn bytes_missing(code: &'static Code, missing: &[String], findings: &mut Findings) {
    if missing.is_empty() {
        return;
    }
    let (n, first) = (missing.len(), missing[..missing.len().min(4)].join(", "));
    let more = if n > 4 { ", …" } else { "" };
    let text = format!("{n} of 256 bytes have no token: {first}{more}");
    findings.add(code, Place::key(TOKENS_KEY), text);
}

/// Tokens to put around a text that the file does not define, for kinds of tokenizer that bring none of their own.
fn added_tokens(metadata: &Metadata, kind: &str, findings: &mut Findings) {
    if kind == "plamo2" {
        return;
    }
    for (key, id_key) in [
        (
            "tokenizer.ggml.add_bos_token",
            "tokenizer.ggml.bos_token_id",
        ),
        (
            "tokenizer.ggml.add_eos_token",
            "tokenizer.ggml.eos_token_id",
        ),
    ] {
        let wanted = metadata.bool(key).ok().flatten() == Some(true);
        // A unigram vocabulary ends texts with token 1 where the file does not say.
        let has_default = kind == "t5" && id_key.ends_with("eos_token_id");
        if wanted && !has_default && !metadata.contains(id_key) {
            let text = format!("{key} is true, but {id_key} is missing");
            findings.add(&NOTHING_TO_ADD, Place::key(key), text);
        }
    }
}

/// What the tokenizer itself says, where the checks above found nothing that explains it.
fn usable(metadata: &Metadata, findings: &mut Findings) {
    use gristmill_tokenizer::TokenizerError;
    match Tokenizer::from_metadata(metadata) {
        Ok(tokenizer) => ends(&tokenizer, findings),
        Err(TokenizerError::NoTokenToAdd { key, id_key }) => {
            let text = format!("{key} is true, but {id_key} is missing");
            findings.add(&NOTHING_TO_ADD, Place::key(key), text);
        }
        Err(error) => {
            let explained = [
                &TOKENS,
                &LENGTH,
                &TYPE,
                &DUPLICATE,
                &ID_TYPE,
                &ID_RANGE,
                &PRE_UNKNOWN,
                &NO_MERGES,
                &BAD_MERGE,
            ];
            if !explained.iter().any(|code| findings.has(code)) {
                let finding = UNUSABLE.find(Place::whole(), error.to_string());
                findings.push(match error.hint() {
                    Some(hint) => finding.with_remedy(hint),
                    None => finding,
                });
            }
        }
    }
}

fn ends(tokenizer: &Tokenizer, findings: &mut Findings) {
    if tokenizer.roles().end_of_generation.is_empty() {
        findings.add(&NO_END, Place::whole(), "no token ends a generation");
    }
    let eos = tokenizer.eos().filter(|&id| {
        let attributes = tokenizer.attributes(id);
        attributes.has(Attributes::NORMAL) && !attributes.has(Attributes::CONTROL)
    });
    if let (Some(id), false) = (eos, findings.has(&END_DEFAULT)) {
        let shown = escape_invalid(tokenizer.text(id)).into_owned();
        let text = format!("the end token {id}, {shown:?}, is marked as ordinary text");
        findings.add(&RETYPED, Place::key("tokenizer.ggml.eos_token_id"), text);
    }
    for note in tokenizer.notes() {
        findings.add(&RETYPED, Place::key(TOKENS_KEY), note.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::byte_level_char;

    #[test]
    fn bytes_have_the_characters_of_gpt2() {
        // From the table of GPT-2's encoder.
        for (byte, expected) in [
            (b'!', '!'),
            (0x00, 'Ā'),
            (b' ', 'Ġ'),
            (b'\n', 'Ċ'),
            (0xad, 'Ń'),
            (0xff, 'ÿ'),
        ] {
            assert_eq!(byte_level_char(byte), expected, "{byte:#04x}");
        }
    }
}
