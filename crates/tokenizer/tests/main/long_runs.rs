//! Case B57: long runs without a break take linear time and constant stack, whatever the pre-tokenizer.

use std::time::{Duration, Instant};

use gristmill_tokenizer::EncodeOptions;
use gristmill_tokenizer::pre::PRE_TOKENIZERS;

use crate::golden::{golden, tokenizer};

/// Repetitions of a unit in a long text.
const N_UNITS: usize = 200_000;

fn units() -> [&'static [u8]; 14] {
    [
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
    ]
}

/// What this thread has computed so far; where the system does not tell, the time that has passed. Waiting for a busy
/// machine does not count.
fn computed(start: Instant) -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = stat.split(' ').next().and_then(|first| first.parse().ok());
    nanoseconds.map_or_else(|| start.elapsed(), Duration::from_nanos)
}

/// Asserts that a text takes about as long as its sixteen parts one after the other, where caches end a few times longer; work
/// that grows with the square takes sixteen times as long. Only the fastest of several runs count.
fn assert_linear(name: &str, unit: &[u8], mut work: impl FnMut(&[u8])) {
    const ATTEMPTS: usize = 6;
    const RATIO_MAX: u32 = 6;
    const N_PARTS: usize = 16;
    /// No quadratic work on a long text is as quick as this, and shorter times say little.
    const QUICK: Duration = Duration::from_millis(100);
    let [short, long] = [N_UNITS / N_PARTS, N_UNITS].map(|n| unit.repeat(n));
    // The system may count in ticks, which a single part is too short for.
    let mut time = |text: &[u8], times: usize| {
        let start = Instant::now();
        let before = computed(start);
        (0..times).for_each(|_| work(text));
        computed(start).saturating_sub(before)
    };
    let (mut best_short, mut best_long) = (Duration::MAX, Duration::MAX);
    for _ in 0..ATTEMPTS {
        best_long = best_long.min(time(&long, 1));
        if best_long < QUICK {
            return;
        }
        best_short = best_short.min(time(&short, N_PARTS));
        if best_long < RATIO_MAX * best_short {
            return;
        }
    }
    panic!("{name}: {unit:?} took {best_short:?} in sixteen parts, and {best_long:?} in one");
}

#[test]
fn quadratic_work_is_found() {
    let found = std::panic::catch_unwind(|| {
        assert_linear("pairs", b"a", |text| {
            let mut n = 0u64;
            for start in (0..text.len()).step_by(8) {
                n += text[start..]
                    .iter()
                    .map(|byte| u64::from(*byte))
                    .sum::<u64>();
            }
            assert!(std::hint::black_box(n) > 0);
        });
    });
    assert!(found.is_err());
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
            for unit in units() {
                assert_linear(pre.names[0].name, unit, |text| {
                    let mut n_bytes = 0;
                    pre.split(text, &mut |word| n_bytes += word.len());
                    assert_eq!(n_bytes, text.len());
                });
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
            "bert-bge",
            "llama-spm",
            "llama-bpe",
            "gpt-2",
            "qwen2",
            "starcoder",
            "deepseek-llm",
        ] {
            let tokenizer = tokenizer(&folder.join(format!("ggml-vocab-{name}.gguf")));
            for unit in units() {
                let mut last = (Vec::new(), Vec::new());
                assert_linear(name, unit, |text| {
                    let options = EncodeOptions {
                        parse_special: true,
                        ..Default::default()
                    };
                    last = (text.to_vec(), tokenizer.encode(text, options));
                });
                let (text, ids) = last;
                check_decoded(name, &text, &tokenizer.decode(&ids, true));
            }
        }
    });
}

fn check_decoded(name: &str, text: &[u8], decoded: &[u8]) {
    match name {
        // WordPiece loses spaces and what its vocabulary does not have.
        "bert-bge" => assert!(decoded.len() <= 3 * text.len() + 5, "{name}"),
        // SentencePiece puts a space in front, and reads U+2581 as one.
        "llama-spm" if text.starts_with("\u{2581}".as_bytes()) => {}
        "llama-spm" => assert_eq!(&decoded[1..], text, "{name}"),
        // StarCoder has no token for some bytes, which are dropped as in the reference.
        "starcoder" if text[0] == 0xFF => assert_eq!(decoded, b""),
        // DeepSeek has an added token "ÿ" where that of the byte should be.
        "deepseek-llm" if text[0] == 0xFF => {
            assert_eq!(decoded, "ÿ".repeat(text.len()).as_bytes());
        }
        _ => assert_eq!(decoded, text, "{name}"),
    }
}
