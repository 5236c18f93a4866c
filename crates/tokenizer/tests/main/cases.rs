//! Cases of tokenizing that concern no single part.

use gristmill_gguf::{Metadata, Model};
use gristmill_tokenizer::{EncodeOptions, Tokenizer};

use crate::golden::golden;

/// The vocabulary of Llama 2, some entries changed.
fn llama2(change: impl FnOnce(&mut Metadata)) -> Option<Tokenizer> {
    let path = golden("tokens")?.join("ggml-vocab-llama-spm.gguf");
    let mut metadata = Model::open(&path).unwrap().metadata().clone();
    change(&mut metadata);
    Some(Tokenizer::from_metadata(&metadata).unwrap())
}

/// Case B46: the ids that were reported for the vocabulary of Llama 2.
#[test]
fn b46_sentence_piece_and_its_spaces() {
    let Some(tokenizer) = llama2(|_| {}) else {
        return;
    };
    let plain = |text| tokenizer.encode(text, EncodeOptions::default());
    assert_eq!(plain("Hello"), [15043]);
    assert_eq!(plain(" Hello"), [29871, 15043]);
    assert_eq!(plain("  Hello"), [259, 15043]);
    assert_eq!(plain("   Hello"), [1678, 15043]);
    assert_eq!(plain("    Hello"), [268, 15043]);
    let options = EncodeOptions {
        add_special: true,
        parse_special: false,
    };
    assert_eq!(
        tokenizer.encode("This is 🦙.cpp", options),
        [1, 910, 338, 29871, 243, 162, 169, 156, 29889, 8223]
    );
}

/// Case B47: behind a special token a text begins anew, with the space that a file asks for, or without.
#[test]
fn b47_spaces_behind_special_tokens() {
    // A token that somebody added and that is not special: id 32000.
    let grown = |prefix: bool| {
        llama2(|metadata| {
            let tokens = metadata.required_strings("tokenizer.ggml.tokens").unwrap();
            let mut tokens: Vec<String> = tokens
                .iter()
                .map(|token| String::from_utf8_lossy(token).into_owned())
                .collect();
            tokens.push("<tok>".to_owned());
            let mut types = metadata.i32s("tokenizer.ggml.token_type").unwrap().unwrap();
            types.push(4);
            let mut scores = vec![0.0f32; tokens.len()];
            let old = metadata.array("tokenizer.ggml.scores").unwrap().unwrap();
            if let gristmill_gguf::Array::F32(old) = old {
                scores[..old.len()].copy_from_slice(old);
            }
            metadata.set("tokenizer.ggml.tokens", tokens);
            metadata.set("tokenizer.ggml.token_type", types);
            metadata.set("tokenizer.ggml.scores", scores);
            metadata.set("tokenizer.ggml.add_space_prefix", prefix);
        })
    };
    let (Some(with), Some(without)) = (grown(true), grown(false)) else {
        return;
    };
    let options = EncodeOptions {
        add_special: false,
        parse_special: true,
    };
    let token = |text: &str| with.token(text).unwrap();
    let (user, user_after_space) = (token("user"), token("▁user"));
    // As the authors' tokenizer with `legacy`: a text behind any such token gets a space, beside its own.
    assert_eq!(with.encode("<tok>user", options), [32000, user_after_space]);
    assert_eq!(with.encode("<s>G", options), [1, token("▁G")]);
    assert_eq!(
        with.encode("<tok> text", options),
        [32000, token("▁"), token("▁text")]
    );
    // As with no space in front at all.
    assert_eq!(without.encode("<tok>user", options), [32000, user]);
    assert_eq!(without.encode("<s>G", options), [1, token("G")]);
    assert_eq!(
        without.encode("<tok> text", options),
        [32000, token("▁text")]
    );
}

/// Case B53: numbers of tokens are as wide as those of bytes.
#[test]
fn b53_more_tokens_than_an_i32_counts() {
    let Some(tokenizer) = llama2(|_| {}) else {
        return;
    };
    let n_bytes = usize::MAX;
    let fewest = tokenizer.fewest_tokens(n_bytes);
    assert!(fewest > i32::MAX as usize && fewest < n_bytes, "{fewest}");
}
