//! Any GGUF file as a vocabulary: refused with the key's name, or a tokenizer that can be used.

#![no_main]

use std::path::Path;

use gristmill_gguf::File;
use gristmill_tokenizer::{EncodeOptions, Tokenizer};
use libfuzzer_sys::fuzz_target;

const TEXTS: [&str; 4] = [
    "",
    "Good morrow, cousin.",
    " a\n\t b  \u{65e5}\u{672c} 123",
    "<s>ab</s><0x41>",
];

fuzz_target!(|bytes: &[u8]| {
    let Ok(file) = File::from_bytes(bytes, Path::new("fuzz.gguf")) else {
        return;
    };
    let tokenizer = match Tokenizer::from_metadata(file.metadata()) {
        Ok(tokenizer) => tokenizer,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    for text in TEXTS {
        for parse_special in [false, true] {
            let ids = tokenizer.encode(
                text,
                EncodeOptions {
                    add_special: true,
                    parse_special,
                },
            );
            assert!(ids.iter().all(|&id| (id as usize) < tokenizer.n_tokens()));
            let _ = (
                tokenizer.decode(&ids, true),
                tokenizer.detokenize(&ids, false),
            );
        }
    }
    for id in [0, 1, u32::MAX] {
        let _ = (
            tokenizer.piece(id, true),
            tokenizer.text(id),
            tokenizer.attributes(id),
            tokenizer.is_eog(id),
        );
    }
});
