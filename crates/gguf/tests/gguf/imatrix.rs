//! Importance matrices: both forms, read and written; bytes that no collector writes.

use std::path::Path;

use gristmill_gguf::{
    Array, Error, Imatrix, ImatrixEntry, ImatrixForm, LegacyLoss, Metadata, StringArray,
    TensorPlan, WriteOptions, Writer,
};
use gristmill_quant::{F16, F32, TensorType};

fn entry(sums: &[f32], counts: &[f32]) -> ImatrixEntry {
    ImatrixEntry::new(sums.to_vec(), counts.to_vec(), None).expect("they belong together")
}

/// A matrix, and three experts of which one saw nothing.
fn example() -> Imatrix {
    let mut imatrix = Imatrix::default();
    imatrix.datasets.push("wiki.txt".to_owned());
    (imatrix.n_chunks, imatrix.chunk_size) = (7, 4);
    imatrix.insert("blk.0.attn_q.weight", entry(&[2.0, 8.0], &[4.0]));
    imatrix.insert(
        "blk.0.ffn_up_exps.weight",
        entry(&[3.0, 6.0, 0.0, 0.0, 5.0, 10.0], &[3.0, 0.0, 5.0]),
    );
    imatrix
}

#[test]
fn weights_are_mean_squares_and_one_where_nothing_was_seen() {
    let imatrix = example();
    let weights = |name| imatrix.get(name).expect("it is there").weights();
    assert_eq!(weights("blk.0.attn_q.weight"), [0.5, 2.0]);
    assert_eq!(
        weights("blk.0.ffn_up_exps.weight"),
        [1.0, 2.0, 1.0, 1.0, 1.0, 2.0]
    );
    assert_eq!(
        imatrix
            .get("blk.0.ffn_up_exps.weight")
            .map(ImatrixEntry::n_unseen),
        Some(1)
    );
}

/// B90: both forms, both directions; the first bytes decide, not the name; what is lost is said.
#[test]
fn case_b90_both_forms() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let options = WriteOptions::default();
    let (gguf, dat) = (folder.path().join("a.dat"), folder.path().join("a.gguf"));
    let imatrix = example();
    let lost = imatrix
        .save(&gguf, ImatrixForm::Gguf, &options)
        .expect("it is writable");
    assert_eq!(lost, LegacyLoss::default());
    assert_eq!(Imatrix::open(&gguf).expect("it was just written"), imatrix);

    let lost = imatrix
        .save(&dat, ImatrixForm::Legacy, &options)
        .expect("it is writable");
    assert_eq!(lost.flattened, ["blk.0.ffn_up_exps.weight"]);
    assert!(lost.left_out.is_empty());
    let read = Imatrix::open(&dat).expect("it was just written");
    assert_eq!(
        (&*read.datasets, read.n_chunks),
        (&["wiki.txt".to_owned()][..], 7)
    );
    for (name, entry) in imatrix.iter() {
        let read = read.get(name).expect("it was kept");
        assert_eq!(read.weights(), entry.weights(), "{name}");
        assert_eq!(read.counts().len(), 1, "{name}");
    }
    // Back again: counts of chunks become counts of rows.
    let back = folder.path().join("back.gguf");
    read.save(&back, ImatrixForm::Gguf, &options)
        .expect("it is writable");
    let back = Imatrix::open(&back).expect("it was just written");
    assert_eq!(back.chunk_size, 512);
    for (name, entry) in imatrix.iter() {
        assert_eq!(
            back.get(name).expect("it was kept").weights(),
            entry.weights(),
            "{name}"
        );
    }
}

#[test]
fn what_saw_nothing_is_left_out_of_the_older_form() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let mut imatrix = example();
    imatrix.insert("blk.1.attn_q.weight", entry(&[0.0, 0.0], &[0.0]));
    let path = folder.path().join("a.dat");
    let lost = imatrix.save(&path, ImatrixForm::Legacy, &WriteOptions::default());
    assert_eq!(
        lost.expect("it is writable").left_out,
        ["blk.1.attn_q.weight"]
    );
    assert_eq!(Imatrix::open(&path).expect("it was just written").len(), 2);
}

/// B37: what is no number, no sum of squares, or of the wrong shape.
#[test]
fn case_b37_sums_that_cannot_be() {
    let refused = |sums: &[f32], counts: &[f32]| {
        ImatrixEntry::new(sums.to_vec(), counts.to_vec(), None).expect_err("it cannot be")
    };
    assert_eq!(
        refused(&[1.0, f32::NAN], &[1.0]),
        "the sum of squares of column 1 is NaN"
    );
    assert_eq!(
        refused(&[1.0, 1.0, 1.0, f32::INFINITY], &[1.0, 1.0]),
        "the sum of squares of column 1 of matrix 1 is inf"
    );
    assert_eq!(
        refused(&[-1.0], &[1.0]),
        "the sum of squares of column 0 is -1"
    );
    assert_eq!(refused(&[1.0], &[f32::NAN]), "the count of matrix 0 is NaN");
    assert_eq!(
        refused(&[1.0, 2.0, 3.0], &[1.0, 1.0]),
        "3 sums do not divide among 2 counts"
    );
    assert_eq!(refused(&[], &[]), "0 sums do not divide among 0 counts");
}

/// A GGUF file of tensors with the metadata of an importance matrix.
fn write(path: &Path, tensors: &[(&str, &[u64], TensorType)], metadata: &Metadata) {
    let plans: Vec<TensorPlan> = tensors
        .iter()
        .map(|(name, dims, ty)| TensorPlan {
            name: (*name).to_owned(),
            dims: dims.to_vec(),
            ty: *ty,
        })
        .collect();
    let mut writer = Writer::create(path, metadata, &plans, &WriteOptions::default())
        .expect("the folder is writable");
    while let Some((_, bytes)) = writer.next_tensor() {
        writer
            .write(&vec![0; bytes as usize])
            .expect("it is its turn");
    }
    writer.finish().expect("the disk has room");
}

fn described() -> Metadata {
    let mut metadata = Metadata::new();
    metadata.set("general.type", "imatrix");
    metadata.set("imatrix.datasets", Array::String(StringArray::new()));
    metadata.set("imatrix.chunk_count", 1u32);
    metadata.set("imatrix.chunk_size", 512u32);
    metadata
}

#[test]
fn containers_that_do_not_hold_what_they_should() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let refused = |name: &str, tensors: &[(&str, &[u64], TensorType)], metadata: &Metadata| {
        let path = folder.path().join(name);
        write(&path, tensors, metadata);
        let error = Imatrix::open(&path).expect_err("it is incomplete");
        assert!(error.hint().is_some(), "{error}");
        error
            .to_string()
            .replace(&*folder.path().to_string_lossy(), "")
    };
    let good: (&str, &[u64], TensorType) = ("x.in_sum2", &[4, 1], F32);
    assert_eq!(
        refused("a", &[good], &described()),
        "/a: the importance data of tensor \"x\" cannot be used: there is no .counts"
    );
    assert_eq!(
        refused("b", &[good, ("x.counts", &[1, 2], F32)], &described()),
        "/b: the importance data of tensor \"x\" cannot be used: x.in_sum2 has shape [4, 1], and there are 2 counts"
    );
    assert_eq!(
        refused("c", &[good, ("x.counts", &[1, 1], F16)], &described()),
        "/c: the importance data of tensor \"x\" cannot be used: x.counts has type f16, not f32"
    );
    assert_eq!(
        refused("d", &[("y.stats", &[12], F32)], &described()),
        "/d: not an importance matrix: it holds no sums"
    );
    let mut bare = described();
    bare.remove("imatrix.chunk_size");
    assert_eq!(
        refused("e", &[good], &bare),
        "/e: not an importance matrix: it is an importance matrix (imatrix) and has no imatrix.chunk_size"
    );
    let mut model = Metadata::new();
    model.set("general.architecture", "llama");
    assert_eq!(
        refused("f", &[good], &model),
        "/f: not an importance matrix: it is a model and has no imatrix.datasets"
    );
}

/// The older form of one entry.
fn legacy(n_entries: i32, name: &[u8], n_calls: i32, n_values: i32, values: &[f32]) -> Vec<u8> {
    let mut bytes = n_entries.to_le_bytes().to_vec();
    bytes.extend((name.len() as i32).to_le_bytes());
    bytes.extend(name);
    bytes.extend(n_calls.to_le_bytes());
    bytes.extend(n_values.to_le_bytes());
    bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    bytes
}

#[test]
fn the_older_form_without_its_end() {
    let parse = |bytes: &[u8]| Imatrix::from_legacy_bytes(bytes, Path::new("a.dat"));
    let mut bytes = legacy(1, b"x", 2, 2, &[4.0, 6.0]);
    let imatrix = parse(&bytes).expect("the end is optional");
    assert_eq!(imatrix.get("x").expect("it is there").weights(), [2.0, 3.0]);
    assert_eq!((imatrix.n_chunks, imatrix.chunk_size), (0, 0));
    // Without calls, values stand for themselves.
    let uncalled = parse(&legacy(1, b"x", 0, 2, &[4.0, 6.0])).expect("it is whole");
    assert_eq!(
        uncalled.get("x").expect("it is there").weights(),
        [4.0, 6.0]
    );
    bytes.extend(9i32.to_le_bytes());
    assert_eq!(parse(&bytes).expect("a count may stand alone").n_chunks, 9);
    bytes.extend(3i32.to_le_bytes());
    bytes.extend(b"abc");
    assert_eq!(parse(&bytes).expect("it is whole").datasets, ["abc"]);
}

#[test]
fn the_older_form_of_hostile_bytes() {
    let refused = |bytes: &[u8]| {
        Imatrix::from_legacy_bytes(bytes, Path::new("a.dat")).expect_err("it is hostile")
    };
    for (bytes, expected) in [
        (
            legacy(i32::MAX, b"x", 1, 1, &[1.0]),
            "announce 2147483647 entries",
        ),
        (
            legacy(-1, b"x", 1, 1, &[1.0]),
            "the number of entries at byte 0 is -1",
        ),
        (legacy(0, b"x", 1, 1, &[1.0]), "it has no entries"),
        (
            legacy(1, b"x", 1, i32::MAX, &[1.0]),
            "the 2147483647 values of \"x\"",
        ),
        (
            legacy(1, b"x", 1, -4, &[1.0]),
            "the number of values of entry 0 at byte 13 is -4",
        ),
        (legacy(1, b"", 1, 1, &[1.0]), "entry 0 has no readable name"),
        (
            legacy(1, b"\xff", 1, 1, &[1.0]),
            "entry 0 has no readable name",
        ),
        (
            legacy(1, b"x", 1, 1, &[f32::NAN]),
            "the sum of squares of column 0 is NaN",
        ),
        (
            b"PK\x03\x04 and more bytes of an archive".to_vec(),
            "not an importance matrix",
        ),
    ] {
        let error = refused(&bytes).to_string();
        assert!(error.contains(expected), "{error}");
    }
    let twice = {
        let one = legacy(2, b"x", 1, 1, &[1.0]);
        [&one[..], &one[4..]].concat()
    };
    assert!(matches!(refused(&twice), Error::BadImatrix { tensor, .. } if tensor == "x"));
    assert!(matches!(refused(b"{\"a\": 1}"), Error::NotImatrix { .. }));
    // Cut anywhere, it is an error or a whole matrix, and never more than that.
    let whole = [
        legacy(1, b"blk.0.attn_q.weight", 2, 3, &[1.0; 3]),
        vec![1, 0, 0, 0, 2, 0, 0, 0, b'a', b'b'],
    ]
    .concat();
    for length in 0..whole.len() {
        drop(Imatrix::from_legacy_bytes(
            &whole[..length],
            Path::new("a.dat"),
        ));
    }
}

#[test]
fn the_golden_matrix_is_read_and_written_as_it_is() {
    let Some(folder) = gristmill_golden::folder("convert/llama/quantize") else {
        return;
    };
    let imatrix = Imatrix::open(&folder.join("llama.imatrix.gguf")).expect("it is sound");
    assert_eq!((imatrix.len(), imatrix.n_chunks), (15, 10));
    assert_eq!(imatrix.datasets, ["synthetic"]);
    let temporary = tempfile::tempdir().expect("a temporary folder can be made");
    for form in [ImatrixForm::Gguf, ImatrixForm::Legacy] {
        let path = temporary.path().join(format!("{form:?}"));
        imatrix
            .save(&path, form, &WriteOptions::default())
            .expect("it is writable");
        let read = Imatrix::open(&path).expect("it was just written");
        for (name, entry) in imatrix.iter() {
            let (weights, expected) = (
                read.get(name).expect("it is there").weights(),
                entry.weights(),
            );
            for (weight, expected) in weights.iter().zip(&expected) {
                // The older form rounds twice.
                assert!((weight - expected).abs() <= expected * 3e-7, "{name}");
            }
        }
    }
    gristmill_golden::compared(2 * imatrix.len(), "entries of importance matrices");
}

/// Written as rows or as calls, they would become infinite, and nobody could read the file.
#[test]
fn sums_that_no_number_can_hold_are_refused_when_written() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let mut imatrix = Imatrix::default();
    imatrix.insert("blk.0.attn_q.weight", entry(&[f32::MAX], &[1.0]));
    let uneven = entry(&[f32::MAX, 1.0], &[1.0, 3.0]);
    let mut flattened = Imatrix::default();
    (flattened.n_chunks, flattened.chunk_size) = (1, 1);
    flattened.insert("blk.0.ffn_up_exps.weight", uneven);
    for (imatrix, form) in [
        (imatrix, ImatrixForm::Gguf),
        (flattened, ImatrixForm::Legacy),
    ] {
        let path = folder.path().join("out");
        let error = imatrix.save(&path, form, &WriteOptions::default());
        assert!(matches!(error, Err(Error::BadImatrix { .. })), "{error:?}");
        assert!(!path.exists());
    }
}

/// A path with nothing at it is told as one of an importance matrix, and a count that is some but rounds to none is damage.
#[test]
fn what_is_not_there_and_counts_of_nearly_nothing() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let absent = Imatrix::open(&folder.path().join("absent.dat"));
    assert!(matches!(absent, Err(Error::NoImatrix { .. })));
    for (count, is_sound) in [(0.0, true), (1e-8, false), (0.6, true), (3.0, true)] {
        let entry = ImatrixEntry::new(vec![1.0; 4], vec![count], None);
        assert_eq!(entry.is_ok(), is_sound, "{count}");
    }
}
