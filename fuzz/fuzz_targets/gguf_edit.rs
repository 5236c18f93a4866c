//! Edits of any file, as the first bytes say: refused, or the file with these edits and nothing else changed.
//!
//! Input: one byte with the number of edits, then each as kind, key, second key and value (one byte each), then the file.

#![no_main]

use std::path::Path;

use gristmill_gguf::edit::{Edit, EditOptions, Editor, RESERVED_KEY};
use gristmill_gguf::{File, Value};
use libfuzzer_sys::fuzz_target;

/// The bytes of an edit.
const EDIT_BYTES: usize = 4;
/// A file that would be longer, by an alignment without measure, is not made.
const FILE_BYTES_MAX: u64 = 1 << 24;

fuzz_target!(|input: &[u8]| {
    let Some((&n_edits, rest)) = input.split_first() else {
        return;
    };
    let n_edits = usize::from(n_edits % 8);
    let Some((edits, bytes)) = rest.split_at_checked(n_edits * EDIT_BYTES) else {
        return;
    };
    let path = Path::new("fuzz.gguf");
    let Ok(before) = File::from_bytes(bytes, path) else {
        return;
    };
    let keys: Vec<String> = before
        .metadata()
        .iter()
        .map(|(key, _)| key.to_owned())
        .collect();
    let edits: Vec<Edit> = edits
        .chunks_exact(EDIT_BYTES)
        .map(|edit| edit_of(edit, &keys))
        .collect();
    let options = EditOptions {
        force: true,
        reserve: (n_edits == 7).then_some(40),
        ..EditOptions::default()
    };
    let editor = Editor::from_bytes(bytes, path).expect("it was opened before");
    match editor.plan(&edits, &options) {
        Err(error) => {
            assert!(error.to_string().contains("fuzz.gguf"), "{error}");
            let _ = error.hint();
        }
        Ok(plan) if plan.file_bytes().1 > FILE_BYTES_MAX => {}
        Ok(plan) => compare(&before, &plan.to_bytes(bytes), &edits),
    }
});

/// A key of the file, or a new one.
fn key_of(byte: u8, keys: &[String]) -> String {
    let index = usize::from(byte & 63);
    match byte >> 6 {
        0 => format!("new.{index}"),
        1 if index == 0 => "general.alignment".to_owned(),
        1 if index == 1 => RESERVED_KEY.to_owned(),
        _ if keys.is_empty() => "k".to_owned(),
        _ => keys[index % keys.len()].clone(),
    }
}

fn edit_of(bytes: &[u8], keys: &[String]) -> Edit {
    let (key, other) = (key_of(bytes[1], keys), key_of(bytes[2], keys));
    let number = bytes[3];
    let value = match bytes[0] >> 4 {
        0 => Value::from(u32::from(number)),
        1 => Value::from(number),
        2 => Value::from(vec![number; usize::from(number)]),
        3 => Value::from(vec!["s".repeat(usize::from(number)); 3]),
        _ => Value::from("x".repeat(usize::from(number))),
    };
    match bytes[0] % 4 {
        0 => Edit::Set { key, value },
        1 => Edit::Add { key, value },
        2 => Edit::Rename {
            from: key,
            to: other,
        },
        _ => Edit::Remove { key },
    }
}

fn is_named(edits: &[Edit], key: &str) -> bool {
    key == RESERVED_KEY
        || edits.iter().any(|edit| match edit {
            Edit::Set { key: named, .. }
            | Edit::Add { key: named, .. }
            | Edit::Remove { key: named } => named == key,
            Edit::Rename { from, to } => from == key || to == key,
        })
}

/// Entries that no edit names, and all tensors, are what they were.
fn compare(before: &File, bytes: &[u8], edits: &[Edit]) {
    let after = File::from_bytes(bytes, Path::new("edited.gguf")).expect("an edited file opens");
    let rest = |file: &File| -> Vec<(String, String)> {
        let entries = file
            .metadata()
            .iter()
            .filter(|(key, _)| !is_named(edits, key));
        // As text, so that a NaN equals itself.
        entries
            .map(|(key, value)| (key.to_owned(), format!("{value:?}")))
            .collect()
    };
    assert_eq!(rest(before), rest(&after));
    assert_eq!(before.tensors().len(), after.tensors().len());
    for (old, new) in before.tensors().iter().zip(after.tensors()) {
        assert_eq!(
            (&old.name, &old.dims, old.ty),
            (&new.name, &new.dims, new.ty)
        );
        assert_eq!(before.data(old), after.data(new));
    }
    for edit in edits {
        match edit {
            Edit::Set { key, value } | Edit::Add { key, value } => {
                assert_eq!(after.metadata().get(key), Some(value));
            }
            Edit::Remove { key } => assert!(!after.metadata().contains(key)),
            Edit::Rename { from, to } => {
                assert!(!after.metadata().contains(from) && after.metadata().contains(to));
            }
        }
    }
}
