//! WordPiece, the way back: a GGUF file marks tokens that begin a word, `tokenizer.json` those that continue one.

use serde_json::{Map, Value, json};

use super::tokenizer::Vocabulary;
use crate::tokenizer::{CONTINUATION, TokenType, WORD_START};

/// What BERT's tokenizer takes for one unknown token.
const LONGEST_WORD: u32 = 100;

impl Vocabulary<'_> {
    /// `tokenizer.json`.
    pub(super) fn word_piece(&self) -> Value {
        let unknown = self.id("unknown_token_id").map(|id| self.text(id as usize));
        let (lowercase, strip_accents) = self.normalization();
        json!({
            "version": "1.0", "truncation": null, "padding": null,
            "added_tokens": self.added_tokens(),
            "normalizer": {
                "type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
                "strip_accents": strip_accents, "lowercase": lowercase,
            },
            "pre_tokenizer": { "type": "BertPreTokenizer" },
            "post_processor": self.around_texts(),
            "decoder": { "type": "WordPiece", "prefix": CONTINUATION, "cleanup": true },
            "model": {
                "type": "WordPiece", "unk_token": unknown.unwrap_or("[UNK]"),
                "continuing_subword_prefix": CONTINUATION, "max_input_chars_per_word": LONGEST_WORD,
                "vocab": self.words(),
            },
        })
    }

    /// What `tokenizer_config.json` says besides: the class with its names of roles, by which conversion finds the same.
    pub(super) fn word_piece_config(&self, config: &mut Map<String, Value>) {
        let (lowercase, strip_accents) = self.normalization();
        config.insert("tokenizer_class".into(), "BertTokenizer".into());
        config.insert("do_lower_case".into(), lowercase.into());
        config.insert("strip_accents".into(), strip_accents.into());
        config.insert("tokenize_chinese_chars".into(), true.into());
        if config.contains_key("sep_token") && config.get("sep_token") == config.get("eos_token") {
            config.remove("eos_token");
        }
        if let Some(first) = config.remove("bos_token") {
            config.insert("cls_token".into(), first);
        }
    }

    /// Whether letters become small ones, and whether accents go, where the file says so.
    fn normalization(&self) -> (bool, Option<bool>) {
        let lowercase = self.flag("normalizer.lowercase").unwrap_or(true);
        (lowercase, self.flag("normalizer.strip_accents"))
    }

    fn words(&self) -> Map<String, Value> {
        let word = |(id, token): (usize, TokenType)| {
            let text = self.text(id);
            let text = match (token, text.strip_prefix(WORD_START)) {
                (TokenType::Normal, Some("") | None) => format!("{CONTINUATION}{text}"),
                (TokenType::Normal, Some(rest)) => rest.to_owned(),
                // Rows that only fill the table up.
                (TokenType::Unused, _) => return None,
                _ => text.to_owned(),
            };
            Some((text, id.into()))
        };
        self.kinds().enumerate().filter_map(word).collect()
    }

    /// `[CLS] A [SEP]`, and `[CLS] A [SEP] B [SEP]` with the second text of another type.
    fn around_texts(&self) -> Value {
        let role = |flag: &str, key: &str| {
            let id = self.id(key).filter(|_| self.flag(flag) != Some(false))?;
            Some((self.text(id as usize), id))
        };
        let first = role("add_bos_token", "bos_token_id");
        let last = role("add_eos_token", "eos_token_id");
        let special = |token: (&str, u64), ty: u32| json!({ "SpecialToken": { "id": token.0, "type_id": ty } });
        let text = |id: &str, ty: u32| json!({ "Sequence": { "id": id, "type_id": ty } });
        let start = [
            first.map(|token| special(token, 0)),
            Some(text("A", 0)),
            last.map(|token| special(token, 0)),
        ];
        let single: Vec<Value> = start.into_iter().flatten().collect();
        let between = last.filter(|_| self.flag("add_sep_token") == Some(true));
        let second = [
            between.map(|token| special(token, 0)),
            Some(text("B", 1)),
            last.map(|token| special(token, 1)),
        ];
        let pair: Vec<Value> = single
            .iter()
            .cloned()
            .chain(second.into_iter().flatten())
            .collect();
        let tokens = first.into_iter().chain(last).map(|(text, id)| {
            (
                text.to_owned(),
                json!({ "id": text, "ids": [id], "tokens": [text] }),
            )
        });
        json!({
            "type": "TemplateProcessing", "single": single, "pair": pair,
            "special_tokens": tokens.collect::<Map<String, Value>>(),
        })
    }
}
