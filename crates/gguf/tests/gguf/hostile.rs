//! B03 and its like: files that lie about their size, and random damage.

use std::time::Duration;
#[cfg(not(target_os = "linux"))]
use std::time::Instant;

use gristmill_gguf::{Error, File};
use proptest::prelude::*;

use crate::bytes::{Bytes, F32, Q8_0, open, sample};

/// Far more than any of these takes, and far less than an allocation by the lie would.
const SOON: Duration = Duration::from_secs(1);

/// The time that the thread takes for `work`. Time on a processor where the system tells it, so that
/// a busy machine does not fail the tests.
pub fn time_of<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    #[cfg(target_os = "linux")]
    fn now() -> Duration {
        let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
        let nanoseconds = text.split(' ').next().unwrap().parse().unwrap();
        Duration::from_nanos(nanoseconds)
    }
    #[cfg(not(target_os = "linux"))]
    fn now() -> Duration {
        static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
        START.get_or_init(Instant::now).elapsed()
    }
    let start = now();
    let result = work();
    (result, now() - start)
}

/// Every lie of B03, with a part of the message that answers it.
pub fn lies() -> Vec<(Vec<u8>, &'static str)> {
    let counts = Bytes::counts;
    let new = Bytes::new;
    let key = [new().u64(1 << 40), b"key".to_vec(), vec![0; 25]].concat();
    let name = [new().u64(1 << 40), b"name".to_vec(), vec![0; 24]].concat();
    vec![
        (counts(Some(1 << 62), None), "4611686018427387904 tensors"),
        (
            counts(None, Some(1 << 63)),
            "9223372036854775808 metadata entries",
        ),
        (counts(Some(1_000_000), None), "only 0 bytes are left"),
        (counts(None, Some(1_000_000)), "only 0 bytes are left"),
        (new().raw_entry(key).build(), "key of 1099511627776 bytes"),
        (
            new().raw_tensor(name).build(),
            "name of 1099511627776 bytes",
        ),
        (
            new().entry_array("k", 8, 1 << 60, &[]).build(),
            "an array of 1152921504606846976 elements",
        ),
        (
            new().entry_array("k", 8, 90_000_000, &[]).build(),
            "takes at least 720000000 bytes, and 0 are left",
        ),
        (
            new().entry_array("k", 12, u64::MAX, &[]).build(),
            "an array of 18446744073709551615 elements",
        ),
        (
            new().entry("k", 8, &(1u64 << 50).to_le_bytes()).build(),
            "the limit is 268435456",
        ),
        (
            new().entry("k", 8, &(1u64 << 27).to_le_bytes()).build(),
            "needs 134217728 more bytes, and has 0",
        ),
        (
            new().entry_array("k", 8, 2, &[0xff; 16]).build(),
            "a string of the array has 18446744073709551615 bytes",
        ),
    ]
}

#[test]
fn b03_counts_and_lengths_reserve_nothing() {
    for (bytes, expected) in lies() {
        let (message, elapsed) = time_of(|| crate::bytes::error(&bytes));
        assert!(message.contains(expected), "{message}");
        assert!(elapsed < SOON, "{message}: {elapsed:?}");
    }
}

#[test]
fn b03_a_large_vocabulary_opens_fast() {
    let file = Bytes::new();
    let tokens: Vec<u8> = (0..400_000)
        .flat_map(|id| file.string(format!("token{id}").as_bytes()))
        .collect();
    let bytes = file
        .entry_array("tokenizer.ggml.tokens", 8, 400_000, &tokens)
        .build();
    let fastest = (0..3)
        .map(|_| {
            let (file, elapsed) = time_of(|| open(&bytes).unwrap());
            let tokens = file
                .metadata()
                .required_strings("tokenizer.ggml.tokens")
                .unwrap();
            assert_eq!(
                (tokens.len(), tokens.get(399_999)),
                (400_000, Some(&b"token399999"[..]))
            );
            elapsed
        })
        .min();
    println!("400,000 strings: {fastest:?}");
    assert!(fastest < Some(Duration::from_millis(300)), "{fastest:?}");
}

#[test]
fn many_tensors_open_fast() {
    let n_tensors = 100_000u64;
    let mut file = Bytes::new();
    for index in 0..n_tensors {
        file = file.tensor(&format!("blk.{index}.weight"), &[8], 0, index * 32);
    }
    let bytes = file.data(&vec![0; n_tensors as usize * 32]).build();
    let (file, elapsed) = time_of(|| open(&bytes).unwrap());
    println!("{n_tensors} tensors: {elapsed:?}");
    assert!(elapsed < SOON, "{elapsed:?}");
    assert_eq!(file.tensors().len() as u64, n_tensors);
}

/// Whatever is asked of a file that opened.
fn touch(file: &File) -> usize {
    let metadata: usize = file
        .metadata()
        .iter()
        .map(|(key, value)| key.len() + format!("{value:?}").len())
        .sum();
    let data = |info| {
        file.data(info)
            .iter()
            .map(|&byte| usize::from(byte))
            .sum::<usize>()
    };
    metadata + file.tensors().iter().map(data).sum::<usize>()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn damage_is_an_error_or_harmless(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6)) {
        let mut bytes = sample().build();
        for (place, byte) in changes {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        match open(&bytes) {
            Ok(file) => {
                touch(&file);
            }
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }

    #[test]
    fn wide_numbers_are_an_error_or_harmless(place in any::<prop::sample::Index>(), power in 0u32..64, below in 0u64..2) {
        let mut bytes = sample().build();
        let place = place.index(bytes.len() - 8);
        bytes[place..place + 8].copy_from_slice(&((1u64 << power).wrapping_sub(below)).to_le_bytes());
        if let Ok(file) = open(&bytes) {
            touch(&file);
        }
    }

    #[test]
    fn anything_after_the_magic_is_an_error_or_harmless(tail in prop::collection::vec(any::<u8>(), 0..300)) {
        let bytes = [b"GGUF\x03\x00\x00\x00".to_vec(), tail].concat();
        if let Ok(file) = open(&bytes) {
            touch(&file);
        }
    }
}

/// Small sound files of every make: both byte orders and versions, an odd alignment, a shard, a vocabulary.
fn small_files() -> [Bytes; 5] {
    let tensors = |file: Bytes, alignment: u64| {
        file.tensor("a", &[8], F32, 0)
            .tensor("b", &[32, 1], Q8_0, alignment)
    };
    let old = Bytes {
        version: 2,
        ..Bytes::new().entry_string("general.architecture", b"llama")
    };
    let wide = Bytes {
        alignment: 64,
        ..Bytes::new().entry_u32("general.alignment", 64)
    };
    let shard = Bytes::new()
        .entry_u16("split.no", 0)
        .entry_u16("split.count", 1)
        .entry("split.tensors.count", 5, &2i32.to_le_bytes());
    let words = Bytes::new();
    let words = [words.string(b"one"), words.string("\u{4e2d}".as_bytes())].concat();
    let vocabulary = Bytes::new()
        .entry_array("tokenizer.ggml.tokens", 8, 2, &words)
        .entry_array("tokenizer.ggml.scores", 6, 2, &[0; 8])
        .entry("b", 7, &[1]);
    [
        tensors(old, 32).data(&[0; 66]),
        tensors(wide, 64).data(&[0; 98]),
        tensors(shard, 32).data(&[0; 66]),
        tensors(Bytes::big().entry_u32("general.file_type", 7), 32).data(&[0; 66]),
        vocabulary,
    ]
}

#[test]
fn every_prefix_is_an_error() {
    for file in small_files() {
        let good = file.build();
        assert!(open(&good).is_ok());
        for length in 0..good.len() {
            assert!(open(&good[..length]).is_err(), "{length} of {}", good.len());
        }
    }
}

#[test]
fn every_byte_of_a_header_may_be_anything() {
    for file in small_files() {
        let (good, n_header) = (file.build(), file.head().len());
        let n_tensors = open(&good).unwrap().tensors().len();
        let mut bytes = good.clone();
        for place in 0..n_header {
            for byte in (0..=255).filter(|&byte| byte != good[place]) {
                bytes[place] = byte;
                match open(&bytes) {
                    Ok(file) => {
                        touch(&file);
                        // A directory is read whole or refused: the count is byte 8 and on.
                        assert!((8..16).contains(&place) || file.tensors().len() == n_tensors);
                    }
                    Err(Error::Io { .. }) => panic!("no file was touched"),
                    Err(_) => {}
                }
            }
            bytes[place] = good[place];
        }
    }
}
