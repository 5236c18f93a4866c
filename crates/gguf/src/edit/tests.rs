//! An edit in place that stops after any of its steps, and undo files that are not what they should
//! be. What can be seen from outside is tested in `tests/gguf/editing.rs`.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use super::{Edit, EditOptions, Editor, Plan, Recovered, Way, recover, undo};
use crate::error::Error;
use crate::file::File;
use crate::metadata::Metadata;
use crate::output::WriteOptions;
use crate::writer::{TensorPlan, Writer};

/// A file whose header takes several megabytes, with two tensors, and the new value for one key.
fn large_header(folder: &Path) -> (PathBuf, Edit) {
    let path = folder.join("model.gguf");
    let mut metadata = Metadata::new();
    metadata.set("general.name", "before");
    metadata.set("x.filling", vec![7u8; 3 << 20]);
    metadata.set("x.last", "z");
    let plan = ["a", "b"].map(|name| TensorPlan {
        name: name.to_owned(),
        dims: vec![64],
        ty: gristmill_quant::F32,
    });
    let options = WriteOptions {
        reserve: 100,
        ..WriteOptions::default()
    };
    let mut writer = Writer::create(&path, &metadata, &plan, &options).unwrap();
    writer.write_tensor("a", &[1; 256]).unwrap();
    writer.write_tensor("b", &[2; 256]).unwrap();
    writer.finish().unwrap();
    let edit = Edit::Set {
        key: "general.name".to_owned(),
        value: "the name after the edit".into(),
    };
    (path, edit)
}

fn plan(path: &Path, edit: &Edit) -> Plan {
    let plan = Editor::open(path)
        .unwrap()
        .plan(std::slice::from_ref(edit), &EditOptions::default())
        .unwrap();
    assert_eq!(*plan.way(), Way::InPlace);
    plan
}

/// Stops the edit at step `stop` as a kill would: nothing is cleaned up. Whether it got that far.
fn stopped_at(plan: &Plan, stop: usize) -> bool {
    let mut n_steps = 0;
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        plan.replace_header(&mut || {
            if n_steps == stop {
                // Past the handlers of errors, which would tidy up.
                std::panic::resume_unwind(Box::new(()));
            }
            n_steps += 1;
        })
        .unwrap();
    }));
    outcome.is_err()
}

#[test]
fn an_edit_that_stops_after_any_step_is_whole_again_once_recovered() {
    let folder = tempfile::tempdir().unwrap();
    let (path, edit) = large_header(folder.path());
    let before = fs::read(&path).unwrap();
    let undo = undo::path_of(&path);
    let mut states = Vec::new();
    for stop in 0.. {
        fs::write(&path, &before).unwrap();
        let stopped = stopped_at(&plan(&path, &edit), stop);
        let left = undo.exists();
        if left {
            let error = File::open(&path).unwrap_err();
            assert!(
                matches!(error, Error::UnfinishedEdit { .. }),
                "{stop}: {error}"
            );
            assert!(error.hint().is_some());
        }
        let state = recover(&path).unwrap().map(|recovery| recovery.state);
        assert_eq!(state.is_some(), left, "{stop}");
        assert!(!undo.exists());
        let after = fs::read(&path).unwrap();
        let name = File::open(&path)
            .unwrap()
            .metadata()
            .str("general.name")
            .unwrap()
            .unwrap()
            .to_owned();
        match state {
            Some(Recovered::Untouched | Recovered::Restored) => assert_eq!(after, before, "{stop}"),
            Some(Recovered::Complete) => assert_eq!(name, "the name after the edit"),
            None => assert!(after == before || name == "the name after the edit"),
        }
        assert_eq!(after.len(), before.len());
        assert_eq!(
            after[after.len() - 512..],
            before[before.len() - 512..],
            "{stop}: the data"
        );
        states.push(state);
        if !stopped {
            break;
        }
    }
    // Every state was met: several pieces of the header, each with the mark on it.
    let n_of = |state| states.iter().filter(|&&found| found == state).count();
    assert!(n_of(Some(Recovered::Restored)) >= 5, "{states:?}");
    assert!(n_of(Some(Recovered::Untouched)) >= 1, "{states:?}");
    assert!(n_of(Some(Recovered::Complete)) >= 2, "{states:?}");
    assert_eq!(
        n_of(None),
        3,
        "before the undo file, after it, and at the end: {states:?}"
    );
}

/// A file that was being edited when the process died, with its undo file.
fn cut(folder: &Path) -> (PathBuf, PathBuf, Vec<u8>) {
    let (path, edit) = large_header(folder);
    let before = fs::read(&path).unwrap();
    assert!(stopped_at(&plan(&path, &edit), 4));
    let undo = undo::path_of(&path);
    assert!(undo.exists() && fs::read(&path).unwrap().starts_with(b"UNDO"));
    (path, undo, before)
}

/// That it is refused, for this reason, and nothing is written.
fn refused(path: &Path, reason: &str) {
    let undo = undo::path_of(path);
    let (file, held) = (fs::read(path).unwrap(), fs::read(&undo).ok());
    let error = recover(path).unwrap_err();
    // What begins with the mark is no good model, whatever becomes of the undo file.
    let is_half = file.starts_with(b"UNDO");
    let says_so = match error {
        Error::HeaderLost { .. } => is_half,
        Error::Unrestored { .. } => !is_half,
        _ => false,
    };
    assert!(says_so, "{error}");
    assert!(error.to_string().contains(reason), "{error}");
    let hint = error.hint().unwrap();
    assert_eq!(hint.contains("delete"), !is_half, "{hint}");
    assert_eq!(
        (fs::read(path).unwrap(), fs::read(&undo).ok()),
        (file, held),
        "{reason}"
    );
    assert!(matches!(
        File::open(path),
        Err(Error::UnfinishedEdit { .. })
    ));
}

#[test]
fn an_undo_file_that_is_damaged_or_hostile_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (path, undo, before) = cut(folder.path());
    let good = fs::read(&undo).unwrap();
    // Any byte of the sealed part and of the header counts.
    for place in [9, 16, 24, 33, 65, 100, 130, 170, good.len() - 1] {
        let mut bytes = good.clone();
        bytes[place] ^= 1;
        fs::write(&undo, bytes).unwrap();
        refused(
            &path,
            if place == 9 {
                "newer gristmill"
            } else {
                "it is damaged"
            },
        );
    }
    for length in [0, 8, 159, 160, good.len() - 1] {
        fs::write(&undo, &good[..length]).unwrap();
        refused(&path, "it is damaged");
    }
    fs::write(&undo, [&good[..], b"more"].concat()).unwrap();
    refused(&path, "it is damaged");
    fs::write(&undo, vec![0; 500]).unwrap();
    refused(&path, "it is no undo file");
    // A hole of a terabyte costs nothing to make, and must cost nothing to refuse.
    fs::OpenOptions::new()
        .write(true)
        .open(&undo)
        .unwrap()
        .set_len(1 << 40)
        .unwrap();
    let error = recover(&path).unwrap_err().to_string();
    assert!(error.contains("it is damaged"), "{error}");
    fs::remove_file(&undo).unwrap();
    fs::create_dir(&undo).unwrap();
    refused(&path, "not a regular file");
    fs::remove_dir(&undo).unwrap();
    #[cfg(unix)]
    {
        let elsewhere = folder.path().join("elsewhere");
        fs::write(&elsewhere, &good).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &undo).unwrap();
        refused(&path, "not a regular file");
        fs::remove_file(&undo).unwrap();
    }
    fs::write(&undo, &good).unwrap();
    assert_eq!(recover(&path).unwrap().unwrap().state, Recovered::Restored);
    assert_eq!(fs::read(&path).unwrap(), before);
    assert_eq!(recover(&path).unwrap(), None);
}

#[test]
fn what_cannot_be_written_keeps_its_undo_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    fs::create_dir(&path).unwrap();
    fs::write(undo::path_of(&path), b"x").unwrap();
    let error = recover(&path).unwrap_err();
    assert!(matches!(error, Error::RestoreFailed { .. }), "{error}");
    assert!(error.hint().unwrap().contains("keep"));
    assert!(undo::path_of(&path).exists());
}

#[test]
fn an_undo_file_never_reaches_beyond_the_header() {
    let folder = tempfile::tempdir().unwrap();
    let (path, undo, before) = cut(folder.path());
    // Sealed as it should be, over a header that is longer than the file's.
    let mut longer = File::from_bytes(&before, &path).unwrap().bytes().to_vec();
    longer.truncate(before.len() - 100);
    let marked = fs::read(&path).unwrap();
    let mut whole = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(&path)
        .unwrap();
    fs::remove_file(&undo).unwrap();
    undo::write(&path, &mut whole, &longer, &longer).unwrap();
    refused(&path, "ends elsewhere");
    // Nor does one that is no header at all.
    fs::remove_file(&undo).unwrap();
    undo::write(&path, &mut whole, b"GGUF, or so", b"other").unwrap();
    refused(&path, "the header that it holds is bad");
    assert_eq!(fs::read(&path).unwrap(), marked);
}

#[test]
fn an_undo_file_of_another_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (path, undo, before) = cut(folder.path());
    let good = fs::read(&undo).unwrap();
    // Another size; other data; and a good header that is neither the old nor the new one.
    fs::write(&path, [&before[..], b"longer"].concat()).unwrap();
    refused(&path, "belongs to another file");
    let mut other = before.clone();
    *other.last_mut().unwrap() ^= 1;
    fs::write(&path, other).unwrap();
    refused(&path, "belongs to another file");
    let mut edited = before.clone();
    let name = before
        .windows(6)
        .position(|bytes| bytes == b"before")
        .unwrap();
    edited[name] = b'B';
    fs::write(&path, edited).unwrap();
    refused(&path, "changed by something else");
    // The same file again, under an undo file that was never needed.
    fs::write(&path, &before).unwrap();
    assert_eq!(recover(&path).unwrap().unwrap().state, Recovered::Untouched);
    assert_eq!(fs::read(&path).unwrap(), before);
    drop(good);
}

#[test]
fn a_marked_file_without_its_undo_file_is_told_from_any_other() {
    let folder = tempfile::tempdir().unwrap();
    let (path, undo, before) = cut(folder.path());
    let away = folder.path().join("away");
    fs::rename(&undo, &away).unwrap();
    let error = File::open(&path).unwrap_err();
    assert!(matches!(error, Error::UndoMissing { .. }), "{error}");
    assert!(error.to_string().contains("is not there"), "{error}");
    // What is not there cannot be deleted.
    assert!(!error.hint().unwrap().contains("delete"));
    // Both moved together are good.
    let moved = folder.path().join("moved.gguf");
    fs::rename(&path, &moved).unwrap();
    fs::rename(&away, undo::path_of(&moved)).unwrap();
    assert_eq!(recover(&moved).unwrap().unwrap().state, Recovered::Restored);
    assert_eq!(fs::read(&moved).unwrap(), before);
    // Text that starts with the same letters is just no GGUF file.
    fs::write(&path, b"UNDO my changes, please").unwrap();
    assert!(matches!(File::open(&path), Err(Error::NotGguf { .. })));
}

#[test]
fn a_file_in_the_hands_of_another_process_is_waited_for_and_not_touched() {
    let folder = tempfile::tempdir().unwrap();
    let (path, undo, _) = cut(folder.path());
    let held = fs::File::open(&path).unwrap();
    held.lock().unwrap();
    let marked = fs::read(&path).unwrap();
    let error = recover(&path).unwrap_err();
    assert!(
        matches!(error, Error::Busy { .. }) && error.hint().is_some(),
        "{error}"
    );
    assert!(matches!(File::open(&path), Err(Error::Busy { .. })));
    assert_eq!(fs::read(&path).unwrap(), marked);
    drop(held);
    assert!(recover(&path).unwrap().is_some() && !undo.exists());
}

#[test]
fn a_file_that_changed_after_the_plan_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (path, edit) = large_header(folder.path());
    // With a backup, which goes again.
    let options = EditOptions {
        backup: true,
        ..EditOptions::default()
    };
    let editor = Editor::open(&path).unwrap();
    let second = editor.plan(std::slice::from_ref(&edit), &options).unwrap();
    let first = plan(&path, &edit);
    first.apply(&mut |_| ()).unwrap();
    let after = fs::read(&path).unwrap();
    let error = second.apply(&mut |_| ()).unwrap_err();
    assert!(
        matches!(error, Error::ChangedMeanwhile { .. }) && error.hint().is_some(),
        "{error}"
    );
    assert_eq!(fs::read(&path).unwrap(), after);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn of_two_edits_at_the_same_time_none_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let (path, edit) = large_header(folder.path());
    let first = plan(&path, &edit);
    let editor = Editor::open(&path).unwrap();
    // Between reading and planning nobody changes what was read.
    let error = first.apply(&mut |_| ()).unwrap_err();
    assert!(matches!(error, Error::Busy { .. }), "{error}");
    let second = editor.plan(&[edit], &EditOptions::default()).unwrap();
    first.apply(&mut |_| ()).unwrap();
    let error = second.apply(&mut |_| ()).unwrap_err();
    assert!(matches!(error, Error::ChangedMeanwhile { .. }), "{error}");
}

#[test]
fn an_edit_that_was_made_keeps_its_backup_though_the_undo_file_stays() {
    let folder = tempfile::tempdir().unwrap();
    let (path, edit) = large_header(folder.path());
    let before = fs::read(&path).unwrap();
    let options = EditOptions {
        backup: true,
        ..EditOptions::default()
    };
    let editor = Editor::open(&path).unwrap();
    let plan = editor.plan(std::slice::from_ref(&edit), &options).unwrap();
    let undo = undo::path_of(&path);
    // A folder in place of the undo file cannot be removed as a file.
    let error = plan
        .replace_header(&mut || {
            if undo.is_file() {
                fs::remove_file(&undo).unwrap();
                fs::create_dir(&undo).unwrap();
            }
        })
        .unwrap_err();
    assert!(matches!(error, Error::UndoLeft { .. }), "{error}");
    assert!(error.to_string().contains("the edit was made"), "{error}");
    assert_eq!(
        fs::read(folder.path().join("model.gguf.bak")).unwrap(),
        before
    );
    fs::remove_dir(&undo).unwrap();
    let file = File::open(&path).unwrap();
    let name = file.metadata().str("general.name").unwrap();
    assert_eq!(name, Some("the name after the edit"));
}

#[test]
fn a_replaced_file_needs_its_undo_file_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let (path, undo, _) = cut(folder.path());
    let force = WriteOptions {
        force: true,
        ..WriteOptions::default()
    };
    Writer::create(&path, &Metadata::new(), &[], &force)
        .unwrap()
        .finish()
        .unwrap();
    assert!(!undo.exists());
    assert!(File::open(&path).is_ok());
}
