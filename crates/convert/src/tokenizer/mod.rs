//! Import of a tokenizer: from the files of a Hugging Face folder to metadata entries, in the order in which
//! the reference's converter writes them.
//!
//! ```text
//! tokenizer.model ----- sentence_piece --\
//! tokenizer.json  --+-- byte_fallback ----+--> tokens, scores, types --\
//! vocab.txt       --+-- byte_level -------+    pre-tokenizer, merges    +--> entries
//!                   \-- word_piece ------/                             |
//! tokenizer_config.json, config.json ----- special, template ----------/
//! ```

mod byte_fallback;
mod byte_level;
mod files;
mod json;
mod pre_tokenizer;
pub(crate) mod sample;
mod sentence_piece;
mod special;
mod template;
mod word_piece;

use std::path::Path;

use gristmill_gguf::{StringArray, Value};
use gristmill_model::{HabitValue, TokenizerHabit};

use crate::ConvertError;
use files::Files;

pub(crate) use sentence_piece::SCORE_ADDED;
pub(crate) use word_piece::{CONTINUATION, WORD_START};

/// What the caller knows about the model, and the user's wish.
#[derive(Clone, Debug, Default)]
pub struct TokenizerOptions<'a> {
    /// Rows of the embeddings, from `vocab_size` of `config.json`: the vocabulary is filled up to them.
    pub n_rows: Option<u64>,
    /// The value of `tokenizer.ggml.pre`, in place of the one that the regular expressions give.
    pub pre_tokenizer: Option<&'a str>,
    /// `config.json`, where it has been read already; else the folder's is read.
    pub config: Option<&'a serde_json::Value>,
    /// Which entries beyond the tokenizer's files the architecture gets.
    pub habit: TokenizerHabit,
}

/// The imported tokenizer.
#[derive(Clone, Debug)]
pub struct TokenizerImport {
    /// Metadata entries in order; every key begins with `tokenizer.`.
    pub entries: Vec<(String, Value)>,
    /// What was found, for the log.
    pub log: TokenizerLog,
}

/// What was found in the folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenizerLog {
    /// `byte-level BPE`, `SentencePiece BPE` or `WordPiece`.
    pub kind: &'static str,
    /// The file that the tokens come from.
    pub file: &'static str,
    /// The value of `tokenizer.ggml.pre`.
    pub pre_tokenizer: String,
    /// Tokens in the vocabulary, fillers included.
    pub n_tokens: usize,
    /// Tokens that only fill the vocabulary up to the rows of the embeddings.
    pub n_fillers: usize,
    /// Merges; 0 where there are none.
    pub n_merges: usize,
    /// Where the chat template comes from, if there is one.
    pub chat_template: Option<&'static str>,
    /// Names of further chat templates.
    pub named_templates: Vec<String>,
    /// What the user should know.
    pub warnings: Vec<String>,
}

/// Vocabularies beyond this are refused before they are built: the largest known have 262144 tokens.
const N_TOKENS_MAX: u64 = 1 << 24;

/// The folder of named chat templates, below the checkpoint's.
pub(crate) const ADDITIONAL_TEMPLATES: &str = "additional_chat_templates";

/// Values of `tokenizer.ggml.token_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenType {
    Normal = 1,
    Unknown = 2,
    Control = 3,
    UserDefined = 4,
    Unused = 5,
    Byte = 6,
}

/// A vocabulary under construction.
struct Vocabulary {
    kind: &'static str,
    file: &'static str,
    /// `tokenizer.ggml.model`.
    model: &'static str,
    pre: String,
    tokens: Vec<Token>,
    has_scores: bool,
    merges: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
struct Token {
    text: Vec<u8>,
    score: f32,
    token_type: TokenType,
}

/// Imports the tokenizer of a folder: from `tokenizer.model` if it is there, else from `tokenizer.json`, else from
/// `vocab.txt`.
///
/// # Errors
/// If there is no tokenizer, a file cannot be read or is not what it should be, the pre-tokenizer is
/// unknown, or there are more tokens than rows.
pub fn tokenizer_metadata(
    folder: &Path,
    options: &TokenizerOptions<'_>,
) -> Result<TokenizerImport, ConvertError> {
    let mut log = TokenizerLog::default();
    let files = Files::read(folder, options.config, &mut log.warnings)?;
    let vocabulary = read_vocabulary(&files, options, &mut log.warnings)?;
    let n_tokens = vocabulary.tokens.len();
    let special = special::read(&files, n_tokens, &mut log.warnings);
    let templates = template::read(&files, &mut log)?;
    log.kind = vocabulary.kind;
    log.file = vocabulary.file;
    log.pre_tokenizer.clone_from(&vocabulary.pre);
    log.n_tokens = n_tokens;
    log.n_merges = vocabulary.merges.len();
    log.n_fillers = vocabulary
        .tokens
        .iter()
        .filter(|token| is_filler(token))
        .count();

    let mut entries = Entries(Vec::new());
    let is_spm = vocabulary.model == "llama";
    if options.habit.space_prefix_as_configured
        && let Some(prefix) = files.config_bool("add_prefix_space")
    {
        entries.set("tokenizer.ggml.add_space_prefix", prefix);
    }
    if vocabulary.model == "bert" {
        let n_types = files.model_config.get("type_vocab_size");
        let n_types = n_types.and_then(serde_json::Value::as_u64);
        // The class means 2 where it is silent.
        let n_types = n_types.and_then(|n| u32::try_from(n).ok()).unwrap_or(2);
        entries.set("tokenizer.ggml.token_type_count", n_types);
    }
    write_vocabulary(vocabulary, &mut entries);
    special.write(&mut entries);
    templates.write(&mut entries);
    special.write_normalizer(&mut entries);
    write_habits(options.habit, n_tokens, is_spm, &mut entries);
    Ok(TokenizerImport {
        entries: entries.0,
        log,
    })
}

fn read_vocabulary(
    files: &Files,
    options: &TokenizerOptions<'_>,
    warnings: &mut Vec<String>,
) -> Result<Vocabulary, ConvertError> {
    if let Some(n_rows) = options.n_rows.filter(|&n_rows| n_rows > N_TOKENS_MAX) {
        return Err(files.error(
            "config.json",
            format!("vocab_size is {n_rows}, which no model has"),
        ));
    }
    if let Some(model) = &files.sentence_piece {
        match sentence_piece::read(files, model, options, warnings) {
            // Some folders have a file of that name with something else in it.
            Err(ConvertError::Tokenizer { reason, .. }) if files.json.is_some() => warnings.push(
                format!("tokenizer.model is not used, tokenizer.json is: {reason}"),
            ),
            other => return other,
        }
    }
    let Some(json) = &files.json else {
        return Err(ConvertError::NoTokenizer {
            path: files.folder.clone(),
        });
    };
    if json.is_word_piece() {
        word_piece::read(files, json, options, warnings)
    } else if json.has_byte_fallback() {
        byte_fallback::read(files, json, options, warnings)
    } else {
        byte_level::read(files, json, options, warnings)
    }
}

fn is_filler(token: &Token) -> bool {
    let text = token.text.strip_prefix("\u{2581}".as_bytes());
    token.token_type == TokenType::Unused && text.unwrap_or(&token.text).starts_with(b"[PAD")
}

fn filler(id: usize, score: f32) -> Token {
    Token {
        text: format!("[PAD{id}]").into_bytes(),
        score,
        token_type: TokenType::Unused,
    }
}

fn write_vocabulary(vocabulary: Vocabulary, entries: &mut Entries) {
    entries.set("tokenizer.ggml.model", vocabulary.model);
    entries.set("tokenizer.ggml.pre", vocabulary.pre);
    let texts: StringArray = vocabulary.tokens.iter().map(|token| &token.text).collect();
    entries.set("tokenizer.ggml.tokens", texts);
    if vocabulary.has_scores {
        let scores: Vec<f32> = vocabulary.tokens.iter().map(|token| token.score).collect();
        entries.set("tokenizer.ggml.scores", scores);
    }
    let types: Vec<i32> = vocabulary
        .tokens
        .iter()
        .map(|token| token.token_type as i32)
        .collect();
    entries.set("tokenizer.ggml.token_type", types);
    if !vocabulary.merges.is_empty() {
        entries.set("tokenizer.ggml.merges", vocabulary.merges);
    }
}

fn write_habits(habit: TokenizerHabit, n_tokens: usize, is_spm: bool, entries: &mut Entries) {
    if habit.no_space_prefix && is_spm {
        entries.set("tokenizer.ggml.add_space_prefix", false);
    }
    let of_size = habit.by_size.iter().filter(|(size, _)| *size == n_tokens);
    for (key, value) in of_size.flat_map(|(_, entries)| *entries) {
        let key = format!("tokenizer.ggml.{key}");
        match *value {
            HabitValue::Id(id) => entries.set(key, id),
            HabitValue::Bool(value) => entries.set(key, value),
        }
    }
}

/// Entries in the order of their first setting, as in the reference: setting a key again changes its value
/// where it is.
struct Entries(Vec<(String, Value)>);

impl Entries {
    fn set(&mut self, key: impl Into<String>, value: impl Into<Value>) {
        let (key, value) = (key.into(), value.into());
        match self.0.iter_mut().find(|(known, _)| *known == key) {
            Some(entry) => entry.1 = value,
            None => self.0.push((key, value)),
        }
    }
}

/// Added tokens that ought to steer the model though their files call them plain.
fn looks_special(text: &str) -> bool {
    matches!(text, "<pad>" | "<mask>" | "<2mass>" | "[@BOS@]")
        || (text.starts_with("<|") && text.ends_with("|>"))
        || (text.starts_with("<｜") && text.ends_with("｜>"))
        || (text.starts_with("<unused") && text.ends_with('>'))
}

/// Type and text of an added token. The runtime compares user-defined tokens with plain text, in which
/// spaces are not escaped.
fn added_token(text: &str, is_special: bool, score: f32) -> Token {
    if is_special || looks_special(text) {
        return Token {
            text: text.as_bytes().to_vec(),
            score,
            token_type: TokenType::Control,
        };
    }
    let text = text.replace('\u{2581}', " ").into_bytes();
    Token {
        text,
        score,
        token_type: TokenType::UserDefined,
    }
}
