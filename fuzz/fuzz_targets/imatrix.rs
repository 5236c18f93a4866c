//! Any bytes as an importance matrix, of the form that their first bytes say: refused with a message, or one whose weights
//! can be used, and which is the same after it was written and read again.

#![no_main]

use std::path::Path;

use gristmill_fuzz::folder;
use gristmill_gguf::{Error, File, Imatrix, ImatrixForm, Model, WriteOptions};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let path = Path::new("fuzz.imatrix");
    let read = match bytes.starts_with(b"GGUF") {
        true => File::from_bytes(bytes, path)
            .and_then(Model::of_file)
            .and_then(|model| Imatrix::of_model(&model)),
        false => Imatrix::from_legacy_bytes(bytes, path),
    };
    match read {
        Err(error) => {
            assert!(error.to_string().contains("fuzz.imatrix"), "{error}");
            let _ = error.hint();
        }
        Ok(imatrix) => look_at(&imatrix),
    }
});

fn look_at(imatrix: &Imatrix) {
    assert!(!imatrix.is_empty());
    for (name, entry) in imatrix.iter() {
        let weights = entry.weights();
        assert_eq!(weights.len(), entry.sums().len(), "{name}");
        assert!(
            weights
                .iter()
                .all(|weight| weight.is_finite() && *weight >= 0.0),
            "{name}"
        );
        assert!(entry.n_unseen() <= entry.counts().len());
    }
    write_and_read(imatrix, ImatrixForm::Gguf);
    write_and_read(imatrix, ImatrixForm::Legacy);
}

fn write_and_read(imatrix: &Imatrix, form: ImatrixForm) {
    let path = folder().join("out.imatrix");
    let options = WriteOptions {
        force: true,
        ..WriteOptions::default()
    };
    let lost = match imatrix.save(&path, form, &options) {
        Ok(lost) => lost,
        // Names and numbers that the form cannot hold.
        Err(error) => {
            return assert!(
                matches!(
                    error,
                    Error::BadImatrix { .. } | Error::BadPlan { .. } | Error::BadEntry { .. }
                ),
                "{error}"
            );
        }
    };
    if lost.left_out.len() == imatrix.len() {
        return;
    }
    let read = Imatrix::open(&path).expect("what was written can be read");
    for (name, entry) in imatrix.iter() {
        let flat = lost.left_out.iter().chain(&lost.flattened);
        match read.get(name) {
            // Dividing and multiplying rounds.
            Some(read) => compare(name, &read.weights(), &entry.weights()),
            None => assert!(flat.into_iter().any(|lost| lost == name), "{name} is gone"),
        }
    }
}

fn compare(name: &str, read: &[f32], written: &[f32]) {
    assert_eq!(read.len(), written.len(), "{name}");
    for (read, written) in read.iter().zip(written) {
        let near = (read - written).abs() <= written.abs() * 1e-5 + f32::MIN_POSITIVE;
        assert!(near, "{name}: {read} is not {written}");
    }
}
