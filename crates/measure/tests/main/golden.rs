//! Files of the reference: all of them are sound.

use std::path::{Path, PathBuf};

use gristmill_measure::check::Severity;

use crate::model::report;

/// The folder of golden data; where it is absent, says so loudly, and fails where `CI` is `true`.
pub fn golden() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/golden");
    let path = std::env::var_os("GRISTMILL_GOLDEN").map_or(beside, PathBuf::from);
    if path.join("README.md").exists() {
        return Some(path);
    }
    let ci = std::env::var("CI").as_deref() == Ok("true");
    assert!(!ci, "golden data absent: {}", path.display());
    eprintln!(
        "golden data absent: {} - NOTHING IS COMPARED",
        path.display()
    );
    None
}

/// All GGUF files below a folder, sorted.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut rest = vec![folder.to_owned()];
    while let Some(folder) = rest.pop() {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                rest.push(path);
            } else if path
                .extension()
                .is_some_and(|extension| extension == "gguf")
            {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

#[test]
fn golden_conversions_are_sound() {
    let Some(golden) = golden() else { return };
    let files = files(&golden.join("convert"));
    assert!(files.len() > 15);
    let mut faults = Vec::new();
    for path in &files {
        for finding in report(path).findings {
            println!(
                "{}: {}: {} {}",
                path.display(),
                finding.code,
                finding.place,
                finding.text
            );
            if finding.severity > Severity::Note {
                faults.push((path.clone(), finding));
            }
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
    println!("golden comparisons made: {}", files.len());
}

#[test]
fn golden_vocabularies_are_sound() {
    let Some(golden) = golden() else { return };
    let files = files(&golden.join("tokens"));
    assert_eq!(files.len(), 9);
    let mut faults = Vec::new();
    for path in &files {
        for finding in report(path).findings {
            println!(
                "{}: {}: {} {}",
                path.display(),
                finding.code,
                finding.place,
                finding.text
            );
            if finding.severity > Severity::Note {
                faults.push((path.clone(), finding));
            }
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
    println!("golden comparisons made: {}", files.len());
}
