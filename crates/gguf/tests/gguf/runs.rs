//! Several runs at one output, and other programs at an unfinished file: one writes, and nothing but what it wrote gets a name.

use std::path::Path;
use std::time::{Duration, SystemTime};

use gristmill_gguf::{Error, PartialPath, ResumableWriter, ShardPlan, ShardWriter, WriteOptions};

use crate::resuming::{data, expected, files, go_on, open, open_with, partial, plan, tensors};

fn force() -> WriteOptions {
    WriteOptions {
        force: true,
        ..WriteOptions::default()
    }
}

/// Names of what stands in a folder.
fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("it is there").flatten();
    let mut names: Vec<String> = entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// What another program does to a file.
type Harm = fn(&Path);

fn swap(path: &Path, bytes: &[u8]) {
    let other = path.with_extension("other");
    std::fs::write(&other, bytes).expect("it is writable");
    // Of another second, however fast this test runs.
    let long_ago = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
    let file = std::fs::File::options().write(true).open(&other);
    let set = file.and_then(|file| file.set_modified(long_ago));
    set.expect("it is writable");
    std::fs::rename(&other, path).expect("it is there");
}

fn swap_for_the_same_size(path: &Path) {
    let n = std::fs::read(path).expect("it is there").len();
    swap(path, &vec![1; n]);
}

fn swap_for_another_size(path: &Path) {
    swap(path, b"of another program");
}

fn remove(path: &Path) {
    std::fs::remove_file(path).expect("it is there");
}

fn cut(path: &Path) {
    let file = std::fs::File::options().write(true).open(path);
    let cut = file.and_then(|file| file.set_len(300));
    cut.expect("it is writable");
}

fn overwrite(path: &Path) {
    let mut bytes = std::fs::read(path).expect("it is there");
    let last = bytes.len() - 33;
    bytes[last] ^= 1;
    // Later than a tick of any file system's clock.
    std::thread::sleep(Duration::from_millis(20));
    std::fs::write(path, bytes).expect("it is writable");
}

const HARMS: [(Harm, &str); 5] = [
    (swap_for_the_same_size, "was replaced by another file"),
    (swap_for_another_size, "was replaced by another file"),
    (remove, "was removed"),
    (cut, "it has 300 bytes in place of "),
    (
        overwrite,
        "the data of tensor blk.4.attn_q.weight is damaged",
    ),
];

/// Another program at the unfinished file of a run that goes on: what it made of it gets no name, and the same command writes
/// what is missing.
#[test]
fn an_unfinished_file_that_others_touch_is_not_published() {
    for ((harm, told), n_shards) in HARMS.into_iter().flat_map(|harm| [(harm, 1), (harm, 3)]) {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let plan = plan(&folder.path().join("out"), n_shards);
        let last = plan.last().expect("there are some");
        let file = partial(&last.path, ".partial");
        let begin = format!("{}: ", file.display());
        let check = |error: Error| {
            let text = error.to_string();
            assert!(matches!(error, Error::OutputDisturbed { .. }), "{text}");
            assert!(text.starts_with(&begin) && text.contains(told), "{text}");
            assert!(error.hint().is_some(), "{text}");
            assert!(plan.iter().all(|shard| !shard.path.exists()), "{told}");
        };
        // While its last tensor is being written, and behind it.
        let mut writer = open(&plan, "x").expect("nothing is there");
        go_on(&mut writer, &plan, 4);
        if !told.ends_with("is damaged") {
            harm(&file);
            let rest = &data(&tensors(&plan)[4])[3..];
            let written = writer.write(rest).and_then(|()| writer.finish_tensor(""));
            check(written.expect_err("it is no longer ours"));
        }
        drop(writer);
        let mut writer = open(&plan, "x").expect("it goes on");
        go_on(&mut writer, &plan, 5);
        harm(&file);
        check(writer.finish().expect_err("it is no longer ours"));
        let mut writer = open(&plan, "x").expect("it goes on");
        if told == "was removed" {
            let spoilt = writer.spoilt().expect("it is gone").to_string();
            let begin = format!("{begin}was removed, or cannot be read; ");
            assert!(spoilt.starts_with(&begin), "{spoilt}");
        }
        go_on(&mut writer, &plan, 5);
        writer.finish().expect("it is complete");
        assert_eq!(files(&plan), expected(folder.path(), n_shards), "{told}");
    }
}

/// What was written to, and holds the same bytes.
#[test]
fn a_file_that_others_leave_as_it_was_is_published() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let plan = plan(&folder.path().join("out"), 3);
    let mut writer = open(&plan, "x").expect("nothing is there");
    go_on(&mut writer, &plan, 5);
    for shard in &plan {
        let file = std::fs::File::options()
            .write(true)
            .open(partial(&shard.path, ".partial"));
        let touched = file.and_then(|file| file.set_modified(SystemTime::UNIX_EPOCH));
        touched.expect("it can be set");
    }
    writer.finish().expect("it is complete");
    assert_eq!(files(&plan), expected(folder.path(), 3));
}

/// The temporary file of a run that cannot be resumed; what others put there is theirs.
#[test]
fn a_temporary_file_that_was_replaced_is_not_published() {
    for n_shards in [1, 3] {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let plan = plan(&folder.path().join("out"), n_shards);
        let mut writer = ShardWriter::create(plan.clone(), &force()).expect("nobody writes there");
        for tensor in tensors(&plan) {
            let written = writer.write_tensor(&tensor.name, &data(&tensor));
            written.expect("it is its turn");
        }
        let before = names(folder.path());
        let temporary = folder.path().join(&before[0]);
        swap_for_the_same_size(&temporary);
        let error = writer.finish().expect_err("it is another file");
        let told = format!(
            "{}: was replaced by another file while it was being written; no file got its name",
            temporary.display()
        );
        assert_eq!(error.to_string(), told);
        assert_eq!(names(folder.path()), before[..1]);
    }
}

/// A file that others have written for this run, and that was swapped since it was checked.
#[test]
fn a_candidate_that_was_replaced_gets_no_name() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let (path, target) = (folder.path().join("candidate"), folder.path().join("named"));
    let mut candidate = PartialPath::reserve(&path).expect("the name is free");
    let error = candidate.written().expect_err("nothing is there yet");
    assert!(error.to_string().contains("was removed"), "{error}");
    std::fs::write(&path, "checked").expect("it is writable");
    candidate.written().expect("it is there");
    swap(&path, b"another");
    let error = candidate.rename(&target, false).expect_err("another file");
    assert!(matches!(error, Error::OutputDisturbed { .. }), "{error}");
    assert_eq!(names(folder.path()), ["candidate"]);
}

fn check_refused(refused: Result<(), Error>, path: &Path) {
    let error = refused.expect_err("another run writes there");
    let told = format!(
        "{}: another run is writing this output (process {})",
        path.display(),
        std::process::id()
    );
    assert_eq!(error.to_string(), told);
    assert!(!error.hint().is_some_and(|hint| hint.contains("remove")));
}

fn resumed(plan: &[ShardPlan], description: &str) -> Result<ResumableWriter, Error> {
    open_with(plan, &force(), description, b"source")
}

fn plain(plan: &[ShardPlan]) -> Result<ShardWriter, Error> {
    ShardWriter::create(plan.to_vec(), &force())
}

/// All tensors of a plan in one file.
fn one(plan: &[ShardPlan], path: &Path) -> Vec<ShardPlan> {
    ShardPlan::single(path, plan[0].metadata.clone(), tensors(plan))
}

/// Runs of all kinds at one set: one of them writes, the others are told of it, leave nothing and touch nothing.
#[test]
fn a_set_that_can_be_resumed_is_seen_by_all() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let set = plan(&folder.path().join("out"), 3);
    let (first, last) = (&set[0].path, &set[2].path);
    let mut writer = open(&set, "x").expect("nothing is there");
    go_on(&mut writer, &set, 4);
    let before = names(folder.path());
    for description in ["x", "y"] {
        check_refused(resumed(&set, description).map(drop), first);
        let of_last = one(&set, last);
        check_refused(resumed(&of_last, description).map(drop), last);
    }
    check_refused(plain(&one(&set, last)).map(drop), last);
    check_refused(plain(&set).map(drop), first);
    // Without its journal, too.
    let (journal, away) = (partial(first, ".resume"), folder.path().join("away"));
    std::fs::rename(&journal, &away).expect("it is there");
    for plan in [&set, &one(&set, last)] {
        let error = resumed(plan, "x").expect_err("another run writes there");
        assert!(matches!(error, Error::BeingWritten { .. }), "{error}");
    }
    std::fs::rename(&away, &journal).expect("it is there");
    assert_eq!(names(folder.path()), before);
    let rest = writer.write(&data(&tensors(&set)[4])[3..]);
    rest.and_then(|()| writer.finish_tensor(""))
        .and_then(|()| writer.finish())
        .expect("nobody has touched it");
    assert_eq!(files(&set), expected(folder.path(), 3));
}

/// One file of the set that can be resumed; the set, at its last file, that cannot.
#[test]
fn other_runs_are_seen_by_those_that_can_be_resumed() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let set = plan(&folder.path().join("out"), 3);
    let (first, second) = (&set[0].path, &set[1].path);
    let writer = resumed(&one(&set, second), "x").expect("nobody writes there");
    let before = names(folder.path());
    check_refused(resumed(&set, "x").map(drop), second);
    check_refused(plain(&set).map(drop), second);
    assert_eq!(names(folder.path()), before);
    drop(writer);
    for suffix in [".resume", ".partial"] {
        std::fs::remove_file(partial(second, suffix)).expect("it is there");
    }

    let mut writer = plain(&set).expect("nobody writes there");
    for tensor in &tensors(&set)[..4] {
        let written = writer.write_tensor(&tensor.name, &data(tensor));
        written.expect("it is its turn");
    }
    let before = names(folder.path());
    check_refused(resumed(&set, "x").map(drop), first);
    check_refused(resumed(&one(&set, first), "x").map(drop), first);
    assert_eq!(names(folder.path()), before);
    drop(writer);
    drop(resumed(&set, "x").expect("nobody writes there"));
}

/// Many begin at once, over and over: nobody is told of anything but the one that writes, and nothing is left.
#[test]
fn of_many_that_begin_at_once_one_writes() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let barrier = std::sync::Barrier::new(4);
    let plan = plan(&folder.path().join("out"), 1);
    let run = |description: &str| {
        barrier.wait();
        let opened = open(&plan, description).map_err(|error| error.to_string());
        barrier.wait();
        let opened = opened.map(|mut writer| {
            go_on(&mut writer, &plan, 5);
            writer.finish().expect("it is complete");
        });
        barrier.wait();
        opened
    };
    for _ in 0..20 {
        let outcomes: Vec<Result<(), String>> = std::thread::scope(|scope| {
            let runs =
                ["a", "a", "b", "c"].map(|description| scope.spawn(move || run(description)));
            runs.map(|run| run.join().expect("it does not panic"))
                .into()
        });
        let is_told =
            |error: &&String| error.contains("another run is writing this output (process ");
        let told = outcomes.iter().filter_map(|outcome| outcome.as_ref().err());
        assert_eq!(told.filter(is_told).count(), 3, "{outcomes:?}");
        assert_eq!(names(folder.path()), ["out.gguf"]);
        std::fs::remove_file(&plan[0].path).expect("it was written");
    }
}

/// A run that is refused has the lock for a moment: who goes on with what is there does not lose to it.
#[test]
fn a_refused_run_keeps_nobody_off() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let plan = plan(&folder.path().join("out"), 1);
    go_on(&mut open(&plan, "x").expect("nothing is there"), &plan, 2);
    for _ in 0..20 {
        std::thread::scope(|scope| {
            let others = [1, 2].map(|_| scope.spawn(|| open(&plan, "y").map(drop)));
            assert_eq!(open(&plan, "x").expect("it goes on").done().len(), 2);
            for other in others {
                let refused = other.join().expect("it does not panic");
                refused.expect_err("it is another run");
            }
        });
    }
}

/// What is refused is as it was, the journal with the process that it tells of as well.
#[test]
fn a_refused_journal_is_as_it_was() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let plan = plan(&folder.path().join("out"), 1);
    let (output, journal) = (&plan[0].path, partial(&plan[0].path, ".resume"));
    go_on(&mut open(&plan, "x").expect("nothing is there"), &plan, 5);
    std::fs::rename(partial(output, ".partial"), output).expect("it is there");
    let mut text = std::fs::read(&journal).expect("it is there");
    let process = "gristmill resume 3  ".len() + 64;
    text[process..][..10].copy_from_slice(b"0000000001");
    std::fs::write(&journal, &text).expect("it is writable");
    overwrite(output);
    let error = open(&plan, "x").expect_err("it may not be replaced");
    assert!(matches!(error, Error::OutputExists { .. }), "{error}");
    assert!(std::fs::read(&journal).expect("it is there") == text);
    // Nor does one stand there where none was.
    std::fs::remove_file(&journal).expect("it is there");
    std::fs::rename(output, partial(output, ".partial")).expect("it is there");
    let error = open(&plan, "x").expect_err("no journal tells of the file");
    assert!(matches!(error, Error::Resume { .. }), "{error}");
    assert_eq!(names(folder.path()), ["out.gguf.partial"]);
}
