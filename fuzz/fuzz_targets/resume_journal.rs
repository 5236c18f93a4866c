//! What an interrupted run may have left: its journal, its unfinished file, and a file of the output's name. Refused with all
//! three as they were, or continued to the very file of an uninterrupted run.
//!
//! Input: one byte (odd: a file of the output's name may be replaced), then the three with borders between; an empty one is not
//! there.

#![no_main]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use gristmill_fuzz::{folder, parts, resume, write_until};
use libfuzzer_sys::fuzz_target;

/// The file that an uninterrupted run writes.
fn whole() -> &'static [u8] {
    static WHOLE: OnceLock<Vec<u8>> = OnceLock::new();
    WHOLE.get_or_init(|| finished(&folder().join("whole.gguf"), false).expect("nothing is there"))
}

/// The lines of the journal that an honest run leaves. Hashes are no signatures: who writes a journal for
/// data of his own has that data continued, and the fuzzer learns to do so.
fn honest_lines() -> &'static [Vec<u8>] {
    static LINES: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    LINES.get_or_init(|| {
        let path = folder().join("honest.gguf");
        let mut writer = resume(&path, false).expect("nothing is there");
        write_until(&mut writer, 3);
        drop(writer);
        let journal = fs::read(folder().join("honest.gguf.resume")).expect("it goes on");
        journal
            .split(|byte| *byte == b'\n')
            .skip(1)
            .map(<[u8]>::to_vec)
            .collect()
    })
}

fn is_honest(journal: &[u8]) -> bool {
    let mut lines = journal.split(|byte| *byte == b'\n');
    let honest = honest_lines();
    // The first line names the process; its length is always the same.
    let is_title = lines
        .next()
        .is_some_and(|line| line.len() == honest[0].len());
    is_title && lines.all(|line| line.is_empty() || honest[1..].iter().any(|known| known == line))
}

/// Continues the output and reads it.
fn finished(path: &Path, force: bool) -> gristmill_gguf::Result<Vec<u8>> {
    let mut writer = resume(path, force)?;
    assert!(writer.done().len() <= 3);
    if let Some(spoilt) = writer.spoilt() {
        assert!(spoilt.index == writer.done().len() && !spoilt.to_string().is_empty());
    }
    write_until(&mut writer, 3);
    writer.finish().expect("the files are as they were opened");
    Ok(fs::read(path).expect("it was just written"))
}

fuzz_target!(|input: &[u8]| {
    let Some((options, rest)) = input.split_first() else {
        return;
    };
    let whole = whole();
    let path = folder().join("r.gguf");
    let names = ["r.gguf.resume", "r.gguf.partial", "r.gguf"];
    let left: Vec<(PathBuf, &[u8])> = names
        .iter()
        .map(|name| folder().join(name))
        .zip(parts(rest, 3))
        .filter(|(_, bytes)| !bytes.is_empty())
        .collect();
    for (path, bytes) in &left {
        fs::write(path, bytes).expect("the folder takes files");
    }
    match finished(&path, options % 2 == 1) {
        Ok(bytes) => {
            let journal = left.iter().find(|(path, _)| path.ends_with(names[0]));
            assert!(bytes == whole || journal.is_some_and(|(_, bytes)| !is_honest(bytes)));
            assert!(!folder().join(names[0]).exists() && !folder().join(names[1]).exists());
        }
        Err(error) => {
            assert!(error.to_string().contains("r.gguf"), "{error}");
            let _ = error.hint();
            // The journal among them; and what was not there is not there.
            for path in names.map(|name| folder().join(name)) {
                let before = left.iter().find(|(other, _)| *other == path);
                assert_eq!(
                    fs::read(&path).ok().as_deref(),
                    before.map(|(_, bytes)| *bytes)
                );
            }
        }
    }
    for name in names {
        let _ = fs::remove_file(folder().join(name));
    }
});
