//! Ids beside those of the `tokenizers` library, on the same `tokenizer.json`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use gristmill_gguf::Metadata;
use gristmill_tokenizer::{EncodeOptions, Tokenizer};
use serde_json::Value;

use crate::golden::{golden, tokenizer};
use crate::pre::random_text;

/// Folders of `golden/convert` with byte-level BPE and no normalizer, and the name whose words are those of the
/// file: merges decide in these small vocabularies, so Llama's is `dbrx`.
const CHECKPOINTS: &[(&str, &str)] = &[
    ("gpt2", "gpt-2"),
    ("granite", "refact"),
    ("llama", "dbrx"),
    ("olmo2", "dbrx"),
    ("starcoder2", "starcoder"),
];

/// A tokenizer with the vocabulary and merges of a `tokenizer.json`.
fn ours(path: &Path, pre: &str) -> Tokenizer {
    let json: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let mut tokens: Vec<(u64, String, i32)> = json["model"]["vocab"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(text, id)| (id.as_u64().unwrap(), text.clone(), 1))
        .collect();
    for token in json["added_tokens"].as_array().unwrap() {
        let id = token["id"].as_u64().unwrap();
        let token_type = if token["special"].as_bool().unwrap() {
            3
        } else {
            4
        };
        tokens.retain(|&(known, ..)| known != id);
        tokens.push((
            id,
            token["content"].as_str().unwrap().to_owned(),
            token_type,
        ));
    }
    tokens.sort();
    assert!(
        tokens
            .iter()
            .enumerate()
            .all(|(i, &(id, ..))| i as u64 == id)
    );
    let merges = json["model"]["merges"]
        .as_array()
        .unwrap()
        .iter()
        .map(|merge| match merge {
            Value::String(text) => text.clone(),
            pair => format!(
                "{} {}",
                pair[0].as_str().unwrap(),
                pair[1].as_str().unwrap()
            ),
        });
    let mut metadata = Metadata::new();
    metadata.set("tokenizer.ggml.model", "gpt2");
    metadata.set("tokenizer.ggml.pre", pre);
    metadata.set("tokenizer.ggml.merges", merges.collect::<Vec<String>>());
    let types: Vec<i32> = tokens.iter().map(|&(.., token_type)| token_type).collect();
    metadata.set("tokenizer.ggml.token_type", types);
    let texts: Vec<String> = tokens.into_iter().map(|(_, text, _)| text).collect();
    metadata.set("tokenizer.ggml.tokens", texts);
    Tokenizer::from_metadata(&metadata).unwrap()
}

#[track_caller]
fn compare(path: &Path, pre: &str, texts: impl Iterator<Item = String>) {
    let ours = ours(path, pre);
    let theirs = tokenizers::Tokenizer::from_file(path).unwrap();
    for text in texts {
        let expected = theirs.encode(text.as_str(), false).unwrap();
        let options = EncodeOptions {
            add_special: false,
            parse_special: true,
        };
        assert_eq!(
            ours.encode(&text, options),
            expected.get_ids(),
            "{}: {text:?}",
            path.display()
        );
    }
}

fn random_texts(n_texts: usize) -> impl Iterator<Item = String> {
    let mut state = 11;
    (0..n_texts).map(move |n| random_text(&mut state, if n % 50 == 0 { 2000 } else { 40 }))
}

#[test]
fn the_embedded_model() {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/tiny"));
    let readme = std::fs::read_to_string(folder.join("README.md")).unwrap();
    let plain = [
        "",
        " ",
        "Once upon a time",
        "<|endoftext|>x<|endoftext|>",
        &readme,
    ];
    let texts = plain
        .map(str::to_owned)
        .into_iter()
        .chain(random_texts(500));
    compare(&folder.join("tokenizer.json"), "gpt-2", texts);
}

#[test]
fn tiny_checkpoints() {
    let Some(folder) = golden("convert") else {
        return;
    };
    for (name, pre) in CHECKPOINTS {
        compare(
            &folder.join(name).join("hf/tokenizer.json"),
            pre,
            random_texts(500),
        );
    }
}

/// Strings of all folders together, unless `GRISTMILL_TOKEN_STRINGS` says otherwise.
const N_STRINGS: usize = 4000;

/// Pieces of text in several scripts, of code, and what cuts them apart.
const PIECES: &[&str] = &[
    "the ",
    "and ",
    "ing",
    " quick",
    "Fox",
    "it's ",
    "WE'LL ",
    "don't",
    "42",
    "1234567",
    "3.14",
    " = ",
    "();\n",
    "{\n\t",
    "// ",
    "\"x\"",
    "é",
    "ü",
    "ñ",
    "ß",
    "İ",
    "ﬁ",
    "привет ",
    "мир",
    "ё",
    "αβγ ",
    "ώ",
    "שלום ",
    "مرحبا",
    "ء",
    "१२",
    "नमस्ते",
    "ไทย",
    "你好",
    "世界",
    "大",
    "東京",
    "の",
    "カ",
    "한국",
    "어",
    "😀",
    "👩\u{200d}👧",
    "🇩🇪",
    "…",
    "—",
    "“",
    "€",
    "½",
    "²",
    "  ",
    "\n",
    "\r\n",
    "\t",
    "\u{a0}",
    "\u{3000}",
    "\u{200b}",
    "\u{7}",
    "\u{0}",
    "\u{301}",
    "\u{fffd}",
    "\u{e000}",
    "▁",
    "##",
    "@",
    "_",
];

struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }

    /// A string: mixed pieces, a run of one piece, or characters of all planes; one in a thousand with special tokens.
    fn string(&mut self, number: usize, special: &[String]) -> String {
        let n_pieces = 1 + self.below(12);
        let mut text: String = match self.below(20) {
            0 => PIECES[self.below(PIECES.len())].repeat(1 + self.below(60)),
            1 => (0..n_pieces)
                .map(|_| char::from_u32(self.below(0x3_0000) as u32).unwrap_or('\u{fffd}'))
                .collect(),
            2 => random_text(&mut self.0, 24),
            _ => (0..n_pieces)
                .map(|_| PIECES[self.below(PIECES.len())])
                .collect(),
        };
        if number.is_multiple_of(1000) && !special.is_empty() {
            for _ in 0..3 {
                let places: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
                let at = places[self.below(places.len())];
                text.insert_str(at, &special[self.below(special.len())]);
            }
        }
        text
    }
}

const SENTENCE_PIECE: &str = "SentencePiece BPE";

/// A kind of difference.
const WRITTEN_SPACE: &str = "U+2581 in the text";

/// Whether the library and the reference agree on the folder's own texts.
fn agrees(folder: &Path) -> bool {
    let tokens = std::fs::read(folder.join("tokens.json")).unwrap();
    let tokens: Value = serde_json::from_slice(&tokens).unwrap();
    let mut texts = tokens["texts"].as_array().unwrap().iter();
    texts.all(|text| text["hf_ids"] == text["ref_ids_parse_special"])
}

/// What a text has that a GGUF file's tokenizer treats otherwise, by the folder's kind; the first that applies.
fn kind_of_difference(kind: &str, text: &str, theirs: &tokenizers::Tokenizer) -> &'static str {
    use tokenizers::Normalizer as _;
    if kind == SENTENCE_PIECE && text.contains('▁') {
        return WRITTEN_SPACE;
    }
    let special = theirs.get_added_tokens_decoder();
    if special.values().any(|token| text.contains(&token.content)) {
        return "beside a special token";
    }
    let normalized = theirs.get_normalizer().map(|normalizer| {
        let mut normalized = tokenizers::NormalizedString::from(text);
        normalizer.normalize(&mut normalized).unwrap();
        normalized.get().to_owned()
    });
    let is_hangul = |c: char| matches!(c, '\u{ac00}'..='\u{d7a3}');
    match kind {
        "WordPiece" if text.chars().any(is_hangul) => "Hangul",
        "WordPiece"
            if text
                .split_whitespace()
                .any(|word| word.chars().count() > 100) =>
        {
            "a word over 100"
        }
        "WordPiece" => "Unicode classes or decompositions",
        SENTENCE_PIECE if text.starts_with(' ') => "a space in front",
        _ if normalized.is_some_and(|normalized| normalized != text) => "normalization",
        _ => "other",
    }
}

/// Must-show: every `tokenizer.json` of the golden data on random strings, beside the tokenizer of the reference's file.
#[test]
fn random_strings_of_every_golden_folder() {
    let Some(root) = golden("convert") else {
        return;
    };
    let n_strings = std::env::var("GRISTMILL_TOKEN_STRINGS");
    let n_strings = n_strings.map_or(N_STRINGS, |n| n.parse().unwrap());
    let mut folders: Vec<PathBuf> = std::fs::read_dir(&root)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|folder| folder.join("tokens.json").exists())
        .collect();
    folders.sort();
    let n_each = n_strings.div_ceil(folders.len());
    let mut unexpected = Vec::new();
    for folder in &folders {
        let name = folder.file_name().unwrap().to_str().unwrap();
        let ours = tokenizer(&folder.join(format!("{name}-f32.gguf")));
        let source = ["hf", "Tiny-Llama-0.2M-Chat-v0.3"].map(|source| folder.join(source));
        let source = source.iter().find(|source| source.exists()).unwrap();
        let theirs = tokenizers::Tokenizer::from_file(source.join("tokenizer.json")).unwrap();
        let special = theirs.get_added_tokens_decoder();
        let special: Vec<String> = special
            .values()
            .map(|token| token.content.clone())
            .collect();
        let mut random = Random(7);
        let mut kinds: BTreeMap<&str, (usize, String)> = BTreeMap::new();
        for number in 0..n_each {
            let text = random.string(number, &special);
            let options = EncodeOptions {
                add_special: false,
                parse_special: true,
            };
            let found = ours.encode(&text, options);
            let expected = theirs.encode(text.as_str(), false).unwrap();
            if found != expected.get_ids() {
                let kind = kind_of_difference(ours.kind(), &text, &theirs);
                let seen = kinds.entry(kind).or_insert_with(|| {
                    (
                        0,
                        format!(
                            "{text:?}\n  ours {found:?}\n  theirs {:?}",
                            expected.get_ids()
                        ),
                    )
                });
                seen.0 += 1;
            }
        }
        let counts: Vec<String> = kinds
            .iter()
            .map(|(kind, (n, _))| format!("{kind}: {n}"))
            .collect();
        println!(
            "{name} ({}): {n_each} strings, differences: {counts:?}",
            ours.kind()
        );
        // WordPiece of programs differs from BERT's own where no text of the folder shows it, and a file has added tokens
        // with plain spaces in them, which a text with the sign for a space does not hold.
        kinds.remove(WRITTEN_SPACE);
        if agrees(folder) && ours.kind() != "WordPiece" {
            unexpected.extend(
                kinds
                    .into_values()
                    .map(|(n, first)| format!("{name}: {n}, first {first}")),
            );
        }
    }
    assert!(unexpected.is_empty(), "{}", unexpected.join("\n"));
    gristmill_golden::compared(n_each * folders.len(), "random strings");
}
