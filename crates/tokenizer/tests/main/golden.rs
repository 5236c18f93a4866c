//! The reference's ids for its own vocabularies (`golden/tokens`) and for the tiny checkpoints
//! (`golden/convert`).

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use gristmill_gguf::Model;
use gristmill_tokenizer::{EncodeOptions, Tokenizer};
use serde_json::Value;

pub(crate) use gristmill_golden::folder as golden;

/// Vocabularies of kinds that are implemented.
const VOCABULARIES: &[&str] = &[
    "bert-bge",
    "deepseek-llm",
    "falcon",
    "gpt-2",
    "llama-bpe",
    "llama-spm",
    "phi-3",
    "qwen2",
    "starcoder",
];

/// Checkpoints of kinds that are implemented.
const CHECKPOINTS: &[&str] = &[
    "bert",
    "gemma2",
    "gemma3_text",
    "gpt2",
    "granite",
    "llama",
    "llama-split",
    "llama-tied-mistral",
    "mixtral",
    "olmo2",
    "phi3",
    "qwen2",
    "qwen3",
    "qwen3_moe",
    "starcoder2",
];

pub(crate) fn tokenizer(path: &Path) -> Arc<Tokenizer> {
    let model = Model::open(path).unwrap();
    Arc::new(Tokenizer::from_metadata(model.metadata()).unwrap())
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn ids(value: &Value) -> Vec<u32> {
    value
        .as_array()
        .unwrap()
        .iter()
        .map(|id| id.as_u64().unwrap() as u32)
        .collect()
}

const PLAIN: EncodeOptions = EncodeOptions {
    add_special: false,
    parse_special: false,
};
const PARSED: EncodeOptions = EncodeOptions {
    add_special: false,
    parse_special: true,
};

#[test]
fn input_and_output_pairs() {
    let Some(folder) = golden("tokens") else {
        return;
    };
    let mut n_compared = 0;
    for name in VOCABULARIES {
        let file = |end: &str| folder.join(format!("ggml-vocab-{name}.gguf{end}"));
        let tokenizer = tokenizer(&file(""));
        let input = std::fs::read_to_string(file(".inp")).unwrap();
        let output = std::fs::read_to_string(file(".out")).unwrap();
        let texts: Vec<&str> = input.split("\n__ggml_vocab_test__\n").collect();
        let lines: Vec<&str> = output.lines().collect();
        // What follows the last separator is no case.
        assert_eq!(texts.len() - 1, lines.len(), "{name}");
        for (text, line) in texts.iter().zip(lines) {
            let expected: Vec<u32> = line
                .split_whitespace()
                .map(|id| id.parse().unwrap())
                .collect();
            assert_eq!(tokenizer.encode(text, PLAIN), expected, "{name}: {text:?}");
            n_compared += 1;
        }
    }
    gristmill_golden::compared(n_compared, "token ids");
}

#[test]
fn fuzz_corpus() {
    let Some(folder) = golden("tokens") else {
        return;
    };
    let corpus = json(&folder.join("fuzz.json"));
    let texts: HashMap<u64, &str> = corpus
        .as_array()
        .unwrap()
        .iter()
        .map(|case| (case["n"].as_u64().unwrap(), case["text"].as_str().unwrap()))
        .collect();
    let mut n_compared = 0;
    let mut differences = Vec::new();
    for name in VOCABULARIES {
        let tokenizer = tokenizer(&folder.join(format!("ggml-vocab-{name}.gguf")));
        let results = json(&folder.join(format!("{name}.ids.json")));
        for result in results["results"].as_array().unwrap() {
            let text = texts[&result["n"].as_u64().unwrap()];
            let plain = ids(&result["ids"]);
            let parsed = result
                .get("ids_parse_special")
                .map_or_else(|| plain.clone(), ids);
            let shown = match result.get("detok_hex") {
                Some(hex) => bytes_of_hex(hex.as_str().unwrap()),
                None => text.as_bytes().to_vec(),
            };
            let ours = (
                tokenizer.encode(text, PLAIN),
                tokenizer.encode(text, PARSED),
                tokenizer.detokenize(&plain, true),
            );
            let expected = (plain, parsed, shown);
            if ours != expected {
                differences.push(format!(
                    "{name}: {text:?}\n  ours {ours:?}\n  theirs {expected:?}"
                ));
            }
            n_compared += 3;
        }
    }
    assert!(
        differences.is_empty(),
        "{} differences\n{}",
        differences.len(),
        differences.join("\n")
    );
    gristmill_golden::compared(n_compared, "token ids");
}

fn bytes_of_hex(hex: &str) -> Vec<u8> {
    (0..hex.len())
        .step_by(2)
        .map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap())
        .collect()
}

#[test]
fn tiny_checkpoints() {
    let Some(folder) = golden("convert") else {
        return;
    };
    let mut n_compared = 0;
    let mut differences = Vec::new();
    for name in CHECKPOINTS {
        let folder = folder.join(name);
        let gguf = std::fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .find(|path| path.extension().is_some_and(|end| end == "gguf"))
            .unwrap();
        let tokenizer = tokenizer(&gguf);
        let tokens = json(&folder.join("tokens.json"));
        for case in tokens["texts"].as_array().unwrap() {
            let text = case["text"].as_str().unwrap();
            for (field, add_special, parse_special) in [
                ("ref_ids", false, false),
                ("ref_ids_parse_special", false, true),
                ("ref_ids_add_special", true, true),
            ] {
                let ours = tokenizer.encode(
                    text,
                    EncodeOptions {
                        add_special,
                        parse_special,
                    },
                );
                let expected = ids(&case[field]);
                if ours != expected {
                    differences.push(format!(
                        "{name} {field}: {text:?}\n  ours {ours:?}\n  theirs {expected:?}"
                    ));
                }
                n_compared += 1;
            }
        }
    }
    assert!(
        differences.is_empty(),
        "{} differences\n{}",
        differences.len(),
        differences.join("\n")
    );
    gristmill_golden::compared(n_compared, "token ids");
}

/// The bound that needs no look at the text holds for every text.
#[test]
fn no_text_has_fewer_tokens_than_its_length_says() {
    let Some(folder) = golden("tokens") else {
        return;
    };
    let corpus = json(&folder.join("fuzz.json"));
    let mut n_telling = 0;
    for name in VOCABULARIES {
        let tokenizer = tokenizer(&folder.join(format!("ggml-vocab-{name}.gguf")));
        for case in corpus.as_array().unwrap() {
            let text = case["text"].as_str().unwrap();
            let fewest = tokenizer.fewest_tokens(text.len());
            assert!(
                tokenizer.encode(text, PARSED).len() >= fewest,
                "{name}: {text:?}"
            );
        }
        n_telling += usize::from(tokenizer.fewest_tokens(1 << 20) > 1000);
        for token in (0..tokenizer.n_tokens() as u32).step_by(997) {
            let text = tokenizer.piece(token, true).repeat(40);
            let fewest = tokenizer.fewest_tokens(text.len());
            assert!(fewest <= 40, "{name}: {token}");
        }
    }
    assert!(
        n_telling >= 5,
        "the bound says something for {n_telling} vocabularies only"
    );
}

/// Streaming gives the characters of the joined pieces.
#[test]
fn streams_give_the_whole_text() {
    let Some(folder) = golden("tokens") else {
        return;
    };
    let corpus = json(&folder.join("fuzz.json"));
    for name in VOCABULARIES {
        let tokenizer = tokenizer(&folder.join(format!("ggml-vocab-{name}.gguf")));
        for case in corpus.as_array().unwrap() {
            let text = case["text"].as_str().unwrap();
            let ids = tokenizer.encode(text, PARSED);
            let mut stream = tokenizer.stream(true);
            let mut streamed: String = ids.iter().map(|&id| stream.push(id)).collect();
            streamed += &stream.finish();
            let whole = String::from_utf8(tokenizer.decode(&ids, true)).unwrap();
            assert_eq!(streamed, whole, "{name}");
        }
    }
}
