//! `tokenizer.model`: a SentencePiece model, a protocol buffer of which a few fields are needed.
//!
//! ```text
//! ModelProto    1: repeated SentencePiece    2: TrainerSpec { 3: model_type }    the rest is skipped
//! SentencePiece 1: string piece    2: float score    3: enum type
//! ```
//!
//! Field numbers and types are those of `sentencepiece_model.proto`.

use super::files::Files;
use super::{N_TOKENS_MAX, Token, TokenType, TokenizerOptions, Vocabulary, added_token, filler};
use crate::ConvertError;

const FILE: &str = "tokenizer.model";

/// The score of a token that only fills the vocabulary.
pub(super) const SCORE_FILLER: f32 = -10000.0;
/// The score of an added token.
pub(crate) const SCORE_ADDED: f32 = -1000.0;

/// `model_type` of a unigram model, the default of the format.
const UNIGRAM: u64 = 1;

pub(super) fn read(
    files: &Files,
    model: &[u8],
    options: &TokenizerOptions<'_>,
    warnings: &mut Vec<String>,
) -> Result<Vocabulary, ConvertError> {
    let model = parse(model).map_err(|reason| files.error(FILE, reason))?;
    if model.model_type == UNIGRAM {
        warnings.push(
            "tokenizer.model is a unigram model, but is written as BPE, as the reference does; ids may differ"
                .to_owned(),
        );
    }
    if options.pre_tokenizer.is_some() {
        warnings.push("--tokenizer-pre is ignored: SentencePiece has no pre-tokenizer".to_owned());
    }
    let n_pieces = model.pieces.len();
    // N_TOKENS_MAX bounds the rows, the file's size the pieces.
    let n_tokens = options
        .n_rows
        .map_or(n_pieces, |n_rows| n_rows.min(N_TOKENS_MAX) as usize);
    if n_pieces > n_tokens {
        let reason =
            format!("has {n_pieces} tokens, but vocab_size in config.json is only {n_tokens}");
        return Err(files.error("config.json", reason));
    }
    let mut tokens = model.pieces;
    tokens.extend((n_pieces..n_tokens).map(|id| filler(id, SCORE_FILLER)));
    add_tokens(files, &mut tokens, warnings);
    Ok(Vocabulary {
        kind: "SentencePiece BPE",
        file: FILE,
        model: "llama",
        pre: "default".to_owned(),
        tokens,
        has_scores: true,
        merges: Vec::new(),
    })
}

/// Tokens that were added after training: `added_tokens.json`, and over it `tokenizer_config.json`.
fn add_tokens(files: &Files, tokens: &mut [Token], warnings: &mut Vec<String>) {
    let mut set = |id: u64, token: Token, warn_of_change: bool| {
        let n_tokens = tokens.len();
        let place = usize::try_from(id).ok().and_then(|id| tokens.get_mut(id));
        let Some(place) = place else {
            let text = String::from_utf8_lossy(&token.text).into_owned();
            return warnings.push(format!(
                "token {id} ({text}) is left out: the model has only {n_tokens} rows"
            ));
        };
        if warn_of_change && place.token_type != TokenType::Unused && place.text != token.text {
            let old = String::from_utf8_lossy(&place.text);
            let new = String::from_utf8_lossy(&token.text);
            warnings.push(format!("token {id} is {new:?} instead of {old:?}"));
        }
        *place = token;
    };
    for (text, id) in &files.added_tokens {
        if let Some(id) = id.as_u64() {
            let text = text.as_bytes().to_vec();
            let token = Token {
                text,
                score: SCORE_ADDED,
                token_type: TokenType::UserDefined,
            };
            set(id, token, false);
        }
    }
    for (id, text, special) in files.added_tokens_decoder() {
        set(id, added_token(text, special, SCORE_ADDED), true);
    }
}

struct Model {
    pieces: Vec<Token>,
    model_type: u64,
}

fn parse(bytes: &[u8]) -> Result<Model, String> {
    let mut model = Model {
        pieces: Vec::new(),
        model_type: UNIGRAM,
    };
    for field in Fields::of(bytes) {
        match field.map_err(not_sentence_piece)? {
            (1, Field::Bytes(piece)) => {
                let n_before = model.pieces.len();
                let piece = parse_piece(piece)
                    .map_err(|()| format!("is damaged: piece {n_before} cannot be read"))?;
                model.pieces.push(piece);
            }
            (2, Field::Bytes(trainer)) => {
                for field in Fields::of(trainer) {
                    if let (3, Field::Number(model_type)) = field.map_err(not_sentence_piece)? {
                        model.model_type = model_type;
                    }
                }
            }
            _ => {}
        }
    }
    if model.pieces.is_empty() {
        return Err("is no SentencePiece model: it has no pieces".to_owned());
    }
    Ok(model)
}

fn not_sentence_piece(at: usize) -> String {
    format!("is no SentencePiece model, or damaged: it cannot be read past byte {at}")
}

fn parse_piece(bytes: &[u8]) -> Result<Token, ()> {
    let mut token = Token {
        text: Vec::new(),
        score: 0.0,
        token_type: TokenType::Normal,
    };
    for field in Fields::of(bytes) {
        match field.map_err(|_| ())? {
            (1, Field::Bytes(text)) => token.text = text.to_vec(),
            (2, Field::Four(score)) => token.score = f32::from_le_bytes(score),
            // Pieces that the trainer was told to keep whole (4) count as normal, as in the reference.
            (3, Field::Number(kind)) => {
                token.token_type = match kind {
                    1 | 4 => TokenType::Normal,
                    2 => TokenType::Unknown,
                    3 => TokenType::Control,
                    5 => TokenType::Unused,
                    6 => TokenType::Byte,
                    _ => return Err(()),
                };
            }
            _ => {}
        }
    }
    Ok(token)
}

/// A value of a field, by its wire type.
enum Field<'a> {
    /// Type 0.
    Number(u64),
    /// Type 1; nothing here uses it.
    Eight,
    /// Type 2.
    Bytes(&'a [u8]),
    /// Type 5.
    Four([u8; 4]),
}

/// The fields of a message, each with its number; an error is the byte where reading failed.
struct Fields<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Fields<'a> {
    fn of(bytes: &'a [u8]) -> Fields<'a> {
        Fields { bytes, at: 0 }
    }

    fn take(&mut self, n_bytes: usize) -> Option<&'a [u8]> {
        let taken = self.bytes.get(self.at..self.at.checked_add(n_bytes)?)?;
        self.at += n_bytes;
        Some(taken)
    }

    /// Seven bits per byte, the lowest first; the highest bit says that more follow.
    fn number(&mut self) -> Option<u64> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.take(1)?[0];
            let bits = u64::from(byte & 0x7F);
            if shift == 63 && bits > 1 {
                return None;
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    fn field(&mut self) -> Option<(u64, Field<'a>)> {
        let tag = self.number()?;
        let value = match tag & 7 {
            0 => Field::Number(self.number()?),
            1 => self.take(8).map(|_| Field::Eight)?,
            2 => {
                let n_bytes = usize::try_from(self.number()?).ok()?;
                Field::Bytes(self.take(n_bytes)?)
            }
            5 => Field::Four(self.take(4)?.try_into().ok()?),
            _ => return None,
        };
        // Field numbers start at one.
        (tag >> 3 > 0).then_some((tag >> 3, value))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, Field<'a>), usize>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.bytes.len() {
            return None;
        }
        let start = self.at;
        let field = self.field().ok_or(start);
        if field.is_err() {
            self.at = self.bytes.len();
        }
        Some(field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `piece: "ab", score: -1.5, type: CONTROL`, then a trainer with `model_type: BPE`.
    const MODEL: &[u8] = b"\x0A\x0B\x0A\x02ab\x15\x00\x00\xC0\xBF\x18\x03\x12\x02\x18\x02";

    #[test]
    fn reads_pieces_and_kind() {
        let model = parse(MODEL).unwrap();
        let token = Token {
            text: b"ab".to_vec(),
            score: -1.5,
            token_type: TokenType::Control,
        };
        assert_eq!(model.pieces, [token]);
        assert_eq!(model.model_type, 2);
    }

    #[test]
    fn damage_is_an_error_at_every_byte() {
        for n in 0..MODEL.len() {
            // Cut between fields, what is left is whole.
            let whole = n == 13;
            assert_eq!(parse(&MODEL[..n]).is_ok(), whole, "cut to {n} bytes");
        }
        for text in [
            &b"<!DOCTYPE html>"[..],
            b"\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF",
            b"IQ== 0\n",
        ] {
            assert!(parse(text).is_err());
        }
        assert!(parse(b"\x0A\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01").is_err());
    }
}
