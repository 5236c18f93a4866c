//! SentencePiece BPE from `tokenizer.json` alone (case B24).
//!
//! The file has merges in place of scores. The runtime joins pieces by scores, the highest first, so a token gets
//! minus the rank of the first merge that makes it: the order of joining is then that of the merges. (The
//! reference gives all tokens one score, and with it texts other ids than the model's own tokenizer.)

use std::collections::HashMap;

use super::byte_level::{n_tokens, tokens_by_id};
use super::files::Files;
use super::json::TokenizerJson;
use super::{Token, TokenType, TokenizerOptions, Vocabulary, added_token, filler};
use crate::ConvertError;

const FILE: &str = "tokenizer.json";

/// The score of tokens that were added, and the first guess for others.
const SCORE_ADDED: f32 = -1000.0;

pub(super) fn read(
    files: &Files,
    json: &TokenizerJson,
    options: &TokenizerOptions<'_>,
    warnings: &mut Vec<String>,
) -> Result<Vocabulary, ConvertError> {
    let vocab = json
        .bpe_vocab()
        .map_err(|reason| files.error(FILE, reason))?;
    if options.pre_tokenizer.is_some() {
        warnings.push("--tokenizer-pre is ignored: SentencePiece has no pre-tokenizer".to_owned());
    }
    let (by_id, n_known) = tokens_by_id(files, json, vocab)?;
    let n_tokens = n_tokens(files, options, n_known, by_id.keys().max().copied())?;
    let ranks = ranks(json);
    let unknown = json.model.unk_token.as_deref();
    let tokens = (0..n_tokens).map(|id| match by_id.get(&(id as u64)) {
        None => filler(id, super::sentence_piece::SCORE_FILLER),
        Some(&(text, added)) if added.is_some() && unknown != Some(text) => {
            added_token(text, added == Some(true), SCORE_ADDED)
        }
        Some(&(text, _)) => Token {
            text: text.as_bytes().to_vec(),
            score: -(ranks.get(text).copied().unwrap_or(json.model.merges.len()) as f32),
            token_type: token_type(text, unknown),
        },
    });
    Ok(Vocabulary {
        kind: "SentencePiece BPE",
        file: FILE,
        model: "llama",
        pre: "default".to_owned(),
        tokens: tokens.collect(),
        has_scores: true,
        merges: Vec::new(),
    })
}

/// The rank of the first merge that makes each text.
fn ranks(json: &TokenizerJson) -> HashMap<String, usize> {
    let mut ranks = HashMap::with_capacity(json.model.merges.len());
    for (rank, merge) in json.model.merges.iter().enumerate() {
        ranks.entry(merge.result()).or_insert(rank);
    }
    ranks
}

fn token_type(text: &str, unknown: Option<&str>) -> TokenType {
    let digits = text
        .strip_prefix("<0x")
        .and_then(|rest| rest.strip_suffix('>'));
    if digits.is_some_and(|digits| {
        digits.len() == 2 && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
    }) {
        TokenType::Byte
    } else if unknown == Some(text) {
        TokenType::Unknown
    } else {
        TokenType::Normal
    }
}
