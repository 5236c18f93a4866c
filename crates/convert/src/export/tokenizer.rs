//! The tokenizer, the way back: `tokenizer.json` that gives the ids of the file's vocabulary, `tokenizer_config.json` with the
//! roles of tokens, `tokenizer.model` for SentencePiece, and chat templates in files of their own.

use std::collections::{HashMap, HashSet};

use gristmill_gguf::{Metadata, StringArray, Value as Entry};
use gristmill_model::Hyperparameters;
use gristmill_tokenizer::pre;
use serde_json::{Map, Value, json};

use super::sentence_piece::{self, Roles};
use crate::ConvertError;
use crate::tokenizer::{ADDITIONAL_TEMPLATES, SCORE_ADDED, TokenType};

/// A token as the file has it.
#[derive(Clone, Copy)]
pub(super) struct Token<'a> {
    pub text: &'a [u8],
    pub score: f32,
    pub kind: TokenType,
}

/// Roles in the order in which conversion looks for them, with their keys below `tokenizer.ggml.`.
const ROLES: [(&str, &str); 6] = [
    ("bos", "bos_token_id"),
    ("eos", "eos_token_id"),
    ("unk", "unknown_token_id"),
    ("sep", "seperator_token_id"),
    ("pad", "padding_token_id"),
    ("mask", "mask_token_id"),
];

/// Files of the tokenizer, by name.
pub(super) type Files = Vec<(String, Vec<u8>)>;

/// The files of the tokenizer; ids of roles join the model's configuration.
///
/// # Errors
/// `NotExportable` for a kind of tokenizer, or a pre-tokenizer, that has no form in `tokenizer.json` here.
pub(super) fn files(
    metadata: &Metadata,
    hparams: &Hyperparameters,
    config: &mut Map<String, Value>,
) -> Result<Files, ConvertError> {
    let vocabulary = Vocabulary::read(metadata, hparams)?;
    for (role, key) in ROLES {
        // The padding token of a class may be one that the vocabulary has not.
        if let Some(id) = vocabulary.id(key) {
            config.insert(format!("{role}_token_id"), id.into());
        } else if role == "pad" {
            config.insert("pad_token_id".into(), Value::Null);
        }
    }
    let json = match vocabulary.model {
        "gpt2" => vocabulary.byte_level()?,
        "llama" => vocabulary.sentence_piece()?,
        "bert" => vocabulary.word_piece(),
        other => {
            return Err(ConvertError::NotExportable {
                what: format!("a tokenizer of the kind {other:?}"),
            });
        }
    };
    let mut files = vec![
        ("tokenizer.json".to_owned(), json.to_string().into_bytes()),
        (
            "tokenizer_config.json".to_owned(),
            format!("{:#}\n", vocabulary.config()).into_bytes(),
        ),
    ];
    if vocabulary.model == "llama" {
        let roles = Roles {
            unknown: vocabulary.id("unknown_token_id"),
            bos: vocabulary.id("bos_token_id"),
            eos: vocabulary.id("eos_token_id"),
            pad: vocabulary.id("padding_token_id"),
            space_prefix: vocabulary.space_prefix(),
        };
        let pieces = sentence_piece::model(vocabulary.without_fillers(), &roles);
        files.push(("tokenizer.model".to_owned(), pieces));
    }
    files.extend(templates(metadata));
    Ok(files)
}

/// Chat templates, as files.
fn templates(metadata: &Metadata) -> Files {
    let text = |key: &str| Some(metadata.get(key)?.as_text()?.as_bytes().to_vec());
    let default = text("tokenizer.chat_template");
    let mut files: Files = default
        .map(|template| ("chat_template.jinja".to_owned(), template))
        .into_iter()
        .collect();
    let named = metadata.strings("tokenizer.chat_templates").ok().flatten();
    for name in named.into_iter().flat_map(StringArray::iter) {
        let name = String::from_utf8_lossy(name);
        let is_plain =
            name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') && !name.is_empty();
        if let (true, Some(template)) = (is_plain, text(&format!("tokenizer.chat_template.{name}")))
        {
            files.push((format!("{ADDITIONAL_TEMPLATES}/{name}.jinja"), template));
        }
    }
    files
}

/// The vocabulary of a file.
pub(super) struct Vocabulary<'a> {
    metadata: &'a Metadata,
    hparams: &'a Hyperparameters,
    model: &'a str,
    tokens: Vec<Token<'a>>,
}

impl<'a> Vocabulary<'a> {
    fn read(metadata: &'a Metadata, hparams: &'a Hyperparameters) -> Result<Self, ConvertError> {
        let texts = metadata.required_strings("tokenizer.ggml.tokens")?;
        let scores = metadata.f32s("tokenizer.ggml.scores")?.unwrap_or_default();
        let kinds = metadata
            .i32s("tokenizer.ggml.token_type")?
            .unwrap_or_default();
        let token = |(id, text): (usize, &'a [u8])| Token {
            text,
            score: scores.get(id).copied().unwrap_or_default(),
            kind: match kinds.get(id) {
                Some(2) => TokenType::Unknown,
                Some(3) => TokenType::Control,
                Some(4) => TokenType::UserDefined,
                Some(5) => TokenType::Unused,
                Some(6) => TokenType::Byte,
                _ => TokenType::Normal,
            },
        };
        let tokens: Vec<Token<'_>> = texts.iter().enumerate().map(token).collect();
        let broken = tokens
            .iter()
            .position(|token| std::str::from_utf8(token.text).is_err());
        if let Some(id) = broken {
            return Err(ConvertError::NotExportable {
                what: format!("token {id}, which is no UTF-8 text,"),
            });
        }
        Ok(Vocabulary {
            metadata,
            hparams,
            model: metadata.required_str("tokenizer.ggml.model")?,
            tokens,
        })
    }

    fn get(&self, key: &str) -> Option<&'a Entry> {
        self.metadata.get(&format!("tokenizer.ggml.{key}"))
    }

    /// Where an entry stands among all.
    fn place(&self, key: &str) -> Option<usize> {
        let key = format!("tokenizer.ggml.{key}");
        self.metadata.iter().position(|(known, _)| known == key)
    }

    pub(super) fn flag(&self, key: &str) -> Option<bool> {
        match self.get(key)? {
            Entry::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// The id of a role, where it is one of the vocabulary.
    pub(super) fn id(&self, key: &str) -> Option<u64> {
        let id = u64::try_from(self.get(key)?.as_integer()?).ok()?;
        ((id as usize) < self.tokens.len()).then_some(id)
    }

    fn space_prefix(&self) -> bool {
        self.flag("add_space_prefix").unwrap_or(true)
    }

    /// The text of a token; all were found to be UTF-8.
    pub(super) fn text(&self, id: usize) -> &'a str {
        let text = self.tokens.get(id).map_or(&[][..], |token| token.text);
        std::str::from_utf8(text).unwrap_or_default()
    }

    /// What each token is, in the order of the ids.
    pub(super) fn kinds(&self) -> impl Iterator<Item = TokenType> {
        self.tokens.iter().map(|token| token.kind)
    }

    /// A token that only fills the vocabulary up to the rows of the embeddings: conversion makes it again.
    fn is_filler(&self, id: usize) -> bool {
        self.tokens[id].kind == TokenType::Unused && self.text(id) == format!("[PAD{id}]")
    }

    /// The tokens without the fillers at the end.
    fn without_fillers(&self) -> &[Token<'a>] {
        let n_kept = (0..self.tokens.len()).rposition(|id| !self.is_filler(id));
        &self.tokens[..n_kept.map_or(0, |last| last + 1)]
    }

    /// Tokens that stand for themselves in a text, with whether they are special.
    fn added(&self) -> impl Iterator<Item = (usize, bool)> {
        let tokens = self.tokens.iter().enumerate();
        tokens.filter_map(|(id, token)| match token.kind {
            TokenType::Control | TokenType::Unknown => Some((id, true)),
            TokenType::UserDefined => Some((id, false)),
            _ => None,
        })
    }

    fn added_json(&self, id: usize, is_special: bool) -> Value {
        json!({
            "content": self.text(id), "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false, "special": is_special,
        })
    }

    pub(super) fn added_tokens(&self) -> Vec<Value> {
        let entry = |(id, is_special)| {
            let mut entry = self.added_json(id, is_special);
            entry["id"] = id.into();
            entry
        };
        self.added().map(entry).collect()
    }

    /// Every token but the fillers, by text. Added ones keep their ids by being there.
    fn vocab(&self) -> Map<String, Value> {
        let kept = (0..self.tokens.len()).filter(|&id| !self.is_filler(id));
        kept.map(|id| (self.text(id).to_owned(), id.into()))
            .collect()
    }

    /// Byte-level BPE.
    fn byte_level(&self) -> Result<Value, ConvertError> {
        let name = self
            .metadata
            .str("tokenizer.ggml.pre")
            .ok()
            .flatten()
            .unwrap_or("default");
        let not_exportable = || ConvertError::NotExportable {
            what: format!("the pre-tokenizer {name:?}"),
        };
        let (pre, flags) = pre::by_name(name).ok_or_else(not_exportable)?;
        // Without expressions of its own it cuts as no definition does; GPT-2's come nearest.
        let patterns = pre
            .patterns
            .first()
            .copied()
            .unwrap_or(&[pre::GPT2_PATTERN]);
        let merges = self
            .metadata
            .strings("tokenizer.ggml.merges")
            .ok()
            .flatten();
        let merges = merges.into_iter().flat_map(StringArray::iter).map(merge);
        Ok(json!({
            "version": "1.0", "truncation": null, "padding": null,
            "added_tokens": self.added_tokens(),
            "normalizer": null,
            "pre_tokenizer": pre_tokenizer(patterns),
            "post_processor": self.post_processor(),
            "decoder": { "type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true },
            "model": {
                "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
                "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false,
                "ignore_merges": flags.ignore_merges,
                "vocab": self.vocab(),
                "merges": merges.collect::<Vec<Value>>(),
            },
        }))
    }

    /// SentencePiece in the clothes of BPE: merges in the order that scores give them.
    fn sentence_piece(&self) -> Result<Value, ConvertError> {
        let space = "\u{2581}";
        let replace = json!({ "type": "Replace", "pattern": { "String": " " }, "content": space });
        let mut decoders = vec![
            json!({ "type": "Replace", "pattern": { "String": space }, "content": " " }),
            json!({ "type": "ByteFallback" }),
            json!({ "type": "Fuse" }),
        ];
        let normalizer = match self.space_prefix() {
            true => {
                decoders.push(json!({ "type": "Strip", "content": " ", "start": 1, "stop": 0 }));
                json!({ "type": "Sequence", "normalizers": [{ "type": "Prepend", "prepend": space }, replace] })
            }
            false => replace,
        };
        let unknown = self.id("unknown_token_id").map(|id| self.text(id as usize));
        Ok(json!({
            "version": "1.0", "truncation": null, "padding": null,
            "added_tokens": self.added_tokens(),
            "normalizer": normalizer,
            "pre_tokenizer": null,
            "post_processor": self.post_processor(),
            "decoder": { "type": "Sequence", "decoders": decoders },
            "model": {
                "type": "BPE", "dropout": null, "unk_token": unknown, "continuing_subword_prefix": null,
                "end_of_word_suffix": null, "fuse_unk": true, "byte_fallback": true, "ignore_merges": false,
                "vocab": self.vocab(),
                "merges": self.merges_by_score(),
            },
        }))
    }

    /// Every way to make a token of two others, the best score first; of one score, by the ids of the parts. Added tokens are
    /// found before anything is joined.
    fn merges_by_score(&self) -> Vec<Value> {
        let added: HashSet<usize> = self.added().map(|(id, _)| id).collect();
        let is_joined = |id: &usize| {
            self.tokens[*id].kind != TokenType::Byte && !added.contains(id) && !self.is_filler(*id)
        };
        let joined: Vec<usize> = (0..self.tokens.len()).filter(is_joined).collect();
        let ids: HashMap<&str, usize> = joined.iter().map(|&id| (self.text(id), id)).collect();
        let mut merges = Vec::new();
        for &id in &joined {
            let text = self.text(id);
            for (at, _) in text.char_indices().skip(1) {
                let (left, right) = text.split_at(at);
                if let (Some(&left), Some(&right)) = (ids.get(left), ids.get(right)) {
                    merges.push((self.tokens[id].score, left, right));
                }
            }
        }
        merges.sort_by(|a, b| b.0.total_cmp(&a.0).then((a.1, a.2).cmp(&(b.1, b.2))));
        let pair =
            |(_, left, right): (f32, usize, usize)| json!([self.text(left), self.text(right)]);
        merges.into_iter().map(pair).collect()
    }

    /// What is put around a text.
    fn post_processor(&self) -> Value {
        let role = |flag: &str, key: &str| {
            let id = self.id(key).filter(|_| self.flag(flag) == Some(true))?;
            Some((self.text(id as usize), id))
        };
        let (bos, eos) = (
            role("add_bos_token", "bos_token_id"),
            role("add_eos_token", "eos_token_id"),
        );
        let special =
            |token: (&str, u64)| json!({ "SpecialToken": { "id": token.0, "type_id": 0 } });
        let text = |id: &str| json!({ "Sequence": { "id": id, "type_id": 0 } });
        let around = |name: &str| [bos.map(special), Some(text(name)), eos.map(special)];
        let single: Vec<Value> = around("A").into_iter().flatten().collect();
        let mut pair = single.clone();
        match self.get("add_sep_token").is_some() {
            true => pair.extend(around("B").into_iter().flatten()),
            false => pair.extend([Some(text("B")), eos.map(special)].into_iter().flatten()),
        }
        let tokens = bos.into_iter().chain(eos).map(|(text, id)| {
            (
                text.to_owned(),
                json!({ "id": text, "ids": [id], "tokens": [text] }),
            )
        });
        let template = json!({
            "type": "TemplateProcessing", "single": single, "pair": pair,
            "special_tokens": tokens.collect::<Map<String, Value>>(),
        });
        let byte_level = json!({ "type": "ByteLevel", "add_prefix_space": true, "trim_offsets": false, "use_regex": true });
        match (
            bos.is_some() || eos.is_some(),
            self.has_byte_level_processor(),
        ) {
            (true, true) => json!({ "type": "Sequence", "processors": [byte_level, template] }),
            (true, false) => template,
            (false, true) => byte_level,
            (false, false) => Value::Null,
        }
    }

    /// Whether the flags came from a processor of that kind, which says both before anything else does.
    fn has_byte_level_processor(&self) -> bool {
        let (bos, eos, sep) = (
            self.place("add_bos_token"),
            self.place("add_eos_token"),
            self.place("add_sep_token"),
        );
        self.model == "gpt2"
            && bos.is_some()
            && eos.is_some()
            && sep.is_none_or(|sep| eos < Some(sep))
    }

    /// `tokenizer_config.json`.
    fn config(&self) -> Value {
        let mut config = Map::new();
        config.insert("tokenizer_class".into(), json!("PreTrainedTokenizerFast"));
        config.insert(
            "model_max_length".into(),
            self.hparams.n_context_train.into(),
        );
        config.insert("clean_up_tokenization_spaces".into(), false.into());
        let habit = self.hparams.architecture.tokenizer;
        if let Some(prefix) = self
            .flag("add_space_prefix")
            .filter(|_| habit.space_prefix_as_configured)
        {
            config.insert("add_prefix_space".into(), prefix.into());
        }
        let of_size = habit
            .by_size
            .iter()
            .filter(|(size, _)| *size == self.tokens.len());
        let by_habit: Vec<&str> = of_size
            .flat_map(|(_, entries)| *entries)
            .map(|(key, _)| *key)
            .collect();
        for key in ["add_bos_token", "add_eos_token"] {
            if let Some(add) = self.flag(key).filter(|_| !by_habit.contains(&key)) {
                config.insert(key.into(), add.into());
            }
        }
        for (role, id) in self.named_roles() {
            config.insert(format!("{role}_token"), self.text(id).into());
        }
        if self.model == "bert" {
            self.word_piece_config(&mut config);
        }
        let decoder = self.added().filter(|(id, _)| self.is_listed(*id));
        let decoder =
            decoder.map(|(id, is_special)| (id.to_string(), self.added_json(id, is_special)));
        config.insert(
            "added_tokens_decoder".into(),
            decoder.collect::<Map<String, Value>>().into(),
        );
        config.into()
    }

    /// Whether a token was added after training, by its score; without scores all that could be were.
    fn is_listed(&self, id: usize) -> bool {
        self.model != "llama" || self.tokens[id].score == SCORE_ADDED
    }

    /// Roles that the configuration of the tokenizer names by text: conversion finds these first, in the order of
    /// [`ROLES`], and the model's configuration names the others by id.
    fn named_roles(&self) -> Vec<(&'static str, usize)> {
        let mut last = None;
        let mut named = Vec::new();
        let first = ROLES.iter().filter_map(|(_, key)| self.place(key)).min();
        for (role, key) in ROLES {
            let (Some(at), Some(id)) = (self.place(key), self.id(key)) else {
                continue;
            };
            let id = id as usize;
            let is_token = matches!(
                self.tokens[id].kind,
                TokenType::Control | TokenType::Unknown
            );
            // One that stands behind others that come later in the list was found by its id.
            let is_next = match last {
                None => Some(at) == first,
                Some(last) => at == last + 1,
            };
            if is_next && is_token {
                named.push((role, id));
                last = Some(at);
            }
        }
        named
    }
}

/// A merge as two parts; one that cannot be taken apart stays as it is.
fn merge(merge: &[u8]) -> Value {
    let text = String::from_utf8_lossy(merge);
    match text.split_once(' ') {
        Some((left, right)) if !right.contains(' ') => json!([left, right]),
        _ => text.into_owned().into(),
    }
}

/// Expressions that cut one after another.
fn pre_tokenizer(patterns: &[&str]) -> Value {
    let byte_level = |use_regex: bool| json!({ "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": use_regex });
    let mut parts: Vec<Value> = Vec::new();
    let (last, before) = match patterns.split_last() {
        Some((&last, before)) if last == pre::GPT2_PATTERN => (byte_level(true), before),
        _ => (byte_level(false), patterns),
    };
    for pattern in before {
        parts.push(json!({
            "type": "Split", "pattern": { "Regex": pattern }, "behavior": "Isolated", "invert": false,
        }));
    }
    match parts.is_empty() {
        true => last,
        false => {
            parts.push(last);
            json!({ "type": "Sequence", "pretokenizers": parts })
        }
    }
}
