//! Ids beside those of the `tokenizers` library, on the same `tokenizer.json`.

use std::path::{Path, PathBuf};

use gristmill_gguf::Metadata;
use gristmill_tokenizer::{EncodeOptions, Tokenizer};
use serde_json::Value;

use crate::golden::golden;
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
