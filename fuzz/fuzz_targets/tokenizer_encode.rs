//! Any text through small vocabularies of each kind: byte-level BPE gives the text back, and streaming
//! gives what decoding at once gives. The first byte picks vocabulary and options.

#![no_main]

use std::sync::{Arc, OnceLock};

use gristmill_gguf::Metadata;
use gristmill_tokenizer::{EncodeOptions, Tokenizer};
use libfuzzer_sys::fuzz_target;

const PRE_TOKENIZERS: [&str; 5] = ["default", "gpt-2", "llama-bpe", "qwen2", "smollm"];
const CONTROL: i32 = 3;
const USER_DEFINED: i32 = 4;
const BYTE: i32 = 6;

fuzz_target!(|input: &[u8]| {
    let Some((&choice, text)) = input.split_first() else {
        return;
    };
    let tokenizers = tokenizers();
    let tokenizer = &tokenizers[usize::from(choice >> 2) % tokenizers.len()];
    let parse_special = choice & 1 != 0;
    let ids = tokenizer.encode(
        text,
        EncodeOptions {
            add_special: choice & 2 != 0,
            parse_special,
        },
    );
    assert!(ids.iter().all(|&id| (id as usize) < tokenizer.n_tokens()));
    let whole = tokenizer.decode(&ids, true);
    let mut stream = tokenizer.stream(true);
    let mut streamed: String = ids.iter().map(|&id| stream.push(id)).collect();
    streamed.push_str(&stream.finish());
    assert_eq!(streamed, String::from_utf8_lossy(&whole));
    let plain = tokenizer.encode(text, EncodeOptions::default());
    if tokenizer.pre_tokenizer().is_some() && std::str::from_utf8(text).is_ok() {
        assert_eq!(tokenizer.decode(&plain, true), text);
    }
});

fn tokenizers() -> &'static [Arc<Tokenizer>] {
    static TOKENIZERS: OnceLock<Vec<Arc<Tokenizer>>> = OnceLock::new();
    TOKENIZERS.get_or_init(|| {
        let vocabularies = PRE_TOKENIZERS
            .iter()
            .map(|pre| byte_level(pre))
            .chain([sentence_piece()]);
        let load = |metadata| {
            Arc::new(Tokenizer::from_metadata(&metadata).expect("the vocabulary is good"))
        };
        vocabularies.map(load).collect()
    })
}

/// The character that stands for a byte in byte-level vocabularies: printable bytes for themselves, the
/// others from U+0100 on.
fn byte_character(byte: u8) -> char {
    let is_plain = |byte: u8| matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
    if is_plain(byte) {
        return char::from(byte);
    }
    let n_before = (0..byte).filter(|&byte| !is_plain(byte)).count() as u32;
    char::from_u32(0x100 + n_before).expect("256 characters from U+0100 on exist")
}

fn byte_level(pre: &str) -> Metadata {
    let mut tokens: Vec<String> = (0..=255)
        .map(|byte| byte_character(byte).to_string())
        .collect();
    let mut merges = Vec::new();
    for (left, right) in [
        ("a", "b"),
        ("ab", "a"),
        ("b", "a"),
        ("t", "h"),
        ("th", "e"),
        ("\u{120}", "a"),
        ("1", "2"),
    ] {
        merges.push(format!("{left} {right}"));
        tokens.push(format!("{left}{right}"));
    }
    let n_plain = tokens.len();
    tokens.extend(["<|end|>", "<tool>", "  "].map(String::from));
    let mut types = vec![1; n_plain];
    types.extend([CONTROL, USER_DEFINED, USER_DEFINED]);
    let mut metadata = Metadata::new();
    metadata.set("tokenizer.ggml.model", "gpt2");
    metadata.set("tokenizer.ggml.pre", pre);
    metadata.set("tokenizer.ggml.tokens", tokens);
    metadata.set("tokenizer.ggml.token_type", types);
    metadata.set("tokenizer.ggml.merges", merges);
    metadata.set("tokenizer.ggml.bos_token_id", n_plain as u32);
    metadata.set("tokenizer.ggml.eos_token_id", n_plain as u32);
    metadata.set("tokenizer.ggml.add_bos_token", true);
    metadata
}

fn sentence_piece() -> Metadata {
    let mut tokens: Vec<String> = ["<unk>", "<s>", "</s>"].map(String::from).into();
    let mut types = vec![2, CONTROL, CONTROL];
    tokens.extend((0..=255).map(|byte| format!("<0x{byte:02X}>")));
    types.extend([BYTE; 256]);
    for piece in [
        "\u{2581}",
        "a",
        "b",
        "ab",
        "\u{2581}a",
        "aba",
        "\u{2581}\u{2581}",
        "\u{e9}",
        "\u{65e5}",
    ] {
        tokens.push(piece.to_owned());
        types.push(1);
    }
    tokens.push("<tool>".to_owned());
    types.push(USER_DEFINED);
    let scores: Vec<f32> = (0..tokens.len()).map(|id| -(id as f32)).collect();
    let mut metadata = Metadata::new();
    metadata.set("tokenizer.ggml.model", "llama");
    metadata.set("tokenizer.ggml.tokens", tokens);
    metadata.set("tokenizer.ggml.scores", scores);
    metadata.set("tokenizer.ggml.token_type", types);
    metadata.set("tokenizer.ggml.bos_token_id", 1u32);
    metadata.set("tokenizer.ggml.eos_token_id", 2u32);
    metadata.set("tokenizer.ggml.unknown_token_id", 0u32);
    metadata
}
