//! B03 and its like: files that lie about their size, and random damage.

use std::time::Duration;
#[cfg(not(target_os = "linux"))]
use std::time::Instant;

use gristmill_gguf::{Error, File};
use proptest::prelude::*;

use crate::bytes::{Bytes, open, sample};

/// Far more than any of these takes, and far less than an allocation by the lie would.
const SOON: Duration = Duration::from_secs(1);

/// The time that the thread takes for `work`. Time on a processor where the system tells it, so that
/// a busy machine does not fail the tests.
fn time_of<T>(work: impl FnOnce() -> T) -> (T, Duration) {
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
            "string 0 of array",
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

#[test]
fn every_byte_may_be_anything() {
    let good = sample().build();
    for place in 0..good.len() {
        for byte in [0, 1, 0x7f, 0x80, 0xff] {
            let mut bytes = good.clone();
            bytes[place] = byte;
            match open(&bytes) {
                Ok(file) => {
                    touch(&file);
                }
                Err(Error::Io { .. }) => panic!("no file was touched"),
                Err(_) => {}
            }
        }
    }
}
