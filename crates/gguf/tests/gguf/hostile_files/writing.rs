//! Errors that no file content can cause: of paths, of outputs, of plans.

use std::fs;
use std::path::Path;

use gristmill_gguf::{
    Endian, EndianOptions, Error, File, Manifest, MergeOptions, Metadata, OutputFile, ShardLimits,
    SplitOptions, TensorPlan, Value, WriteOptions, Writer, convert_endian, merge, split,
};
use gristmill_quant::F32;

use crate::bytes::{Bytes, sample};

/// Each of these errors, made to happen.
pub fn errors() -> Vec<(&'static str, Error)> {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut errors = of_paths(folder);
    errors.extend(of_targets(folder));
    errors.extend(of_plans(folder));
    errors.extend(of_sets(folder));
    errors
}

/// Variants that other tests reach: those that need a process of their own, and those of editing. With the source of
/// the test that asks for each.
pub const ELSEWHERE: &[(&str, &str)] = &[
    ("BadEdit", EDITING),
    ("BackupExists", EDITING),
    ("BadImatrix", include_str!("../imatrix.rs")),
    ("BadPrefix", include_str!("../splitting.rs")),
    ("BeingWritten", include_str!("../resuming.rs")),
    ("Busy", EDITS_CUT_SHORT),
    ("ChangedMeanwhile", EDITS_CUT_SHORT),
    ("DangerousEdit", EDITING),
    ("Interrupted", include_str!("../../interrupt.rs")),
    ("ListTooLong", include_str!("../hashing.rs")),
    ("MissingKey", include_str!("../metadata.rs")),
    ("NotFirstShard", EDITING),
    ("NoImatrix", include_str!("../imatrix.rs")),
    ("NotImatrix", include_str!("../imatrix.rs")),
    ("OutputDisturbed", include_str!("../runs.rs")),
    ("Resume", include_str!("../resuming.rs")),
    ("ResumeFormat", include_str!("../resuming.rs")),
    ("TooLargeToTurn", include_str!("../../memory.rs")),
    ("TooMany", include_str!("../splitting.rs")),
    ("UndoLeft", EDITS_CUT_SHORT),
    ("UndoMissing", EDITS_CUT_SHORT),
    ("UnfinishedEdit", EDITS_CUT_SHORT),
    ("Unrestored", EDITS_CUT_SHORT),
    ("HeaderLost", EDITS_CUT_SHORT),
    ("RestoreFailed", EDITS_CUT_SHORT),
    ("WriteProtected", EDITING),
];

const EDITING: &str = include_str!("../editing.rs");
const EDITS_CUT_SHORT: &str = include_str!("../../../src/edit/tests.rs");

fn of_paths(folder: &Path) -> Vec<(&'static str, Error)> {
    let file = folder.join("file");
    fs::write(&file, b"x").unwrap();
    let mut errors = vec![
        ("NotFound", File::open(&folder.join("absent")).unwrap_err()),
        ("IsFolder", File::open(folder).unwrap_err()),
        ("Io", File::open(&folder.join("n".repeat(300))).unwrap_err()),
    ];
    #[cfg(unix)]
    errors.push((
        "NotRegular",
        File::open(Path::new("/dev/null")).unwrap_err(),
    ));
    errors
}

fn of_targets(folder: &Path) -> Vec<(&'static str, Error)> {
    let there = folder.join("there.gguf");
    fs::write(&there, b"x").unwrap();
    let input = WriteOptions {
        force: true,
        inputs: vec![there.clone()],
        ..WriteOptions::default()
    };
    let create = |path: &Path, bytes, options: &WriteOptions| {
        OutputFile::create(path, bytes, options).unwrap_err()
    };
    let plain = WriteOptions::default();
    let mut errors = vec![
        ("OutputExists", create(&there, 1, &plain)),
        ("OutputIsInput", create(&there, 1, &input)),
        (
            "NoFolder",
            create(&folder.join("absent/out.gguf"), 1, &plain),
        ),
        ("OutputNameless", create(Path::new(""), 1, &plain)),
        ("OutputIsFolder", create(folder, 1, &plain)),
        (
            "OutputBelowFile",
            create(&there.join("out.gguf"), 1, &plain),
        ),
        (
            "OutputRefused",
            create(&folder.join("n".repeat(300)), 1, &plain),
        ),
    ];
    #[cfg(unix)]
    errors.extend([
        (
            "NoSpace",
            create(&folder.join("out.gguf"), u64::MAX >> 1, &plain),
        ),
        (
            "OutputNotRegular",
            create(Path::new("/dev/null"), 1, &plain),
        ),
    ]);
    errors
}

fn of_plans(folder: &Path) -> Vec<(&'static str, Error)> {
    let plan = |dims: &[u64]| {
        vec![TensorPlan {
            name: "t".to_owned(),
            dims: dims.to_vec(),
            ty: F32,
        }]
    };
    let create = |metadata: &Metadata, plan: &[TensorPlan]| {
        Writer::create(
            &folder.join("out.gguf"),
            metadata,
            plan,
            &WriteOptions::default(),
        )
    };
    let mut bad_key = Metadata::new();
    bad_key.set("schlüssel", Value::U32(1));
    let good = Metadata::new();
    let unfinished = create(&good, &plan(&[8])).unwrap();
    vec![
        ("BadPlan", create(&good, &plan(&[0])).unwrap_err()),
        ("BadEntry", create(&bad_key, &plan(&[8])).unwrap_err()),
        ("PlanMismatch", unfinished.finish().unwrap_err()),
    ]
}

fn of_sets(folder: &Path) -> Vec<(&'static str, Error)> {
    let input = folder.join("whole.gguf");
    fs::write(&input, sample().build()).unwrap();
    let split_into = |limits: ShardLimits, as_reference| {
        let options = SplitOptions {
            input: input.clone(),
            prefix: folder.join("part"),
            limits,
            dry_run: true,
            force: false,
            as_reference,
        };
        split(&options, &mut |_| {}).unwrap_err()
    };
    let tensors = |n| ShardLimits {
        tensors: Some(n),
        ..ShardLimits::default()
    };
    let bytes = ShardLimits {
        bytes: Some(1),
        ..ShardLimits::default()
    };
    let merged = MergeOptions {
        input: input.clone(),
        output: folder.join("merged.gguf"),
        dry_run: true,
        force: false,
        delete_shards: false,
        as_reference: false,
    };
    let turned = EndianOptions {
        input: input.clone(),
        output: folder.join("turned.gguf"),
        to: Endian::Little,
        dry_run: true,
        force: false,
    };
    let turned = convert_endian(&turned, &mut |_| {}).unwrap_err();
    let words = folder.join("words");
    fs::write(&words, "no hash\n").unwrap();
    let cut = folder.join("cut.sha256");
    fs::write(
        &cut,
        format!("{}  a.gguf\n{}", "0".repeat(64), "0".repeat(20)),
    )
    .unwrap();
    let two = folder.join("two.sha256");
    let hashes = ["0", "1"].map(|digit| format!("{}  a.gguf\n", digit.repeat(64)));
    fs::write(&two, hashes.concat()).unwrap();
    let changed = cut_while_read(&input, folder);
    let many = many_tensors();
    fs::write(&input, &many).unwrap();
    vec![
        ("SplitLimitZero", split_into(tensors(0), false)),
        ("FirstTensorTooLarge", split_into(bytes, true)),
        ("NotShard", merge(&merged, &mut |_| {}).unwrap_err()),
        ("AlreadyEndian", turned),
        ("NoManifest", Manifest::read(&words).unwrap_err()),
        ("ListDamaged", Manifest::read(&cut).unwrap_err()),
        ("ListContradicts", Manifest::read(&two).unwrap_err()),
        ("Changed", changed),
        ("SplitTooFine", split_into(tensors(1), false)),
    ]
}

/// The error of a split whose input is cut while it is read.
fn cut_while_read(input: &Path, folder: &Path) -> Error {
    let options = SplitOptions {
        input: input.to_owned(),
        prefix: folder.join("cut"),
        limits: ShardLimits {
            tensors: Some(1),
            ..ShardLimits::default()
        },
        dry_run: false,
        force: false,
        as_reference: false,
    };
    let mut cut = |_: gristmill_gguf::Event<'_>| {
        let file = fs::OpenOptions::new().write(true).open(input).unwrap();
        file.set_len(64).unwrap();
    };
    split(&options, &mut cut).unwrap_err()
}

/// More tensors than a set can have shards.
fn many_tensors() -> Vec<u8> {
    let n_tensors = 65_536u64;
    let file = (0..n_tensors).fold(Bytes::new(), |file, index| {
        file.tensor(&format!("t{index}"), &[8], crate::bytes::F32, index * 32)
    });
    file.data(&vec![0; n_tensors as usize * 32]).build()
}
