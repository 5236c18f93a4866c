//! WordPiece from `tokenizer.json`, or from `vocab.txt` alone, which says the rest by what it leaves out.
//!
//! A GGUF file marks tokens that begin a word, by U+2581, where checkpoints mark those that continue one, by `##`.

use serde_json::{Map, Value, json};

use super::byte_level::{content, n_tokens, tokens_by_id};
use super::files::Files;
use super::json::TokenizerJson;
use super::{Token, TokenType, TokenizerOptions, Vocabulary, added_token, filler};
use crate::ConvertError;

const FILE: &str = "tokenizer.json";

/// The values of `tokenizer.ggml.pre` that go with WordPiece, which has no pre-tokenizer to choose. The first is written.
const PRE_NAMES: [&str; 3] = ["bert-bge", "bert-bge-large", "default"];

/// What begins a token that begins a word.
pub(crate) const WORD_START: &str = "\u{2581}";

/// What usually begins a token that continues a word in a checkpoint.
pub(crate) const CONTINUATION: &str = "##";

pub(super) fn read(
    files: &Files,
    json: &TokenizerJson,
    options: &TokenizerOptions<'_>,
    warnings: &mut Vec<String>,
) -> Result<Vocabulary, ConvertError> {
    let vocab = json.vocab().map_err(|reason| files.error(FILE, reason))?;
    let pre = options.pre_tokenizer.unwrap_or(PRE_NAMES[0]);
    if !PRE_NAMES.contains(&pre) {
        return Err(ConvertError::UnknownPreTokenizerName {
            name: pre.to_owned(),
            known: PRE_NAMES.join(", "),
        });
    }
    let prefix = json
        .model
        .continuing_subword_prefix
        .as_deref()
        .unwrap_or(CONTINUATION);
    if prefix.is_empty() {
        let reason =
            "model.continuing_subword_prefix is empty, so no token tells whether it begins a word";
        return Err(files.error(FILE, reason.to_owned()));
    }
    // A list of tokens says nothing of its own, so what is lost stands in the configuration beside it.
    let source = match files.from_vocab_txt {
        true => "tokenizer_config.json",
        false => FILE,
    };
    warnings.extend(unwritten(json, source));
    let (by_id, n_known) = tokens_by_id(files, json, vocab)?;
    let n_tokens = n_tokens(files, options, n_known, by_id.keys().max().copied())?;
    let tokens = (0..n_tokens).map(|id| match by_id.get(&(id as u64)) {
        None => word_start(filler(id, 0.0)),
        Some(&(text, None)) => match text.strip_prefix(prefix) {
            Some(rest) => normal(rest.to_owned()),
            None => normal(format!("{WORD_START}{text}")),
        },
        Some(&(text, Some(special))) => added_token(text, special, 0.0),
    });
    Ok(Vocabulary {
        kind: "WordPiece",
        file: match files.from_vocab_txt {
            true => "vocab.txt",
            false => FILE,
        },
        model: "bert",
        pre: pre.to_owned(),
        tokens: tokens.collect(),
        has_scores: false,
        merges: Vec::new(),
    })
}

fn normal(text: String) -> Token {
    Token {
        text: text.into_bytes(),
        score: 0.0,
        token_type: TokenType::Normal,
    }
}

/// The reference marks fillers like words.
fn word_start(token: Token) -> Token {
    Token {
        text: [WORD_START.as_bytes(), &token.text].concat(),
        ..token
    }
}

/// What the definition says that a GGUF file cannot.
fn unwritten(json: &TokenizerJson, source: &str) -> Vec<String> {
    let off = |key: &str| json.normalizer.get(key) == Some(&Value::Bool(false));
    let kind = |part: &Value| {
        let kind = part.get("type").and_then(Value::as_str);
        kind.unwrap_or("none").to_owned()
    };
    let (normalizer, pre_tokenizer) = (kind(&json.normalizer), kind(&json.pre_tokenizer));
    let lost = [
        (
            normalizer != "BertNormalizer",
            format!("the normalizer is {normalizer}, but programs use BertNormalizer"),
        ),
        (
            pre_tokenizer != "BertPreTokenizer",
            format!("the pre-tokenizer is {pre_tokenizer}, but programs use BertPreTokenizer"),
        ),
        (
            off("clean_text"),
            "control characters are kept, but programs drop them".to_owned(),
        ),
        (
            off("handle_chinese_chars"),
            "Chinese text is not split into characters, but programs split it".to_owned(),
        ),
    ];
    let lost = lost.into_iter().filter(|(differs, _)| *differs);
    lost.map(|(_, what)| format!("{source}: {what}, since a GGUF file cannot say so for WordPiece"))
        .collect()
}

/// Classes whose tokenizer is told by `vocab.txt` and `tokenizer_config.json`.
const CLASSES: [&str; 3] = ["BertTokenizer", "DistilBertTokenizer", "ElectraTokenizer"];

/// The special tokens where `tokenizer_config.json` names none, by role.
const SPECIAL: [(&str, &str); 5] = [
    ("unk", "[UNK]"),
    ("sep", "[SEP]"),
    ("pad", "[PAD]"),
    ("cls", "[CLS]"),
    ("mask", "[MASK]"),
];

/// The `tokenizer.json` that a `vocab.txt` stands for, or none where the configuration names a class that reads it
/// otherwise. `config` gets the names of special tokens that it lacks.
pub(super) fn of_vocab_txt(vocab: &str, config: &mut Map<String, Value>) -> Option<TokenizerJson> {
    let class = config.get("tokenizer_class").and_then(Value::as_str);
    let class = class.map(|class| class.strip_suffix("Fast").unwrap_or(class));
    if class.is_some_and(|class| !CLASSES.contains(&class)) {
        return None;
    }
    // A line of its own is a token, spaces included; of two that are equal the later counts.
    let lines = vocab.lines().enumerate();
    let ids: Map<String, Value> = lines
        .map(|(id, token)| (token.to_owned(), id.into()))
        .collect();
    let mut named = Vec::new();
    for (role, usual) in SPECIAL {
        let key = format!("{role}_token");
        let text = config.get(&key).and_then(content).unwrap_or(usual);
        named.push((role, text.to_owned()));
        config.entry(key).or_insert_with(|| usual.into());
    }
    let text = |wanted: &str| named.iter().find(|(role, _)| *role == wanted);
    let text = |wanted: &str| text(wanted).map(|(_, text)| text.as_str());
    let mut added: Vec<(u64, &str)> = named
        .iter()
        .filter_map(|(_, text)| Some((ids.get(text)?.as_u64()?, text.as_str())))
        .collect();
    added.sort_unstable();
    let added: Vec<Value> = added
        .into_iter()
        .map(|(id, text)| json!({"id": id, "content": text, "special": true}))
        .collect();
    let flag = |key: &str, usual: bool| {
        let flag = config.get(key).and_then(Value::as_bool);
        flag.unwrap_or(usual)
    };
    let special = |role: &str| json!({"SpecialToken": {"id": text(role), "type_id": 0}});
    let sequence = |id: &str| json!({"Sequence": {"id": id, "type_id": 0}});
    let single = [special("cls"), sequence("A"), special("sep")];
    let pair = [
        special("cls"),
        sequence("A"),
        special("sep"),
        sequence("B"),
        special("sep"),
    ];
    let definition = json!({
        "added_tokens": added,
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": true,
            "handle_chinese_chars": flag("tokenize_chinese_chars", true),
            "strip_accents": config.get("strip_accents"),
            "lowercase": flag("do_lower_case", true),
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "TemplateProcessing", "single": single, "pair": pair},
        "model": {
            "type": "WordPiece",
            "unk_token": text("unk"),
            "continuing_subword_prefix": CONTINUATION,
            "vocab": ids,
        },
    });
    serde_json::from_value(definition).ok()
}
