//! Case B57: long runs without a break take linear time and constant stack, whatever the pre-tokenizer.

use std::time::{Duration, Instant};

use gristmill_tokenizer::EncodeOptions;
use gristmill_tokenizer::pre::PRE_TOKENIZERS;

use crate::golden::{golden, tokenizer};

fn runs() -> Vec<Vec<u8>> {
    let units: [&[u8]; 14] = [
        b"A",
        b"a",
        b"\n",
        b" ",
        b"7",
        b".",
        b"'",
        b"aB",
        "中".as_bytes(),
        "\u{301}".as_bytes(),
        "\u{2581}".as_bytes(),
        "😀".as_bytes(),
        b" \n ",
        b"\xFF",
    ];
    units.iter().map(|unit| unit.repeat(200_000)).collect()
}

/// Runs on a thread with a small stack, so that recursion over the text would be seen.
fn on_a_small_stack(work: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new()
        .stack_size(256 << 10)
        .spawn(work)
        .unwrap();
    thread.join().unwrap();
}

#[test]
fn b57_pre_tokenizers() {
    on_a_small_stack(|| {
        for pre in PRE_TOKENIZERS {
            for text in runs() {
                let start = Instant::now();
                let mut n_bytes = 0;
                pre.split(&text, &mut |word| n_bytes += word.len());
                assert_eq!(n_bytes, text.len());
                assert!(
                    start.elapsed() < Duration::from_secs(2),
                    "{}",
                    pre.names[0].name
                );
            }
        }
    });
}

#[test]
fn b57_whole_tokenizers() {
    let Some(folder) = golden("tokens") else {
        return;
    };
    on_a_small_stack(move || {
        for name in [
            "llama-spm",
            "llama-bpe",
            "gpt-2",
            "qwen2",
            "starcoder",
            "deepseek-llm",
        ] {
            let tokenizer = tokenizer(&folder.join(format!("ggml-vocab-{name}.gguf")));
            for text in runs() {
                let start = Instant::now();
                let ids = tokenizer.encode(
                    &text,
                    EncodeOptions {
                        parse_special: true,
                        ..Default::default()
                    },
                );
                assert!(
                    start.elapsed() < Duration::from_secs(5),
                    "{name}: {:?}",
                    &text[..4]
                );
                let decoded = tokenizer.decode(&ids, true);
                match name {
                    // SentencePiece puts a space in front, and reads U+2581 as one.
                    "llama-spm" if text.starts_with("\u{2581}".as_bytes()) => {}
                    "llama-spm" => assert_eq!(decoded[1..], text, "{name}"),
                    // StarCoder has no token for some bytes, which are dropped as in the reference.
                    "starcoder" if text[0] == 0xFF => assert_eq!(decoded, b""),
                    // DeepSeek has an added token "ÿ" where that of the byte should be.
                    "deepseek-llm" if text[0] == 0xFF => {
                        assert_eq!(decoded, "ÿ".repeat(200_000).as_bytes())
                    }
                    _ => assert_eq!(decoded, text, "{name}"),
                }
            }
        }
    });
}
