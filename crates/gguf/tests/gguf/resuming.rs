//! Outputs that a later run continues: stopped anywhere, damaged anywhere, the finished file is the same.

use std::path::{Path, PathBuf};

use gristmill_gguf::{
    Error, Fault, Metadata, ResumableWriter, ShardKeys, ShardPlan, ShardWriter, TensorPlan,
    WriteOptions,
};
use gristmill_quant::{F32, I8};

pub fn plan(prefix: &Path, n_shards: usize) -> Vec<ShardPlan> {
    let mut metadata = Metadata::new();
    metadata.set("general.architecture", "llama");
    let tensors: Vec<TensorPlan> = (0..5)
        .map(|index| TensorPlan {
            name: format!("blk.{index}.attn_q.weight"),
            dims: vec![7 + index],
            ty: if index % 2 == 0 { F32 } else { I8 },
        })
        .collect();
    match n_shards {
        1 => ShardPlan::single(&prefix.with_extension("gguf"), metadata, tensors),
        _ => ShardPlan::set(
            prefix,
            &metadata,
            &tensors,
            &[0..0, 0..2, 2..5],
            ShardKeys::CountBeforeTensors,
        )
        .expect("three shards are few"),
    }
}

/// The data of a tensor.
pub fn data(tensor: &TensorPlan) -> Vec<u8> {
    let n = tensor.dims[0] as usize * tensor.ty.block_bytes();
    (0..n)
        .map(|i| (i * 7 + tensor.dims[0] as usize) as u8)
        .collect()
}

pub fn tensors(plan: &[ShardPlan]) -> Vec<TensorPlan> {
    plan.iter()
        .flat_map(|shard| shard.tensors.clone())
        .collect()
}

/// Writes from where the writer stands, and stops before tensor `end`, in the middle of it.
pub fn go_on(writer: &mut ResumableWriter, plan: &[ShardPlan], end: usize) {
    let tensors = tensors(plan);
    for (index, tensor) in tensors.iter().enumerate().skip(writer.done().len()) {
        let data = data(tensor);
        writer.read(b"sou");
        writer.read(b"rce");
        if index == end {
            writer.write(&data[..3]).expect("it is its turn");
            return;
        }
        writer.write(&data[..2]).expect("it is its turn");
        writer.write(&data[2..]).expect("it is its turn");
        writer
            .finish_tensor(&format!("note {index}"))
            .expect("it is complete");
    }
}

pub fn files(plan: &[ShardPlan]) -> Vec<Vec<u8>> {
    let read = |shard: &ShardPlan| std::fs::read(&shard.path).expect("it is there");
    plan.iter().map(read).collect()
}

/// What a writer that is not interrupted writes.
pub fn expected(folder: &Path, n_shards: usize) -> Vec<Vec<u8>> {
    let plan = plan(&folder.join("whole"), n_shards);
    let mut writer =
        ShardWriter::create(plan.clone(), &WriteOptions::default()).expect("it is writable");
    for tensor in tensors(&plan) {
        writer
            .write_tensor(&tensor.name, &data(&tensor))
            .expect("it is its turn");
    }
    writer.finish().expect("the disk has room");
    files(&plan)
}

pub fn open(plan: &[ShardPlan], description: &str) -> Result<ResumableWriter, Error> {
    open_from(plan, description, b"source")
}

/// The same, of tensors that are all made from these bytes.
fn open_from(
    plan: &[ShardPlan],
    description: &str,
    source: &[u8],
) -> Result<ResumableWriter, Error> {
    open_with(plan, &WriteOptions::default(), description, source)
}

pub fn open_with(
    plan: &[ShardPlan],
    options: &WriteOptions,
    description: &str,
    source: &[u8],
) -> Result<ResumableWriter, Error> {
    ResumableWriter::open(plan, options, description, |_, read| {
        source.chunks(4).for_each(read);
    })
}

#[test]
fn stopped_anywhere_the_files_are_the_same() {
    for n_shards in [1, 3] {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let expected = expected(folder.path(), n_shards);
        for stop in 0..5 {
            let plan = plan(&folder.path().join(format!("stop{stop}")), n_shards);
            go_on(
                &mut open(&plan, "x").expect("nothing is there"),
                &plan,
                stop,
            );
            assert!(plan.iter().all(|shard| !shard.path.exists()));
            let mut writer = open(&plan, "x").expect("it goes on");
            let notes: Vec<String> = (0..stop).map(|index| format!("note {index}")).collect();
            assert_eq!(writer.done(), notes);
            go_on(&mut writer, &plan, 5);
            writer.finish().expect("it is complete");
            assert_eq!(files(&plan), expected, "{n_shards} {stop}");
        }
        let left = std::fs::read_dir(folder.path())
            .expect("it is there")
            .flatten();
        let names: Vec<String> = left
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        assert!(
            names.iter().all(|name| name.ends_with(".gguf")),
            "{names:?}"
        );
    }
}

pub fn partial(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.file_name().expect("it has a name").to_owned();
    name.push(suffix);
    path.with_file_name(name)
}

#[test]
fn damage_is_found_and_written_again() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let expected = expected(folder.path(), 1);
    let plan = plan(&folder.path().join("out"), 1);
    let file = partial(&plan[0].path, ".partial");
    let mut writer = open(&plan, "x").expect("nothing is there");
    go_on(&mut writer, &plan, 4);
    drop(writer);
    let whole = std::fs::read(&file).expect("it is there");
    // The third tensor is damaged: two remain.
    let journal = std::fs::read(partial(&plan[0].path, ".resume")).expect("it is there");
    let data_start = expected[0].len() - 5 * 32 - 32;
    for (bytes, n_done, fault) in [
        (whole.clone(), 4, None),
        (
            whole[..data_start + 8].to_vec(),
            1,
            Some((Fault::Short, "ends inside tensor blk.1.attn_q.weight")),
        ),
        (
            whole[..whole.len() / 2].to_vec(),
            0,
            Some((Fault::Head, "its header is damaged")),
        ),
        (Vec::new(), 0, Some((Fault::Head, "its header is damaged"))),
        (
            {
                let mut damaged = whole.clone();
                damaged[data_start + 70] ^= 1;
                damaged
            },
            2,
            Some((
                Fault::Data,
                "the data of tensor blk.2.attn_q.weight is damaged",
            )),
        ),
        (
            {
                let mut damaged = whole.clone();
                damaged[30] ^= 1;
                damaged
            },
            0,
            Some((Fault::Head, "its header is damaged")),
        ),
        (
            {
                // Between the header and the data.
                let mut damaged = whole.clone();
                damaged[data_start - 33] ^= 1;
                damaged
            },
            0,
            Some((Fault::Head, "its header is damaged")),
        ),
    ] {
        std::fs::write(&file, &bytes).expect("it is writable");
        std::fs::write(partial(&plan[0].path, ".resume"), &journal).expect("it is writable");
        let mut writer = open(&plan, "x").expect("it goes on");
        assert_eq!(writer.done().len(), n_done);
        let spoilt = writer
            .spoilt()
            .map(|spoilt| (spoilt.fault, spoilt.to_string()));
        let message = |(fault, what): (Fault, &str)| {
            let from = format!(
                "everything from tensor blk.{n_done}.attn_q.weight ({} of 5) on is written again",
                n_done + 1
            );
            (fault, format!("{}: {what}; {from}", file.display()))
        };
        assert_eq!(spoilt, fault.map(message));
        go_on(&mut writer, &plan, 5);
        writer.finish().expect("it is complete");
        assert_eq!(files(&plan), expected);
        std::fs::remove_file(&plan[0].path).expect("it is there");
    }
}

/// What was made from other bytes than the source has now is written again, and so is what the damaged lines of a journal
/// told of.
#[test]
fn changed_sources_and_damaged_journals_are_found() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let expected = expected(folder.path(), 1);
    let plan = plan(&folder.path().join("out"), 1);
    let journal = partial(&plan[0].path, ".resume");
    let mut writer = open(&plan, "x").expect("nothing is there");
    go_on(&mut writer, &plan, 4);
    drop(writer);
    let sound = std::fs::read(&journal).expect("it is there");
    let changed = open_from(&plan, "x", b"Source").expect("it goes on");
    assert!(changed.done().is_empty());
    assert_eq!(
        changed.spoilt().map(|spoilt| spoilt.fault),
        Some(Fault::Source)
    );
    drop(changed);
    go_on(&mut open(&plan, "x").expect("it goes on"), &plan, 4);
    let title = "gristmill resume 3  0123456789\n".len() + 64;
    let line = (sound.len() - title) / 4;
    for (at, n_done) in [(title + 2 * line + 5, 2), (title + 3 * line + 70, 3)] {
        let mut damaged = sound.clone();
        damaged[at] = 0xff;
        std::fs::write(&journal, damaged).expect("it is writable");
        let mut writer = open(&plan, "x").expect("it goes on");
        assert_eq!(writer.done().len(), n_done);
        let spoilt = writer.spoilt().expect("a line is damaged");
        assert_eq!((spoilt.fault, &spoilt.path), (Fault::Line, &journal));
        go_on(&mut writer, &plan, 4);
    }
    let mut writer = open(&plan, "x").expect("it goes on");
    assert_eq!((writer.done().len(), writer.spoilt()), (4, None));
    go_on(&mut writer, &plan, 5);
    writer.finish().expect("it is complete");
    assert_eq!(files(&plan), expected);
}

/// Killed while the files got their names, the last one first, and before the journal was removed.
#[test]
fn files_that_have_their_names_are_known() {
    for (n_shards, named) in [(1, 0..1), (3, 2..3), (3, 1..3), (3, 0..3)] {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let expected = expected(folder.path(), n_shards);
        let plan = plan(&folder.path().join("out"), n_shards);
        let mut writer = open(&plan, "x").expect("nothing is there");
        go_on(&mut writer, &plan, 5);
        drop(writer);
        for shard in &plan[named.clone()] {
            std::fs::rename(partial(&shard.path, ".partial"), &shard.path).expect("it is there");
        }
        // Somebody else's file of the same size is not taken for ours.
        let last = plan[named.end - 1].path.clone();
        let ours = std::fs::read(&last).expect("it is there");
        std::fs::write(&last, vec![1; ours.len()]).expect("it is writable");
        let error = open(&plan, "x").expect_err("it is another file");
        assert!(matches!(error, Error::OutputExists { .. }), "{error}");
        std::fs::write(&last, ours).expect("it is writable");

        let writer = open(&plan, "x").expect("it goes on");
        assert_eq!(writer.done().len(), 5);
        writer.finish().expect("it is complete");
        assert_eq!(files(&plan), expected, "{n_shards} {named:?}");
        let left = std::fs::read_dir(folder.path()).expect("it is there");
        assert_eq!(left.count(), 2 * n_shards, "{n_shards} {named:?}");
    }
}

/// Killed while the files got their names, after which one of them was changed: whatever its tensors hold, the file is not
/// ours as it is, and what replaces it is whole.
#[test]
fn a_file_that_was_changed_under_its_name_is_written_again() {
    let force = WriteOptions {
        force: true,
        ..WriteOptions::default()
    };
    for (n_shards, named, changed) in [(1, 0..1, 0), (3, 1..3, 1), (3, 1..3, 2), (3, 0..3, 1)] {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let expected = expected(folder.path(), n_shards);
        let plan = plan(&folder.path().join("out"), n_shards);
        go_on(&mut open(&plan, "x").expect("nothing is there"), &plan, 5);
        for shard in &plan[named.clone()] {
            std::fs::rename(partial(&shard.path, ".partial"), &shard.path).expect("it is there");
        }
        let path = &plan[changed].path;
        let mut longer = std::fs::read(path).expect("it is there");
        longer.push(0);
        std::fs::write(path, &longer).expect("it is writable");
        let error = open(&plan, "x").expect_err("the file is not ours");
        assert!(matches!(error, Error::OutputExists { .. }), "{error}");
        let mut writer =
            open_with(&plan, &force, "x", b"source").expect("what is there may be replaced");
        let spoilt = writer.spoilt().expect("it is told");
        assert_eq!((spoilt.fault, &spoilt.path), (Fault::Named, path));
        assert_eq!(std::fs::read(path).expect("it is there"), longer);
        go_on(&mut writer, &plan, 5);
        writer.finish().expect("it is complete");
        assert_eq!(files(&plan), expected, "{n_shards} {named:?} {changed}");
    }
}

/// What is at fault in a file that has its name already is told as it is, and an older file is no damaged one.
#[test]
fn faults_of_named_files_are_told() {
    let force = WriteOptions {
        force: true,
        ..WriteOptions::default()
    };
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let set = plan(&folder.path().join("set"), 3);
    let mut writer = open(&set, "x").expect("nothing is there");
    go_on(&mut writer, &set, 5);
    drop(writer);
    for shard in &set[1..] {
        std::fs::rename(partial(&shard.path, ".partial"), &shard.path).expect("it is there");
    }
    let damaged = &set[2].path;
    let mut bytes = std::fs::read(damaged).expect("it is there");
    let last = bytes.len() - 33;
    bytes[last] ^= 1;
    std::fs::write(damaged, bytes).expect("it is writable");
    let writer = open_with(&set, &force, "x", b"source").expect("it goes on");
    let spoilt = writer.spoilt().expect("it is damaged");
    assert_eq!((spoilt.fault, &spoilt.path), (Fault::Data, damaged));
    assert!(
        spoilt.index < 4 && spoilt.found_at > spoilt.tensor,
        "{spoilt:?}"
    );
    drop(writer);

    let one = plan(&folder.path().join("one"), 1);
    std::fs::write(&one[0].path, b"GGUF, and older").expect("it is writable");
    let mut writer = open_with(&one, &force, "x", b"source").expect("it goes on");
    go_on(&mut writer, &one, 2);
    drop(writer);
    std::fs::remove_file(partial(&one[0].path, ".partial")).expect("it is there");
    let writer = open_with(&one, &force, "x", b"source").expect("it goes on");
    let text = writer.spoilt().map(ToString::to_string).unwrap_or_default();
    let start = format!(
        "{}: differs from the file that was written; everything from tensor blk.0.attn_q.weight",
        one[0].path.display()
    );
    assert!(text.starts_with(&start), "{text}");
}

/// A set that is to replace another one, and of which a file gets no name.
#[test]
fn a_set_that_cannot_be_replaced_stays() {
    let force = WriteOptions {
        force: true,
        ..WriteOptions::default()
    };
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let plan = plan(&folder.path().join("out"), 3);
    let n_files = || {
        std::fs::read_dir(folder.path())
            .expect("it is there")
            .count()
    };
    // A folder with something in it stands in the way of the second file.
    let obstacle = plan[1].path.join("file");
    let obstruct = || {
        std::fs::remove_file(&plan[1].path).expect("it is there");
        std::fs::create_dir(&plan[1].path).expect("the name is free");
        std::fs::write(&obstacle, "in the way").expect("it is writable");
    };
    let write_old = || {
        let _ = std::fs::remove_dir_all(&plan[1].path);
        for shard in &plan {
            std::fs::write(&shard.path, "old").expect("it is writable");
        }
    };
    let is_old = || {
        for path in [&plan[0].path, &plan[2].path] {
            assert_eq!(std::fs::read(path).expect("it is there"), b"old");
        }
        assert!(obstacle.exists());
    };

    write_old();
    let mut writer = ShardWriter::create(plan.clone(), &force).expect("it may be replaced");
    for tensor in tensors(&plan) {
        let written = writer.write_tensor(&tensor.name, &data(&tensor));
        written.expect("it is its turn");
    }
    obstruct();
    writer.finish().expect_err("a folder is in the way");
    is_old();
    assert_eq!(n_files(), 3);

    write_old();
    let mut writer = open_with(&plan, &force, "x", b"source").expect("it may be replaced");
    go_on(&mut writer, &plan, 5);
    obstruct();
    writer.finish().expect_err("a folder is in the way");
    is_old();
    assert_eq!(n_files(), 3 + 4);

    write_old();
    let writer = open_with(&plan, &force, "x", b"source").expect("it goes on");
    writer.finish().expect("nothing is in the way");
    assert_eq!(files(&plan), expected(folder.path(), 3));
    assert_eq!(n_files(), 3 + 3);
}

#[test]
fn another_run_is_not_continued() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let plan = plan(&folder.path().join("out"), 1);
    let mut writer = open(&plan, "x").expect("nothing is there");
    go_on(&mut writer, &plan, 2);
    let error = open(&plan, "x").expect_err("the first one still writes");
    let told = format!(
        "{}: another run is writing this output (process {})",
        plan[0].path.display(),
        std::process::id()
    );
    assert!(matches!(error, Error::BeingWritten { .. }), "{error:?}");
    assert_eq!(error.to_string(), told);
    // Nor does a run that leaves nothing for a later one write there.
    let force = WriteOptions {
        force: true,
        ..WriteOptions::default()
    };
    let error = ShardWriter::create(plan.clone(), &force).expect_err("the first one still writes");
    assert_eq!(error.to_string(), told);
    assert!(!error.hint().is_some_and(|hint| hint.contains("remove")));
    drop(writer);
    drop(ShardWriter::create(plan.clone(), &force).expect("nobody writes there"));
    let error = open(&plan, "y").expect_err("it is another run");
    assert!(
        error.to_string().contains("another source, type or option"),
        "{error}"
    );
    assert!(error.hint().is_some());
    let journal = partial(&plan[0].path, ".resume");
    for foreign in [&b"hello"[..], b"\xff\xfe", &[b'a'; 1 << 20]] {
        std::fs::write(&journal, foreign).expect("it is writable");
        assert!(matches!(open(&plan, "x"), Err(Error::Resume { .. })));
    }
    std::fs::write(&journal, format!("gristmill resume 2 {}\n", "0".repeat(64)))
        .expect("it is writable");
    let error = open(&plan, "x").expect_err("its lines may mean something else");
    assert!(matches!(error, Error::ResumeFormat { .. }), "{error:?}");
    assert!(
        error
            .to_string()
            .contains("another version of gristmill left it"),
        "{error}"
    );
    // Lines that were never written.
    std::fs::remove_file(&journal).expect("it is there");
    std::fs::remove_file(partial(&plan[0].path, ".partial")).expect("it is there");
    drop(open(&plan, "x").expect("nothing is there"));
    let mut text = std::fs::read(&journal).expect("it is there");
    text.extend(b"no line\n0123 x\n\n\n");
    std::fs::write(&journal, text).expect("it is writable");
    assert!(open(&plan, "x").expect("it begins anew").done().is_empty());
}

#[test]
fn too_much_and_too_little_data() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let plan = plan(&folder.path().join("out"), 1);
    let mut writer = open(&plan, "x").expect("nothing is there");
    assert!(writer.finish_tensor("").is_err() && writer.write(&[0; 29]).is_err());
    writer.write(&[0; 28]).expect("it is its turn");
    writer.finish_tensor("two\nlines").expect("it is complete");
    assert_eq!(writer.done(), ["two"]);
    assert!(matches!(writer.finish(), Err(Error::PlanMismatch { .. })));
}

/// Files at the names that a run would use are not its own unless a journal tells so.
#[test]
fn what_no_run_left_stays_as_it_is() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let plan = plan(&folder.path().join("out"), 1);
    let (file, journal) = (
        partial(&plan[0].path, ".partial"),
        partial(&plan[0].path, ".resume"),
    );
    let begun = |text: &str| std::fs::write(&journal, text).expect("it is writable");
    for text in ["", "gristmill resume 3 "] {
        std::fs::write(&file, "of another program").expect("it is writable");
        begun(text);
        let error = open(&plan, "x").expect_err("it is no file of ours");
        assert!(error.to_string().contains("no journal tells"), "{error}");
        let left = std::fs::read(&file).expect("it is there");
        assert_eq!(left, b"of another program", "{text}");
    }
    // With a journal that is sound: what an input or a link hides behind the name.
    std::fs::remove_file(&file).expect("it is there");
    begun("");
    drop(open(&plan, "x").expect("nothing is there"));
    let input = folder.path().join("input.gguf");
    std::fs::write(&input, "an input").expect("it is writable");
    let options = WriteOptions {
        inputs: vec![input.clone()],
        ..WriteOptions::default()
    };
    let refused = |options: &WriteOptions| {
        let error = open_with(&plan, options, "x", b"").expect_err("it is refused");
        assert_eq!(std::fs::read(&input).expect("it is there"), b"an input");
        std::fs::remove_file(&file).expect("it is there");
        error
    };
    std::fs::remove_file(&file).expect("it is there");
    std::fs::hard_link(&input, &file).expect("links can be made");
    assert!(matches!(refused(&options), Error::OutputIsInput { .. }));
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(&input, &file).expect("links can be made");
        let error = refused(&WriteOptions::default());
        assert!(error.to_string().contains("no regular file"), "{error}");
    }
}

#[test]
fn a_note_is_cut_between_characters() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let plan = plan(&folder.path().join("out"), 1);
    let mut writer = open(&plan, "x").expect("nothing is there");
    writer.write(&[0; 28]).expect("it is its turn");
    writer
        .finish_tensor(&"磨".repeat(400))
        .expect("it is complete");
    assert_eq!(writer.done(), ["磨".repeat(341)]);
}
