//! A file whose last edit was cut short and the undo file beside it: refused with both as they were, or settled; a header that
//! is put back is that of a file which opens, and no other byte changes.
//!
//! Input: one byte (odd: the undo file is made to agree with itself and the file), then file and undo file with a border between.

#![no_main]

use std::fs;

use gristmill_fuzz::{UNDO_HEAD_BYTES, folder, parts, seal};
use gristmill_gguf::File;
use gristmill_gguf::edit::{Recovered, recover};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((options, rest)) = input.split_first() else {
        return;
    };
    let parts = parts(rest, 2);
    let [file, undo] = &*parts else { return };
    let mut undo = undo.to_vec();
    if options % 2 == 1 {
        seal(&mut undo, file);
    }
    let path = folder().join("u.gguf");
    let undo_path = folder().join("u.gguf.edit-undo");
    fs::write(&path, file).expect("the folder takes files");
    fs::write(&undo_path, &undo).expect("the folder takes files");
    let recovered = recover(&path);
    let now = fs::read(&path).expect("it is there");
    match recovered {
        Err(error) => {
            assert!(error.to_string().contains("u.gguf"), "{error}");
            let _ = error.hint();
            assert!(now == *file && fs::read(&undo_path).is_ok_and(|left| left == undo));
        }
        Ok(recovery) => {
            assert!(!undo_path.exists());
            let state = recovery.expect("there was an undo file").state;
            if state == Recovered::Restored {
                let header = &undo[UNDO_HEAD_BYTES..];
                assert!(now.starts_with(header) && now[header.len()..] == file[header.len()..]);
            } else {
                assert!(now == *file);
            }
            if state != Recovered::Complete {
                File::open(&path).expect("the old header is a good one");
            }
        }
    }
    let _ = fs::remove_file(&undo_path);
    fs::remove_file(&path).expect("it was written above");
});
