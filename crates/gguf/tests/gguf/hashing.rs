//! Lists of hashes: bounded, indexed, and of every form.

use std::path::Path;
use std::time::Duration;

use gristmill_gguf::{Error, FILE_SHA256, Manifest, Outcome};

use crate::hostile::time_of;

fn read(path: &Path) -> (Result<Manifest, Error>, Duration) {
    time_of(|| Manifest::read(path))
}

#[cfg(unix)]
#[test]
fn a_device_is_no_list() {
    let (result, elapsed) = read(Path::new("/dev/zero"));
    let error = result.expect_err("it never ends");
    assert!(matches!(error, Error::NotRegular { .. }), "{error}");
    assert!(elapsed < Duration::from_millis(100), "{elapsed:?}");
}

#[test]
fn a_list_of_a_gigabyte_is_refused_unread() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("list");
    std::fs::File::create(&path)
        .unwrap()
        .set_len(1 << 30)
        .unwrap();
    let (result, elapsed) = read(&path);
    let error = result.expect_err("it is too long");
    assert!(matches!(error, Error::ListTooLong { .. }), "{error}");
    assert!(elapsed < Duration::from_millis(100), "{elapsed:?}");
}

#[test]
fn names_are_found_by_an_index() {
    let hash = "ab".repeat(32);
    let line = |n: usize| format!("sha256    {hash}  m.gguf:blk.{n}.weight\n");
    let text: String = (0..50_000).map(line).collect();
    let manifest = Manifest::parse(&text);
    let ((), elapsed) = time_of(|| {
        for n in 0..50_000 {
            let name = format!("dir/m.gguf:blk.{n}.weight");
            assert_eq!(manifest.outcome("sha256", &name, &hash), Outcome::Equal);
        }
    });
    // It was 50,000 times 50,000 comparisons.
    assert!(elapsed < Duration::from_secs(3), "{elapsed:?}");
}

#[test]
fn of_two_files_with_one_name_the_nearer_path_counts() {
    let (a, b) = ("aa".repeat(32), "bb".repeat(32));
    let manifest = Manifest::parse(&format!("{a}  a/m.gguf\n{b}  b/m.gguf\n"));
    let outcome = |name, hash: &str| manifest.outcome(FILE_SHA256, name, hash);
    assert_eq!(outcome("a/m.gguf", &a), Outcome::Equal);
    assert_eq!(outcome("b/m.gguf", &b), Outcome::Equal);
    assert_eq!(outcome("/models/b/m.gguf", &b), Outcome::Equal);
    assert_eq!(outcome("/models/b/m.gguf", &a), Outcome::Different);
    assert_eq!(outcome("c/n.gguf", &a), Outcome::Absent);
}
