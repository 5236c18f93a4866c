//! Files of the reference: all of them are sound.

use std::path::{Path, PathBuf};

use gristmill_golden::{compared, folder};
use gristmill_measure::check::Severity;

use crate::model::report;

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

/// No file below this part of the golden data has more than notes.
fn check_all(part: &str, n_files_min: usize) {
    let Some(folder) = folder(part) else { return };
    let files = files(&folder);
    assert!(files.len() >= n_files_min, "{} files", files.len());
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
    compared(files.len(), part);
}

#[test]
fn golden_conversions_are_sound() {
    check_all("convert", 16);
}

#[test]
fn golden_vocabularies_are_sound() {
    check_all("tokens", 9);
}
