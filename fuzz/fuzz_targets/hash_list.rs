//! Any text as a list of hashes: what it says of a name stands in the text and equals itself, and a list made of names and
//! hashes says them again.

#![no_main]

use gristmill_gguf::{FILE_SHA256, HashKind, Manifest, Outcome};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let manifest = Manifest::parse(text);
    let kinds = || {
        HashKind::ALL
            .iter()
            .map(|kind| kind.name())
            .chain([FILE_SHA256])
    };
    let names = text
        .lines()
        .filter_map(|line| line.split_whitespace().last());
    let mut files = Vec::new();
    for name in names.take(64) {
        for kind in kinds() {
            if let Some(hash) = manifest.hash(kind, name) {
                assert!(text.contains(hash));
                assert_eq!(manifest.outcome(kind, name, hash), Outcome::Equal);
                assert_eq!(
                    manifest.outcome(kind, name, &format!("{hash}0")),
                    Outcome::Different
                );
                if kind == FILE_SHA256 {
                    files.push((name, hash));
                }
            }
        }
    }
    let again = Manifest::of_files(files.iter().copied());
    for (name, hash) in files {
        assert_eq!(again.outcome(FILE_SHA256, name, hash), Outcome::Equal);
    }
});
