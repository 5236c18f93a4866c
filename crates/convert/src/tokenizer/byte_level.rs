//! Byte-level BPE from `tokenizer.json`.

use std::collections::HashMap;

use serde_json::Value;

use super::files::Files;
use super::json::TokenizerJson;
use super::{
    N_TOKENS_MAX, Token, TokenType, TokenizerOptions, Vocabulary, added_token, filler,
    pre_tokenizer,
};
use crate::ConvertError;

const FILE: &str = "tokenizer.json";

pub(super) fn read(
    files: &Files,
    json: &TokenizerJson,
    options: &TokenizerOptions<'_>,
    warnings: &mut Vec<String>,
) -> Result<Vocabulary, ConvertError> {
    let vocab = json
        .bpe_vocab()
        .map_err(|reason| files.error(FILE, reason))?;
    // The name first: it is what most likely fails, and the user can help.
    let pre = pre_tokenizer::name(files, json, options.pre_tokenizer, warnings)?;
    let (by_id, n_known) = tokens_by_id(files, json, vocab)?;
    let n_tokens = n_tokens(files, options, n_known, by_id.keys().max().copied())?;
    let tokens = (0..n_tokens).map(|id| match by_id.get(&(id as u64)) {
        None => filler(id, 0.0),
        Some(&(text, None)) => Token {
            text: text.as_bytes().to_vec(),
            score: 0.0,
            token_type: TokenType::Normal,
        },
        Some(&(text, Some(special))) => added_token(text, special, 0.0),
    });
    let merges: Vec<String> = json
        .model
        .merges
        .iter()
        .map(|merge| merge.joined())
        .collect();
    if merges.is_empty() {
        warnings.push("tokenizer.json has no merges: text will fall into single bytes".to_owned());
    }
    Ok(Vocabulary {
        kind: "byte-level BPE",
        file: FILE,
        model: "gpt2",
        pre,
        tokens: tokens.collect(),
        has_scores: false,
        merges,
    })
}

/// Text and, for an added token, whether it is special.
type Known<'a> = (&'a str, Option<bool>);

/// All tokens by id, and how many different texts there are. The files are read in the order in which the
/// `transformers` library adds tokens: `tokenizer.json`, then the decoder of `tokenizer_config.json`, then the
/// special tokens that it names. A text that is known keeps its id; a new one gets the id it asks for, or the next.
///
/// # Errors
/// Two tokens of the model with one id.
pub(super) fn tokens_by_id<'a>(
    files: &'a Files,
    json: &'a TokenizerJson,
    vocab: &'a HashMap<String, u64>,
) -> Result<(HashMap<u64, Known<'a>>, usize), ConvertError> {
    let mut ids: HashMap<&str, u64> = vocab
        .iter()
        .map(|(text, &id)| (text.as_str(), id))
        .collect();
    let mut sorted: Vec<(u64, &str)> = ids.iter().map(|(&text, &id)| (id, text)).collect();
    sorted.sort_unstable();
    if let Some([(id, first), (_, second)]) =
        sorted.array_windows().find(|[one, other]| one.0 == other.0)
    {
        return Err(files.error(
            FILE,
            format!("{first:?} and {second:?} both have the id {id}"),
        ));
    }
    let mut by_id: HashMap<u64, Known> = sorted
        .into_iter()
        .map(|(id, text)| (id, (text, None)))
        .collect();
    for token in &json.added_tokens {
        ids.insert(&token.content, token.id);
        by_id.insert(token.id, (&token.content, Some(token.special)));
    }
    for (id, text, special) in files.added_tokens_decoder() {
        let id = *ids.entry(text).or_insert(id);
        by_id.insert(id, (text, Some(special)));
    }
    for text in named_special(files) {
        let next = ids.len() as u64;
        let id = *ids.entry(text).or_insert(next);
        by_id.insert(id, (text, Some(true)));
    }
    Ok((by_id, ids.len()))
}

/// The texts that `tokenizer_config.json` gives a role.
fn named_special(files: &Files) -> Vec<&str> {
    let Some(config) = &files.config else {
        return Vec::new();
    };
    let roles = ["bos", "eos", "unk", "sep", "pad", "cls", "mask"];
    let named = roles
        .iter()
        .filter_map(|role| config.get(&format!("{role}_token")));
    let more = config
        .get("additional_special_tokens")
        .and_then(Value::as_array);
    let contents = named.chain(more.into_iter().flatten()).filter_map(content);
    contents.filter(|text| !text.is_empty()).collect()
}

/// The text of a token that is written as a string or as an object with a `content`.
pub(super) fn content(token: &Value) -> Option<&str> {
    token.as_str().or_else(|| token.get("content")?.as_str())
}

/// How many tokens there will be: as many as rows, where their number is known. Case B23: more tokens than
/// rows cannot be.
pub(super) fn n_tokens(
    files: &Files,
    options: &TokenizerOptions<'_>,
    n_known: usize,
    greatest: Option<u64>,
) -> Result<usize, ConvertError> {
    let n_rows = options.n_rows.unwrap_or(n_known as u64).min(N_TOKENS_MAX);
    match greatest {
        Some(greatest) if greatest >= n_rows => Err(files.error(
            FILE,
            match options.n_rows {
                Some(n_rows) => format!(
                    "has {n_known} tokens, the last with id {greatest}, but vocab_size in config.json is {n_rows}"
                ),
                None => format!("has {n_known} tokens, but one has the id {greatest}"),
            },
        )),
        // At most N_TOKENS_MAX.
        _ => Ok(n_rows as usize),
    }
}
