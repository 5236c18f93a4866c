//! B19: byte order is converted there and back, for every tensor type and every kind of entry.

use std::path::Path;

use gristmill_gguf::{
    Array, Endian, EndianOptions, Error, File, Metadata, StringArray, TensorPlan, Text, Value,
    WriteOptions, Writer, convert_endian,
};
use gristmill_quant::TensorType;

/// A file with every type of value and every type of tensor.
fn everything(path: &Path) {
    let mut metadata = Metadata::new();
    let values: Vec<(&str, Value)> = vec![
        ("u8", 200u8.into()),
        ("i8", (-3i8).into()),
        ("u16", 0x0102u16.into()),
        ("i16", (-300i16).into()),
        ("u32", 0x0102_0304u32.into()),
        ("i32", (-70_000i32).into()),
        ("f32", f32::from_bits(0x7fa0_0001).into()),
        ("u64", 0x0102_0304_0506_0708u64.into()),
        ("i64", i64::MIN.into()),
        ("f64", 0.1f64.into()),
        ("bool", true.into()),
        (
            "string",
            Value::String(Text::from_bytes(vec![0xa1, 0, b'x'])),
        ),
        ("u8s", vec![1u8, 2].into()),
        ("i8s", vec![-1i8].into()),
        ("u16s", vec![1u16, 0x0203].into()),
        ("i16s", vec![-2i16].into()),
        ("u32s", vec![1u32, 2].into()),
        ("i32s", vec![-1i32, 7].into()),
        ("f32s", vec![1.5f32, -0.0].into()),
        ("u64s", vec![1u64].into()),
        ("i64s", vec![-1i64].into()),
        ("f64s", vec![1e300f64].into()),
        ("bools", vec![true, false].into()),
        ("empty", Value::Array(Array::String(StringArray::new()))),
        ("strings", vec!["a".to_owned(), String::new()].into()),
    ];
    for (key, value) in values {
        metadata.set(key, value);
    }
    let plan: Vec<TensorPlan> = TensorType::all()
        .map(|ty| TensorPlan {
            name: ty.name().to_owned(),
            dims: vec![ty.block_len() as u64, 3],
            ty,
        })
        .collect();
    let mut writer = Writer::create(path, &metadata, &plan, &WriteOptions::default()).unwrap();
    let mut state = 1u32;
    while let Some((_, left)) = writer.next_tensor() {
        let data: Vec<u8> = (0..left)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 24) as u8
            })
            .collect();
        writer.write(&data).unwrap();
    }
    writer.finish().unwrap();
}

fn turn(input: &Path, output: &Path, to: Endian) -> Result<(), Error> {
    let options = EndianOptions {
        input: input.to_owned(),
        output: output.to_owned(),
        to,
        dry_run: false,
        force: false,
    };
    convert_endian(&options, &mut |_| {}).map(|report| assert!(report.n_entries > 0))
}

#[test]
fn b19_there_and_back_is_the_same_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    everything(&path("little.gguf"));
    turn(&path("little.gguf"), &path("big.gguf"), Endian::Big).unwrap();
    turn(&path("big.gguf"), &path("back.gguf"), Endian::Little).unwrap();
    let read = |name: &str| std::fs::read(path(name)).unwrap();
    assert_eq!(read("back.gguf"), read("little.gguf"));
    assert_ne!(read("big.gguf"), read("little.gguf"));
    assert_eq!(read("big.gguf")[..8], *b"GGUF\0\0\0\x03");
    // The big-endian file means the same, by the reader's own turning.
    let (little, big) = (
        File::open(&path("little.gguf")).unwrap(),
        File::open(&path("big.gguf")).unwrap(),
    );
    assert_eq!(big.endian(), Endian::Big);
    assert_eq!(big.tensors(), little.tensors());
    for (key, value) in little.metadata().iter().filter(|(key, _)| *key != "f32") {
        assert_eq!(big.metadata().get(key), Some(value), "{key}");
    }
    for tensor in little.tensors() {
        assert_eq!(big.data(tensor), little.data(tensor), "{}", tensor.name);
    }
}

#[test]
fn b19_any_layout_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    // Version 2, tensors out of order, a gap that is not zero, bytes behind the end.
    let mut data = vec![9; 64];
    data.extend([1; 100]);
    let mut file = crate::bytes::Bytes::new()
        .entry_u32("n", 7)
        .tensor("a", &[8], 0, 96)
        .tensor("b", &[4], 0, 0)
        .data(&data);
    file.version = 2;
    std::fs::write(path("odd.gguf"), file.build()).unwrap();
    turn(&path("odd.gguf"), &path("big.gguf"), Endian::Big).unwrap();
    turn(&path("big.gguf"), &path("back.gguf"), Endian::Little).unwrap();
    assert_eq!(
        std::fs::read(path("back.gguf")).unwrap(),
        std::fs::read(path("odd.gguf")).unwrap()
    );
}

#[test]
fn what_cannot_be_turned_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    everything(&path("little.gguf"));
    let error = turn(&path("little.gguf"), &path("out.gguf"), Endian::Little).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "{}: is little-endian already",
            path("little.gguf").display()
        )
    );
    assert!(error.hint().is_some());
    let error = turn(&path("little.gguf"), &path("little.gguf"), Endian::Big).unwrap_err();
    assert!(matches!(error, Error::OutputIsInput { .. }), "{error}");
    assert!(!path("out.gguf").exists());
}

#[test]
fn b19_the_types_of_the_reference_are_turned_as_it_turns_them() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/byte_order");
    let folder = tempfile::tempdir().unwrap();
    for (from, to, endian) in [
        ("little.bin", "big.bin", Endian::Big),
        ("big.bin", "little.bin", Endian::Little),
    ] {
        let output = folder.path().join(to);
        turn(&fixtures.join(from), &output, endian).unwrap();
        let expected = std::fs::read(fixtures.join(to)).unwrap();
        assert!(std::fs::read(&output).unwrap() == expected, "{from}");
    }
}
