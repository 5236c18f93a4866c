//! Reading on behind a fault: everything that is wrong is collected, and what is left is sound.

use std::path::Path;

use gristmill_gguf::{Error, File, Survey};

use crate::bytes::{Bytes, F32, Q8_0, sample};

fn survey(bytes: &[u8]) -> Survey {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("test.gguf");
    std::fs::write(&path, bytes).unwrap();
    File::survey(&path)
}

#[test]
fn of_a_sound_file_nothing_is_found() {
    let bytes = sample().build();
    let Survey { file, faults } = survey(&bytes);
    let (file, opened) = (file.unwrap(), crate::bytes::open(&bytes).unwrap());
    assert!(faults.is_empty(), "{faults:?}");
    assert_eq!(file.metadata(), opened.metadata());
    assert_eq!(file.tensors(), opened.tensors());
    assert_eq!(file.data_offset(), opened.data_offset());
}

#[test]
fn every_fault_is_collected_and_left_out() {
    let file = Bytes::new()
        .entry_u32("a", 1)
        .entry("b", 7, &[9])
        .entry_u32("a", 2)
        .entry_u32("", 3)
        .entry_array("c", 7, 3, &[1, 2, 3])
        .entry_u32("d", 4)
        .tensor("good", &[8], F32, 0)
        .tensor("good", &[8], F32, 32)
        .tensor("removed", &[32], 4, 32)
        .tensor("unknown", &[32], 1000, 32)
        .tensor("flat", &[], F32, 32)
        .tensor("deep", &[1, 1, 1, 1, 1, 1], F32, 32)
        .tensor("zero", &[0], F32, 32)
        .tensor("part", &[33], Q8_0, 32)
        .tensor("odd", &[8], F32, 33)
        .tensor("far", &[8], F32, 1 << 40)
        .tensor("over", &[8], F32, 0)
        .tensor("last", &[8], F32, 32)
        .data(&[0; 64]);
    let Survey { file, faults } = survey(&file.build());
    let kinds: Vec<&str> = faults.iter().map(kind).collect();
    assert_eq!(
        kinds,
        [
            "value",
            "duplicate key",
            "key",
            // One for the array, of whose elements two are no BOOLs.
            "value",
            "duplicate tensor",
            "type",
            "type",
            "shape",
            "shape",
            "shape",
            "shape",
            "misaligned",
            "outside",
            "overlap",
        ],
        "{faults:#?}"
    );
    let file = file.unwrap();
    let keys: Vec<&str> = file.metadata().iter().map(|(key, _)| key).collect();
    assert_eq!(keys, ["a", "b", "c", "d"]);
    assert_eq!(file.metadata().u32("a").unwrap(), Some(1));
    let names: Vec<&str> = file
        .tensors()
        .iter()
        .map(|tensor| tensor.name.as_str())
        .collect();
    assert_eq!(names, ["good", "over", "last"]);
}

fn kind(error: &Error) -> &'static str {
    match error {
        Error::BadValue { .. } => "value",
        Error::DuplicateKey { .. } => "duplicate key",
        Error::BadKey { .. } => "key",
        Error::DuplicateTensor { .. } => "duplicate tensor",
        Error::RemovedTensorType { .. } | Error::UnknownTensorType { .. } => "type",
        Error::BadShape { .. } => "shape",
        Error::Misaligned { .. } => "misaligned",
        Error::TensorOutsideFile { .. } => "outside",
        Error::Overlap { .. } => "overlap",
        Error::Truncated { .. } => "truncated",
        Error::BadAlignment { .. } => "alignment",
        _ => "other",
    }
}

#[test]
fn what_cannot_be_passed_over_ends_the_reading() {
    let head = sample().head();
    let Survey { file, faults } = survey(&head[..head.len() - 5]);
    assert!(file.is_none());
    assert_eq!(faults.iter().map(kind).collect::<Vec<_>>(), ["truncated"]);
    let Survey { file, faults } = File::survey(Path::new("/nonexistent/model.gguf"));
    assert!(file.is_none());
    assert!(matches!(faults[..], [Error::NotFound { .. }]), "{faults:?}");
}

/// A file with more faults than anybody reads is given up on.
#[test]
fn faults_are_not_collected_without_end() {
    let mut file = Bytes::new();
    for _ in 0..20_000 {
        file = file.entry_u32("same", 1);
    }
    let Survey { file, faults } = survey(&file.build());
    assert!(file.is_none());
    assert_eq!(faults.len(), 10_001);
}

#[test]
fn an_alignment_at_fault_counts_as_the_usual_one() {
    let file = Bytes::new()
        .entry_u32("general.alignment", 7)
        .tensor("w", &[8], F32, 0)
        .data(&[0; 32]);
    let Survey { file, faults } = survey(&file.build());
    assert_eq!(faults.iter().map(kind).collect::<Vec<_>>(), ["alignment"]);
    assert_eq!(file.unwrap().tensors().len(), 1);
}
