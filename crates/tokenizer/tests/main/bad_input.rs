//! Case B10: a vocabulary with a wrong entry is refused by an error that names the key.

use gristmill_gguf::{Metadata, Value};
use gristmill_tokenizer::{EncodeOptions, Tokenizer};

fn strings(items: &[&str]) -> Vec<String> {
    items.iter().map(|&item| item.to_owned()).collect()
}

/// Ten tokens of SentencePiece.
fn spm() -> Metadata {
    let mut metadata = Metadata::new();
    metadata.set("tokenizer.ggml.model", "llama");
    let tokens = [
        "<unk>",
        "<s>",
        "</s>",
        "<0x61>",
        "a",
        "b",
        "ab",
        "\u{2581}",
        "\u{2581}a",
        "<x>",
    ];
    metadata.set("tokenizer.ggml.tokens", strings(&tokens));
    metadata.set(
        "tokenizer.ggml.scores",
        vec![0.0_f32, 0.0, 0.0, 0.0, -5.0, -6.0, -1.0, -3.0, -2.0, 0.0],
    );
    metadata.set(
        "tokenizer.ggml.token_type",
        vec![2_i32, 3, 3, 6, 1, 1, 1, 1, 1, 4],
    );
    metadata
}

/// Ten tokens of byte-level BPE.
fn bpe() -> Metadata {
    let mut metadata = Metadata::new();
    metadata.set("tokenizer.ggml.model", "gpt2");
    metadata.set("tokenizer.ggml.pre", "gpt-2");
    let tokens = [
        "a",
        "b",
        "c",
        "ab",
        "abc",
        "Ġ",
        "Ġa",
        "<|im_end|>",
        "<x>",
        "d",
    ];
    metadata.set("tokenizer.ggml.tokens", strings(&tokens));
    metadata.set(
        "tokenizer.ggml.token_type",
        vec![1_i32, 1, 1, 1, 1, 1, 1, 3, 4, 1],
    );
    metadata.set("tokenizer.ggml.merges", strings(&["a b", "ab c", "Ġ a"]));
    metadata.set("tokenizer.ggml.bos_token_id", 7_u32);
    metadata.set("tokenizer.ggml.eos_token_id", 7_u32);
    metadata
}

#[track_caller]
fn check(start: fn() -> Metadata, key: &str, value: impl Into<Value>, error: &str) {
    let mut metadata = start();
    metadata.set(key, value);
    match Tokenizer::from_metadata(&metadata) {
        Ok(_) => panic!("accepted; expected {error}"),
        Err(found) => {
            let found = found.to_string();
            assert!(
                found.contains(key) || !key.starts_with("tokenizer"),
                "{found} lacks {key}"
            );
            assert!(found.contains(error), "{found:?} lacks {error:?}");
        }
    }
}

#[test]
fn sound_vocabularies_are_accepted() {
    let spm = Tokenizer::from_metadata(&spm()).unwrap();
    let options = EncodeOptions {
        add_special: true,
        parse_special: false,
    };
    assert_eq!(spm.encode("ab<x>a</s>", options)[..4], [1, 7, 6, 9]);
    let bpe = Tokenizer::from_metadata(&bpe()).unwrap();
    assert_eq!(bpe.encode("abc a<x>d", options), [4, 6, 8, 9]);
    assert!(bpe.is_eog(7));
    assert_eq!(bpe.piece(6, false), b" a");
    assert_eq!(bpe.piece(7, false), b"");
    assert_eq!(bpe.piece(10, true), b"");
}

#[test]
fn b10_wrong_scores() {
    let key = "tokenizer.ggml.scores";
    check(spm, key, vec![0_i8; 10], "ARRAY of INT8");
    check(
        spm,
        key,
        vec![0.0_f32; 3],
        "3 entries, but there are 10 tokens",
    );
    check(spm, key, 1.0_f32, "ARRAY");
}

#[test]
fn b10_wrong_token_types() {
    let key = "tokenizer.ggml.token_type";
    check(
        spm,
        key,
        vec![1_i32; 9],
        "9 entries, but there are 10 tokens",
    );
    check(spm, key, vec![1.0_f32; 10], "ARRAY of FLOAT32");
    check(spm, key, vec![1_u64 << 40; 10], "ARRAY of UINT64");
}

/// Any integer type will do for token types whose values fit.
#[test]
fn b10_token_types_of_other_widths() {
    let types = [2, 3, 3, 6, 1, 1, 1, 1, 1, 4];
    let values: [Value; 3] = [
        types.map(|t| t as u32).to_vec().into(),
        types.map(|t| t as i64).to_vec().into(),
        types.map(|t| t as u8).to_vec().into(),
    ];
    for value in values {
        let mut metadata = spm();
        metadata.set("tokenizer.ggml.token_type", value);
        let tokenizer = Tokenizer::from_metadata(&metadata).unwrap();
        assert_eq!(tokenizer.encode("<x>", EncodeOptions::default()), [9]);
    }
}

#[test]
fn b10_wrong_tokens() {
    let key = "tokenizer.ggml.tokens";
    check(spm, key, vec![0_u8; 10], "ARRAY of UINT8");
    check(spm, key, Vec::<String>::new(), "0 entries");
    check(
        spm,
        key,
        strings(&["a", "b", "a"]),
        "tokens 0 and 2 are both \"a\"",
    );
    let mut metadata = spm();
    metadata.remove(key);
    assert!(
        Tokenizer::from_metadata(&metadata)
            .err()
            .unwrap()
            .to_string()
            .contains(key)
    );
}

#[test]
fn b10_special_ids_out_of_range() {
    let error = "is 4294967295, but there are only 10 tokens";
    check(spm, "tokenizer.ggml.eos_token_id", u32::MAX, error);
    check(bpe, "tokenizer.ggml.bos_token_id", u32::MAX, error);
    check(bpe, "tokenizer.ggml.bos_token_id", "<s>", "STRING");
    let mut metadata = spm();
    metadata.set("tokenizer.ggml.padding_token_id", u32::MAX);
    let tokenizer = Tokenizer::from_metadata(&metadata).unwrap();
    assert!(
        tokenizer
            .warnings()
            .iter()
            .any(|warning| warning.contains("padding_token_id is 4294967295"))
    );
}

#[test]
fn b10_wrong_merges() {
    let key = "tokenizer.ggml.merges";
    check(bpe, key, strings(&["a b", "abc"]), "entry 1 is \"abc\"");
    check(bpe, key, strings(&["a "]), "entry 0 is \"a \"");
    check(bpe, key, vec![1_u8], "ARRAY of UINT8");
    let mut metadata = bpe();
    metadata.remove(key);
    assert!(
        Tokenizer::from_metadata(&metadata)
            .err()
            .unwrap()
            .to_string()
            .contains(key)
    );
}

#[test]
fn b10_a_token_to_add_that_is_not_defined() {
    let mut metadata = bpe();
    metadata.remove("tokenizer.ggml.bos_token_id");
    metadata.set("tokenizer.ggml.add_bos_token", true);
    let error = Tokenizer::from_metadata(&metadata)
        .err()
        .unwrap()
        .to_string();
    assert!(
        error.contains("add_bos_token") && error.contains("bos_token_id"),
        "{error}"
    );
}

#[test]
fn unknown_kinds_and_names() {
    check(bpe, "tokenizer.ggml.model", "wordsalad", "wordsalad");
    check(bpe, "tokenizer.ggml.model", "none", "no vocabulary");
    check(
        bpe,
        "tokenizer.ggml.pre",
        "qwen7",
        "nearest known name is \"qwen",
    );
}

#[test]
fn a_missing_pre_tokenizer_is_warned_about() {
    let mut metadata = bpe();
    metadata.remove("tokenizer.ggml.pre");
    let tokenizer = Tokenizer::from_metadata(&metadata).unwrap();
    assert_eq!(tokenizer.pre_tokenizer(), Some("default"));
    assert!(tokenizer.warnings()[0].contains("QUALITY"));
}

/// Case B50: invalid UTF-8 becomes the tokens of its bytes and comes back as it was.
#[test]
fn b50_invalid_text() {
    let mut metadata = spm();
    let tokens: Vec<String> = ["<unk>", "<s>", "</s>"]
        .map(str::to_owned)
        .into_iter()
        .chain((0..=255).map(|byte| format!("<0x{byte:02X}>")))
        .collect();
    let types: Vec<i32> = [2, 3, 3].into_iter().chain([6; 256]).collect();
    metadata.set("tokenizer.ggml.scores", vec![0.0_f32; tokens.len()]);
    metadata.set("tokenizer.ggml.token_type", types);
    metadata.set("tokenizer.ggml.tokens", tokens);
    metadata.set("tokenizer.ggml.add_space_prefix", false);
    let tokenizer = Tokenizer::from_metadata(&metadata).unwrap();
    let ids = tokenizer.encode(b"\xE6\xAD", EncodeOptions::default());
    assert_eq!(ids, [3 + 0xE6, 3 + 0xAD]);
    assert_eq!(tokenizer.decode(&ids, false), b"\xE6\xAD");
}

/// Case B48: without `parse_special`, text that looks like a control token is plain text.
#[test]
fn b48_user_text_cannot_be_a_control_token() {
    let tokenizer = Tokenizer::from_metadata(&bpe()).unwrap();
    let parsed = EncodeOptions {
        parse_special: true,
        ..EncodeOptions::default()
    };
    assert_eq!(tokenizer.encode("a<|im_end|>b", parsed), [0, 7, 1]);
    let plain = tokenizer.encode("a<|im_end|>b", EncodeOptions::default());
    assert!(!plain.contains(&7), "{plain:?}");
}
