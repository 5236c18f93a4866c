//! Hashes and differences.

use std::path::{Path, PathBuf};

use gristmill_gguf::{
    Diff, DiffOptions, Endian, EndianOptions, EntryChange, HashKind, HashOptions, HashReport,
    Metadata, Number, OrderDiff, ShardLimits, SplitOptions, TensorChange, TensorPlan, Value,
    WriteOptions, Writer, convert_endian, diff, hash, split,
};
use gristmill_quant::{F16, F32, TensorType};

/// A file with these entries and tensors of the bytes given.
fn write(path: &Path, metadata: &Metadata, tensors: &[(&str, &[u64], TensorType, Vec<u8>)]) {
    let plan: Vec<TensorPlan> = tensors
        .iter()
        .map(|(name, dims, ty, _)| TensorPlan {
            name: (*name).to_owned(),
            dims: dims.to_vec(),
            ty: *ty,
        })
        .collect();
    let options = WriteOptions {
        force: true,
        ..WriteOptions::default()
    };
    let mut writer = Writer::create(path, metadata, &plan, &options).unwrap();
    for (name, _, _, data) in tensors {
        writer.write_tensor(name, data).unwrap();
    }
    writer.finish().unwrap();
}

fn f32s(values: &[f32]) -> Vec<u8> {
    values
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect()
}

fn metadata(entries: &[(&str, Value)]) -> Metadata {
    let mut metadata = Metadata::new();
    for (key, value) in entries {
        metadata.set(*key, value.clone());
    }
    metadata
}

fn base() -> Metadata {
    metadata(&[
        ("general.architecture", "llama".into()),
        ("general.name", "One".into()),
        ("n", 1u32.into()),
        ("ids", vec![1i32, 2, 3].into()),
    ])
}

fn compare(a: &Path, b: &Path) -> Diff {
    let options = DiffOptions {
        a: a.to_owned(),
        b: b.to_owned(),
        metadata_only: false,
        n_threads: 2,
    };
    diff(&options, &mut |_| {}).unwrap()
}

fn hashes(path: &Path, n_threads: usize) -> HashReport {
    let options = HashOptions {
        input: path.to_owned(),
        kinds: HashKind::ALL.to_vec(),
        tensors: true,
        files: true,
        alone: false,
        n_threads,
    };
    hash(&options, &mut |_| {}).unwrap()
}

/// Values of which the hashes are known: computed with hashlib, uuid and xxhash of Python on the bytes 0, 1, … of each
/// tensor.
#[test]
fn hashes_are_those_of_other_tools() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.gguf");
    let bytes = |n: u8| (0..n).collect::<Vec<u8>>();
    write(
        &path,
        &base(),
        &[("a", &[8], F32, bytes(32)), ("b", &[3], F16, bytes(6))],
    );
    let report = hashes(&path, 3);
    let of = |hashes: &[(HashKind, String)]| -> Vec<String> {
        hashes
            .iter()
            .map(|(kind, hash)| format!("{} {hash}", kind.name()))
            .collect()
    };
    assert_eq!(of(&report.tensors[1].hashes), EXPECTED_TENSOR);
    assert_eq!(of(&report.data), EXPECTED_DATA);
    assert_eq!(report.tensors.len(), 2);
    assert_eq!(
        report.files[0].bytes,
        std::fs::metadata(&path).unwrap().len()
    );
}

const EXPECTED_TENSOR: [&str; 3] = [
    "xxh64 438e2507bf950423",
    "sha1 868460d98d09d8bbb93d7b6cdd15cc7fbec676b9",
    "sha256 17e88db187afd62c16e5debf3e6527cd006bc012bc90b51a810cd80c2d511f43",
];
const EXPECTED_DATA: [&str; 4] = [
    "xxh64 220b1fef337fd9e5",
    "sha1 483890e0ebe8b96f57d4b6aacf5c06947b234cfc",
    "sha256 2ff1e6f194b7c52181ad7140d77be4d0a16c3ecfcb33558f6a4ad082a561d338",
    "uuid 81990ffb-68df-5b7a-a17c-df84cdd7e4fc",
];

/// A model of 40 tensors of some KiB.
fn model(path: &Path) {
    let data = |n: usize| {
        (0..1000)
            .map(|i| (i * (n + 1)) as f32)
            .collect::<Vec<f32>>()
    };
    let names: Vec<String> = (0..40).map(|n| format!("t{n}")).collect();
    let tensors: Vec<(&str, &[u64], TensorType, Vec<u8>)> = names
        .iter()
        .enumerate()
        .map(|(n, name)| (name.as_str(), &[100u64, 10][..], F32, f32s(&data(n))))
        .collect();
    write(path, &base(), &tensors);
}

fn split_model(folder: &Path, input: &Path) -> PathBuf {
    let options = SplitOptions {
        input: input.to_owned(),
        prefix: folder.join("s"),
        limits: ShardLimits {
            tensors: Some(7),
            ..ShardLimits::default()
        },
        dry_run: false,
        force: false,
        as_reference: false,
    };
    split(&options, &mut |_| {}).unwrap().files[1].path.clone()
}

#[test]
fn a_set_has_the_hashes_of_its_file_and_no_difference() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.gguf");
    model(&path);
    let shard = split_model(folder.path(), &path);
    let (one, set) = (hashes(&path, 1), hashes(&shard, 4));
    assert_eq!(one.data, set.data);
    assert_eq!((one.files.len(), set.files.len()), (1, 6));
    for (one, set) in one.tensors.iter().zip(&set.tensors) {
        assert_eq!((&one.name, &one.hashes), (&set.name, &set.hashes));
    }
    assert!(set.files.iter().all(|file| file.sha256.is_some()));
    let found = compare(&path, &shard);
    assert!(found.is_equal(), "{found:?}");
    assert_eq!((found.n_equal_entries, found.n_equal_tensors), (4, 40));
    // A big-endian file is the same model, too.
    let big = folder.path().join("big.gguf");
    let options = EndianOptions {
        input: path.clone(),
        output: big.clone(),
        to: Endian::Big,
        dry_run: false,
        force: false,
    };
    convert_endian(&options, &mut |_| {}).unwrap();
    assert!(compare(&big, &shard).is_equal());
}

#[test]
fn every_kind_of_difference_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let (a, b) = (folder.path().join("a.gguf"), folder.path().join("b.gguf"));
    let values: Vec<f32> = (0..64).map(|n| n as f32).collect();
    let mut other = values.clone();
    other[33] = 35.5;
    other[40] = 39.0;
    other[41] = f32::NAN;
    let half: Vec<u8> = values.iter().flat_map(|&value| half(value)).collect();
    write(
        &a,
        &base(),
        &[
            ("same", &[64], F32, f32s(&values)),
            ("values", &[16, 4], F32, f32s(&values)),
            ("type", &[64], F32, f32s(&values)),
            ("shape", &[64], F32, f32s(&values)),
            ("gone", &[64], F32, f32s(&values)),
        ],
    );
    let changed = metadata(&[
        ("general.architecture", "llama".into()),
        ("n", 1u64.into()),
        ("general.name", "Two".into()),
        ("ids", vec![1i32, 5, 3, 4].into()),
        ("new", true.into()),
    ]);
    write(
        &b,
        &changed,
        &[
            ("same", &[64], F32, f32s(&values)),
            ("values", &[16, 4], F32, f32s(&other)),
            ("shape", &[32, 2], F32, f32s(&values)),
            ("type", &[64], F16, half),
            ("new", &[64], F32, f32s(&values)),
        ],
    );
    let found = compare(&a, &b);
    assert!(!found.is_equal());
    let keys: Vec<&str> = found
        .entries
        .iter()
        .map(|entry| entry.key.as_str())
        .collect();
    assert_eq!(keys, ["general.name", "n", "ids", "new"]);
    assert!(matches!(
        &found.entries[1].change,
        EntryChange::Changed {
            a: Value::U32(1),
            b: Value::U64(1)
        }
    ));
    let EntryChange::Array(array) = &found.entries[2].change else {
        panic!("{:?}", found.entries[2]);
    };
    assert_eq!(
        (array.len_a, array.len_b, array.first, array.n_different),
        (3, 4, 1, 2)
    );
    assert_eq!(array.b, Some(Value::I32(5)));
    assert!(matches!(
        &found.entries[3].change,
        EntryChange::Added(Value::Bool(true))
    ));
    let order = |index, a: &str, b: &str| {
        Some(OrderDiff {
            index,
            a: a.to_owned(),
            b: b.to_owned(),
        })
    };
    assert_eq!(found.entry_order, order(1, "general.name", "n"));
    assert_eq!(found.tensor_order, order(2, "type", "shape"));
    let names: Vec<&str> = found
        .tensors
        .iter()
        .map(|tensor| tensor.name.as_str())
        .collect();
    assert_eq!(names, ["values", "type", "shape", "gone", "new"]);
    assert_eq!(found.n_equal_tensors, 1);
    let data = |index: usize| match &found.tensors[index].change {
        TensorChange::Changed { data, .. } => data.clone(),
        other => panic!("{other:?}"),
    };
    let values = data(0).unwrap().values.unwrap();
    let largest = values.largest.unwrap();
    assert_eq!((largest.difference(), largest.index), (2.5, 33));
    assert_eq!(largest.place, [1, 2]);
    assert_eq!(
        (largest.a, largest.b),
        (Number::Float(33.0), Number::Float(35.5))
    );
    assert_eq!((values.n_different, values.n_not_finite), (3, 1));
    // Another type with the same values, and another shape, of which the content is not compared.
    let types = data(1).unwrap();
    assert_eq!(
        (types.n_bytes, types.values.unwrap().n_different),
        (None, 0)
    );
    assert_eq!(data(2), None);
    assert!(matches!(found.tensors[3].change, TensorChange::Removed(_)));
    assert!(matches!(found.tensors[4].change, TensorChange::Added(_)));
}

/// A small whole number as f16.
fn half(value: f32) -> [u8; 2] {
    let mut out = [0; 2];
    F16.encode(&[value], 1, None, &mut out).unwrap();
    out
}

#[test]
fn integers_are_compared_as_integers() {
    let folder = tempfile::tempdir().unwrap();
    let (a, b) = (folder.path().join("a.gguf"), folder.path().join("b.gguf"));
    let (before, after) = (1i64 << 60, (1i64 << 60) + 1);
    for (path, value) in [(&a, before), (&b, after)] {
        let bytes = value.to_le_bytes().to_vec();
        write(path, &base(), &[("w", &[1], gristmill_quant::I64, bytes)]);
    }
    let options = DiffOptions {
        a,
        b,
        metadata_only: false,
        n_threads: 1,
    };
    let found = diff(&options, &mut |_| {}).unwrap();
    let TensorChange::Changed {
        data: Some(data), ..
    } = &found.tensors[0].change
    else {
        panic!("{found:?}");
    };
    let largest = data.values.as_ref().unwrap().largest.as_ref().unwrap();
    assert_eq!(
        (largest.difference(), largest.a, largest.b),
        (1.0, Number::Integer(before), Number::Integer(after))
    );
}

#[test]
fn differences_do_not_depend_on_threads() {
    let folder = tempfile::tempdir().unwrap();
    let (a, b) = (folder.path().join("a.gguf"), folder.path().join("b.gguf"));
    // More than one job: 2.5 million elements.
    let values = vec![1.0f32; 2_500_000];
    let mut other = values.clone();
    for place in [5usize, 1_500_000, 2_400_000] {
        other[place] = 3.0;
    }
    let dims = [2_500_000u64];
    write(&a, &base(), &[("w", &dims, F32, f32s(&values))]);
    write(&b, &base(), &[("w", &dims, F32, f32s(&other))]);
    for n_threads in [1, 3] {
        let options = DiffOptions {
            a: a.clone(),
            b: b.clone(),
            metadata_only: false,
            n_threads,
        };
        let found = diff(&options, &mut |_| {}).unwrap();
        let TensorChange::Changed {
            data: Some(data), ..
        } = &found.tensors[0].change
        else {
            panic!("{found:?}");
        };
        let values = data.values.as_ref().unwrap();
        let largest = values.largest.as_ref().unwrap();
        assert_eq!(
            (largest.difference(), largest.index, values.n_different),
            (2.0, 5, 3)
        );
        // 1.0 and 3.0 differ in two bytes.
        assert_eq!(data.n_bytes, Some(6));
    }
    let options = DiffOptions {
        a,
        b,
        metadata_only: true,
        n_threads: 1,
    };
    assert!(diff(&options, &mut |_| {}).unwrap().is_equal());
}
