//! `tokenizer.model`, the way back: pieces with their scores and types, as a protocol buffer.

use super::tokenizer::Token;
use crate::tokenizer::TokenType;

/// Field numbers of `sentencepiece_model.proto`.
mod field {
    pub const PIECES: u32 = 1;
    pub const TRAINER: u32 = 2;
    pub const NORMALIZER: u32 = 3;
    pub const PIECE_TEXT: u32 = 1;
    pub const PIECE_SCORE: u32 = 2;
    pub const PIECE_TYPE: u32 = 3;
    pub const MODEL_TYPE: u32 = 3;
    pub const VOCAB_SIZE: u32 = 4;
    pub const BYTE_FALLBACK: u32 = 35;
    pub const UNK_ID: u32 = 40;
    pub const BOS_ID: u32 = 41;
    pub const EOS_ID: u32 = 42;
    pub const PAD_ID: u32 = 43;
    pub const NAME: u32 = 1;
    pub const ADD_DUMMY_PREFIX: u32 = 3;
    pub const REMOVE_EXTRA_WHITESPACES: u32 = 4;
}

/// `model_type` of byte-pair encoding.
const BPE: u64 = 2;

/// What the model says beside its pieces.
pub(super) struct Roles {
    pub unknown: Option<u64>,
    pub bos: Option<u64>,
    pub eos: Option<u64>,
    pub pad: Option<u64>,
    /// Whether a space is put before a text.
    pub space_prefix: bool,
}

/// The bytes of the file.
pub(super) fn model(tokens: &[Token<'_>], roles: &Roles) -> Vec<u8> {
    let mut out = Message::default();
    for (id, token) in tokens.iter().enumerate() {
        let is_unknown = roles.unknown == Some(id as u64);
        let kind = match is_unknown {
            true => TokenType::Unknown,
            false => token.kind,
        };
        let mut piece = Message::default();
        piece.bytes(field::PIECE_TEXT, token.text);
        piece.float(field::PIECE_SCORE, token.score);
        // Both formats count the types alike.
        piece.number(field::PIECE_TYPE, kind as u64);
        out.bytes(field::PIECES, &piece.0);
    }
    let mut trainer = Message::default();
    trainer.number(field::MODEL_TYPE, BPE);
    trainer.number(field::VOCAB_SIZE, tokens.len() as u64);
    trainer.number(field::BYTE_FALLBACK, 1);
    for (number, id) in [
        (field::UNK_ID, roles.unknown),
        (field::BOS_ID, roles.bos),
        (field::EOS_ID, roles.eos),
        (field::PAD_ID, roles.pad),
    ] {
        // A role that no token has is -1.
        trainer.number(number, id.unwrap_or(u64::MAX));
    }
    out.bytes(field::TRAINER, &trainer.0);
    let mut normalizer = Message::default();
    normalizer.bytes(field::NAME, b"identity");
    normalizer.number(field::ADD_DUMMY_PREFIX, roles.space_prefix.into());
    normalizer.number(field::REMOVE_EXTRA_WHITESPACES, 0);
    out.bytes(field::NORMALIZER, &normalizer.0);
    out.0
}

/// A message under construction.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    /// Seven bits per byte, the lowest first; the highest bit says that more follow.
    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    fn number(&mut self, field: u32, number: u64) {
        self.varint(u64::from(field) << 3);
        self.varint(number);
    }

    fn bytes(&mut self, field: u32, bytes: &[u8]) {
        self.varint(u64::from(field) << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn float(&mut self, field: u32, number: f32) {
        self.varint(u64::from(field) << 3 | 5);
        self.0.extend_from_slice(&number.to_le_bytes());
    }
}
