//! Changing metadata: what changes, what stays, and how it gets into the file.

use std::fs;
use std::path::{Path, PathBuf};

use gristmill_gguf::edit::{Change, Edit, EditOptions, Editor, Outcome, Plan, RESERVED_KEY, Way};
use gristmill_gguf::{
    Array, Endian, Error, File, Metadata, TensorPlan, Value, WriteOptions, Writer,
};

use crate::bytes::{Bytes, F32, sample};
use crate::small_disk::SmallDisk;

fn set(key: &str, value: impl Into<Value>) -> Edit {
    Edit::Set {
        key: key.to_owned(),
        value: value.into(),
    }
}

fn remove(key: &str) -> Edit {
    Edit::Remove {
        key: key.to_owned(),
    }
}

fn rename(from: &str, to: &str) -> Edit {
    Edit::Rename {
        from: from.to_owned(),
        to: to.to_owned(),
    }
}

fn plan_with(path: &Path, edits: &[Edit], options: &EditOptions) -> Result<Plan, Error> {
    Editor::open(path)?.plan(edits, options)
}

fn plan(path: &Path, edits: &[Edit]) -> Result<Plan, Error> {
    plan_with(path, edits, &EditOptions::default())
}

/// Plans and applies; what was planned must be what happened.
fn edit_with(path: &Path, edits: &[Edit], options: &EditOptions) -> (Way, Outcome) {
    let plan = plan_with(path, edits, options).unwrap();
    let mut progress = 0;
    let outcome = plan.apply(&mut |bytes| progress += bytes).unwrap();
    assert_eq!(outcome.bytes_written, plan.bytes_to_write());
    if matches!(plan.way(), Way::Rewrite { .. }) {
        assert_eq!(progress, plan.file_bytes().1);
    }
    assert_eq!(
        fs::metadata(&outcome.path).unwrap().len(),
        plan.file_bytes().1
    );
    (plan.way().clone(), outcome)
}

fn edit(path: &Path, edits: &[Edit]) -> Way {
    edit_with(path, edits, &EditOptions::default()).0
}

fn is_rewrite(way: &Way) -> bool {
    matches!(way, Way::Rewrite { .. })
}

fn force() -> EditOptions {
    EditOptions {
        force: true,
        ..EditOptions::default()
    }
}

struct Place {
    folder: tempfile::TempDir,
    path: PathBuf,
}

fn place(bytes: &[u8]) -> Place {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    fs::write(&path, bytes).unwrap();
    Place { folder, path }
}

impl Place {
    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

/// The bytes of every entry with its key, found with nothing but the format's rules.
fn raw_entries(bytes: &[u8]) -> Vec<(String, Vec<u8>)> {
    let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize;
    let scalar = |ty: u32| [1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8][ty as usize];
    let ty = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let mut at = 24;
    let mut entries = Vec::new();
    for _ in 0..number(16) {
        let start = at;
        let key = String::from_utf8(bytes[at + 8..at + 8 + number(at)].to_vec()).unwrap();
        at += 8 + key.len();
        let kind = ty(at);
        at += 4;
        match kind {
            8 => at += 8 + number(at),
            9 => {
                let (element, count) = (ty(at), number(at + 4));
                at += 12;
                for _ in 0..count {
                    at += if element == 8 {
                        8 + number(at)
                    } else {
                        scalar(element)
                    };
                }
            }
            kind => at += scalar(kind),
        }
        entries.push((key, bytes[start..at].to_vec()));
    }
    entries
}

/// That all entries but those of `edited` have the bytes and the order that they had, and that the
/// data section is the same.
fn untouched(before: &[u8], after: &[u8], edited: &[&str]) {
    let rest = |bytes| {
        let mut entries = raw_entries(bytes);
        entries.retain(|(key, _)| !edited.contains(&key.as_str()) && key != RESERVED_KEY);
        entries
    };
    assert_eq!(rest(before), rest(after));
    let data = |bytes: &[u8]| {
        let start = crate::bytes::open(bytes).unwrap().data_offset();
        bytes[start as usize..].to_vec()
    };
    assert_eq!(data(before), data(after));
}

#[test]
fn b12_an_edit_keeps_every_other_entry_byte_for_byte() {
    // A name that needs another length moves everything behind it.
    let before = sample().entry_string("general.name", b"short").build();
    for name in [
        "short!",
        "s",
        "",
        &"a name that is longer than any padding ".repeat(9),
    ] {
        let place = place(&before);
        edit(&place.path, &[set("general.name", name)]);
        let after = fs::read(&place.path).unwrap();
        untouched(&before, &after, &["general.name"]);
        let file = File::open(&place.path).unwrap();
        assert_eq!(file.metadata().str("general.name").unwrap(), Some(name));
        assert_eq!(place.names(), ["model.gguf"]);
    }
}

#[test]
fn b13_bytes_that_are_no_text_survive_an_edit() {
    let tokens = Bytes::new();
    let tokens = [tokens.string(b"\xa1"), tokens.string("\u{2581}".as_bytes())].concat();
    let before = Bytes::new()
        .entry_string("general.name", b"x\xff")
        .entry_array("tokenizer.ggml.tokens", 8, 2, &tokens)
        .entry_string("tokenizer.chat_template", "\u{2581}{{ x }}".as_bytes())
        .tensor("w", &[8], F32, 0)
        .data(&[3; 32])
        .build();
    let place = place(&before);
    edit(
        &place.path,
        &[
            set("general.author", "somebody"),
            rename("general.name", "general.title"),
        ],
    );
    let after = fs::read(&place.path).unwrap();
    untouched(
        &before,
        &after,
        &["general.name", "general.title", "general.author"],
    );
    let entries = raw_entries(&after);
    assert_eq!(entries[0].0, "general.title");
    assert!(entries[0].1.ends_with(b"x\xff"));
}

#[test]
fn b20_a_string_of_any_length_is_set_in_place_where_it_fits_and_else_by_a_new_file() {
    let before = sample().entry_string("general.name", b"n").build();
    let room = before.len() - 128 - sample().entry_string("general.name", b"n").head().len();
    for length in [0, 1, room, room + 1, room + 2, 100, 10_000, 1 << 20] {
        let place = place(&before);
        let name = "n".repeat(length);
        let way = edit(&place.path, &[set("general.name", name.as_str())]);
        match length {
            1 => assert_eq!(way, Way::Unchanged),
            _ if length <= room + 1 => assert_eq!(way, Way::InPlace, "{length}"),
            _ => assert!(is_rewrite(&way), "{length}"),
        }
        let file = File::open(&place.path).unwrap();
        assert_eq!(
            file.metadata().str("general.name").unwrap(),
            Some(name.as_str())
        );
        untouched(&before, &fs::read(&place.path).unwrap(), &["general.name"]);
    }
}

#[test]
fn a_reserve_is_used_up_and_filled_again_while_the_data_stays() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    let mut metadata = Metadata::new();
    metadata.set("general.name", "n");
    let options = WriteOptions {
        reserve: 1000,
        ..WriteOptions::default()
    };
    let tensor = TensorPlan {
        name: "w".to_owned(),
        dims: vec![16],
        ty: gristmill_quant::F32,
    };
    let mut writer = Writer::create(&path, &metadata, &[tensor], &options).unwrap();
    writer.write_tensor("w", &[9; 64]).unwrap();
    let size = writer.size();
    writer.finish().unwrap();
    assert_eq!(fs::metadata(&path).unwrap().len(), size);
    let start = File::open(&path).unwrap().data_offset();

    for length in [1, 900, 17, 1000, 1030, 0, 1] {
        let way = edit(&path, &[set("general.name", "n".repeat(length))]);
        let file = File::open(&path).unwrap();
        assert!(!is_rewrite(&way), "{length}: {way:?}");
        assert_eq!((file.data_offset(), file.size()), (start, size));
        assert_eq!(file.data(file.tensor("w").unwrap()), [9; 64]);
    }
    // One reserve, which takes all that is free.
    let plan_of = |n: usize| plan(&path, &[set("general.name", "n".repeat(n))]).unwrap();
    let room = plan_of(2).room() as usize;
    assert_eq!(*plan_of(2 + room).way(), Way::InPlace);
    assert_eq!(plan_of(2 + room).room(), 0);
    let way = plan_of(2 + room + 38 + 32).way().clone();
    assert!(is_rewrite(&way), "{way:?}");

    // Without a reserve, an edit that frees more than the padding leaves one.
    let place = place(&sample().entry_string("x.long", &[b'x'; 5000]).build());
    assert_eq!(edit(&place.path, &[remove("x.long")]), Way::InPlace);
    assert!(plan(&place.path, &[set("x", 1u8)]).unwrap().room() > 4900);
    assert_eq!(
        edit(&place.path, &[set("x.new", "y".repeat(4900))]),
        Way::InPlace
    );
}

#[test]
fn the_reserve_can_be_asked_for_and_be_removed() {
    let place = place(&sample().build());
    let reserve = |n| EditOptions {
        reserve: Some(n),
        ..EditOptions::default()
    };
    let room = || {
        let file = File::open(&place.path).unwrap();
        file.metadata()
            .text(RESERVED_KEY)
            .unwrap()
            .map(|text| text.len())
    };
    assert!(is_rewrite(&edit_with(&place.path, &[], &reserve(4096)).0));
    assert_eq!(room(), Some(4096));
    assert_eq!(
        edit_with(&place.path, &[], &reserve(4096)).0,
        Way::Unchanged
    );
    assert_eq!(
        edit(&place.path, &[set("x.long", "y".repeat(3000))]),
        Way::InPlace
    );
    // A rewrite keeps what is left, or brings it back to what is asked for.
    let (way, _) = edit_with(&place.path, &[set("x.more", "z")], &reserve(4096));
    assert!(is_rewrite(&way));
    assert_eq!(room(), Some(4096));
    assert!(is_rewrite(&edit(
        &place.path,
        &[set("x.long", "y".repeat(9000))]
    )));
    assert_eq!(room(), Some(4096));
    let error = plan(&place.path, &[set(RESERVED_KEY, "mine")])
        .unwrap_err()
        .to_string();
    assert!(error.contains("--reserve"), "{error}");
    assert!(is_rewrite(&edit(&place.path, &[remove(RESERVED_KEY)])));
    assert_eq!(room(), None);
    let error = plan_with(&place.path, &[], &reserve(1 << 40))
        .unwrap_err()
        .to_string();
    assert!(error.contains("a string has 268435456 at most"), "{error}");
}

#[test]
fn every_type_can_be_set_added_renamed_and_removed() {
    let place = place(&sample().build());
    let values: Vec<Value> = vec![
        1u8.into(),
        (-1i8).into(),
        2u16.into(),
        (-2i16).into(),
        3u32.into(),
        (-3i32).into(),
        4u64.into(),
        (-4i64).into(),
        0.5f32.into(),
        0.25f64.into(),
        true.into(),
        "text".into(),
        vec![1u8, 2].into(),
        vec![1.5f32].into(),
        vec![true, false].into(),
        vec!["a".to_owned(), String::new()].into(),
        Array::String(Default::default()).into(),
    ];
    let adds: Vec<Edit> = values
        .iter()
        .enumerate()
        .map(|(n, value)| Edit::Add {
            key: format!("x.{n}"),
            value: value.clone(),
        })
        .collect();
    edit(&place.path, &adds);
    let file = File::open(&place.path).unwrap();
    let added: Vec<Value> = file
        .metadata()
        .iter()
        .skip(25)
        .map(|(_, value)| value.clone())
        .collect();
    assert_eq!(added[..values.len()], values[..]);
    let plan = plan(
        &place.path,
        &[
            remove("x.0"),
            rename("x.1", "y.1"),
            set("x.4", 30u32),
            set("x.5", -3i32),
        ],
    )
    .unwrap();
    let change =
        |key: &str, before: Option<Value>, after: Option<Value>, from: Option<&str>| Change {
            key: key.to_owned(),
            before,
            after,
            renamed_from: from.map(str::to_owned),
        };
    assert_eq!(
        plan.changes(),
        [
            change("x.0", Some(1u8.into()), None, None),
            change("y.1", Some((-1i8).into()), Some((-1i8).into()), Some("x.1")),
            change("x.4", Some(3u32.into()), Some(30u32.into()), None),
        ]
    );
    plan.apply(&mut |_| ()).unwrap();
    let file = File::open(&place.path).unwrap();
    assert!(!file.metadata().contains("x.0") && file.metadata().contains("y.1"));
}

#[test]
fn edits_that_cannot_be_made() {
    let place = place(&sample().build());
    let before = fs::read(&place.path).unwrap();
    let add = |key: &str| Edit::Add {
        key: key.to_owned(),
        value: 1u8.into(),
    };
    for (edits, reason) in [
        (vec![remove("x")], "is not there"),
        (vec![rename("x", "y")], "is not there"),
        (vec![rename("a.u8", "a.i8")], "\"a.i8\" is there already"),
        (vec![add("a.u8")], "is there already"),
        (vec![set("x", 1u8), remove("x")], "two edits name it"),
        (vec![set("", 1u8)], "1 to 65535 ASCII"),
        (vec![set("caf\u{e9}", 1u8)], "1 to 65535 ASCII"),
        (vec![rename("a.u8", "\u{e9}")], "1 to 65535 ASCII"),
        (vec![set("general.alignment", 12u32)], "general.alignment"),
    ] {
        let error = plan_with(&place.path, &edits, &force())
            .unwrap_err()
            .to_string();
        assert!(error.contains(reason), "{error}");
    }
    let error = plan(&place.path, &[remove("x")]).unwrap_err();
    assert!(matches!(error, Error::BadEdit { key, .. } if key == "x"));
    assert_eq!(fs::read(&place.path).unwrap(), before);
    assert_eq!(place.names(), ["model.gguf"]);
}

#[test]
fn dangerous_edits_need_force() {
    let tokens = [Bytes::new().string(b"a"), Bytes::new().string(b"b")].concat();
    let place = place(
        &sample()
            .entry_u32("llama.block_count", 2)
            .entry_u32("tokenizer.ggml.eos_token_id", 1)
            .entry_array("tokenizer.ggml.tokens", 8, 2, &tokens)
            .build(),
    );
    for (edit, reason) in [
        (
            set("general.architecture", "gemma"),
            "what the tensors mean",
        ),
        (set("general.alignment", 64u32), "where the tensors lie"),
        (set("llama.block_count", 3u32), "a hyperparameter"),
        (set("llama.rope.freq_base", 1e4f32), "a hyperparameter"),
        (remove("llama.block_count"), "a hyperparameter"),
        (rename("llama.block_count", "x"), "a hyperparameter"),
        (rename("a.u8", "split.no"), "the set of shards"),
        (remove("tokenizer.ggml.tokens"), "how text becomes tokens"),
        (
            set("tokenizer.ggml.eos_token_id", 2u32),
            "the ids of tokens are 0 to 1",
        ),
        (remove("tokenizer.ggml.eos_token_id"), "would be missing"),
        (set("a.u8", 1u32), "from UINT8 to UINT32"),
        (
            set("tokenizer.ggml.eot_token_id", 1u64),
            "would be UINT64, and it is UINT32 everywhere",
        ),
        (set("tokenizer.ggml.pre", 5u32), "it is STRING everywhere"),
        (set("general.name", 5u32), "it is STRING everywhere"),
        (set("general.tags", "x"), "it is ARRAY of STRING everywhere"),
        (
            rename("a.u8", "general.author"),
            "would be UINT8, and it is STRING everywhere",
        ),
        (
            set("b.u8", vec![1i32]),
            "from ARRAY of UINT8 to ARRAY of INT32",
        ),
    ] {
        let error = plan(&place.path, std::slice::from_ref(&edit)).unwrap_err();
        assert!(
            matches!(error, Error::DangerousEdit { .. }) && error.hint().is_some(),
            "{error}"
        );
        assert!(error.to_string().contains(reason), "{error}");
        plan_with(&place.path, &[edit], &force()).unwrap();
    }
    for harmless in [
        set("tokenizer.ggml.eos_token_id", 0u32),
        set("tokenizer.ggml.pre", "default"),
        set("tokenizer.chat_template", "{{ x }}"),
        set("general.name", "x"),
        set("llamas.x", 1u8),
        remove("a.u8"),
    ] {
        plan(&place.path, &[harmless]).unwrap();
    }
}

#[test]
fn the_sign_of_zero_is_a_change_and_the_same_nan_is_none() {
    let nan = f32::from_bits(0x7fc0_1234);
    let place = place(&sample().build());
    let values = [
        set("z.single", 0f32),
        set("z.list", vec![0f32, 1.0]),
        set("z.nan", nan),
    ];
    edit(&place.path, &values);
    let minus = [
        set("z.single", -0f32),
        set("z.list", vec![-0f32, 1.0]),
        set("z.nan", nan),
    ];
    assert_eq!(plan(&place.path, &minus).unwrap().changes().len(), 2);
    edit(&place.path, &minus);
    let file = File::open(&place.path).unwrap();
    let sign = |key| match file.metadata().get(key) {
        Some(Value::F32(value)) => value.is_sign_negative(),
        Some(Value::Array(Array::F32(values))) => values[0].is_sign_negative(),
        other => panic!("{other:?}"),
    };
    assert!(sign("z.single") && sign("z.list"));
    assert_eq!(plan(&place.path, &minus).unwrap().way(), &Way::Unchanged);
}

#[test]
fn a_name_without_room_for_an_undo_file_is_edited_all_the_same() {
    let before = sample().entry_string("general.name", b"name").build();
    let place = place(&before);
    let long = place
        .folder
        .path()
        .join(format!("{}.gguf", "n".repeat(245)));
    fs::rename(&place.path, &long).unwrap();
    let way = edit(&long, &[set("general.name", "eman")]);
    assert!(
        matches!(&way, Way::Rewrite { reason } if reason.contains("too long")),
        "{way:?}"
    );
    untouched(&before, &fs::read(&long).unwrap(), &["general.name"]);
}

#[test]
fn another_alignment_moves_the_tensors_and_keeps_their_bytes() {
    let before = sample().build();
    for alignment in [8u32, 64, 4096, 32] {
        let place = place(&before);
        edit_with(
            &place.path,
            &[set("general.alignment", alignment)],
            &force(),
        );
        let (old, new) = (
            crate::bytes::open(&before).unwrap(),
            File::open(&place.path).unwrap(),
        );
        assert_eq!(new.alignment(), u64::from(alignment));
        assert_eq!(new.data_offset() % u64::from(alignment), 0);
        let mut end = 0;
        for (one, other) in old.tensors().iter().zip(new.tensors()) {
            assert_eq!(
                (old.data(one), &one.name, &one.dims),
                (new.data(other), &other.name, &other.dims)
            );
            // As the reference asks for: one after the other, each padded.
            assert_eq!(other.offset, end);
            end = (end + other.bytes).next_multiple_of(alignment.into());
        }
    }
}

#[test]
fn a_big_endian_file_is_edited_in_its_own_byte_order() {
    // Q4_0 has scales that would be turned around if the data were touched.
    let data: Vec<u8> = (0..64).collect();
    let file = |name: &[u8]| {
        let file = Bytes::big();
        let list = [file.u32(7), file.u32(8)].concat();
        file.entry_string("general.name", name)
            .entry_array("x.list", 4, 2, &list)
            .tensor("w", &[32], crate::bytes::Q4_0, 0)
            .data(&data)
            .build()
    };
    let place = place(&file(b"old"));
    assert_eq!(
        edit(&place.path, &[set("general.name", "new")]),
        Way::InPlace
    );
    assert_eq!(fs::read(&place.path).unwrap(), file(b"new"));
    let long = "long".repeat(20);
    assert!(is_rewrite(&edit(
        &place.path,
        &[set("general.name", long.as_str())]
    )));
    assert_eq!(fs::read(&place.path).unwrap(), file(long.as_bytes()));
    let file = File::open(&place.path).unwrap();
    assert_eq!(file.endian(), Endian::Big);
}

#[test]
fn what_lies_behind_and_between_the_tensors_is_kept() {
    // The second tensor first, a gap, and something behind the end.
    let mut data = vec![1u8; 32];
    data.extend([0xee; 64]);
    data.extend([2u8; 32]);
    data.extend(b"behind the end");
    let before = Bytes::new()
        .entry_string("general.name", b"n")
        .tensor("late", &[8], F32, 96)
        .tensor("early", &[8], F32, 0)
        .data(&data)
        .build();
    let place = place(&before);
    assert!(is_rewrite(&edit(
        &place.path,
        &[set("general.name", "n".repeat(500))]
    )));
    untouched(&before, &fs::read(&place.path).unwrap(), &["general.name"]);
}

#[test]
fn a_vocabulary_without_tensors_is_edited_too() {
    for padding in [0, 5, 19] {
        let mut before = Bytes::new()
            .entry_string("general.name", b"n")
            .entry_u32("x", 1)
            .build();
        before.resize(before.len() + padding, 0);
        let padded = before.len().is_multiple_of(32);
        let place = place(&before);
        edit(&place.path, &[set("general.name", "another name")]);
        let after = fs::read(&place.path).unwrap();
        let file = File::open(&place.path).unwrap();
        assert_eq!(
            file.metadata().str("general.name").unwrap(),
            Some("another name")
        );
        let rest = after.len() - file.directory_end() as usize;
        assert!(
            if padded {
                after.len().is_multiple_of(32)
            } else {
                rest == padding
            },
            "{padding} {rest}"
        );
    }
}

#[test]
fn only_the_first_shard_has_the_metadata_of_the_model() {
    let shard = |number| {
        Bytes::new()
            .entry_u16("split.no", number)
            .entry_u16("split.count", 2)
            .tensor("w", &[8], F32, 0)
            .data(&[0; 32])
            .build()
    };
    let second = place(&shard(1));
    let error = plan(&second.path, &[set("general.name", "x")]).unwrap_err();
    assert!(matches!(error, Error::NotFirstShard { number: 2, .. }) && error.hint().is_some());
    let error = plan(&second.path, &[set("split.count", 3u16)]).unwrap_err();
    assert!(matches!(error, Error::DangerousEdit { .. }), "{error}");
    plan_with(&second.path, &[set("split.count", 3u16)], &force()).unwrap();
    edit(&place(&shard(0)).path, &[set("general.name", "x")]);
}

#[test]
fn an_output_of_another_name_leaves_the_file_alone() {
    let before = sample().build();
    let place = place(&before);
    let output = place.folder.path().join("out.gguf");
    let to = |path: &Path| EditOptions {
        output: Some(path.to_owned()),
        ..EditOptions::default()
    };
    let (way, outcome) = edit_with(&place.path, &[set("general.name", "x")], &to(&output));
    assert!(is_rewrite(&way));
    assert_eq!(outcome.path, output);
    assert_eq!(fs::read(&place.path).unwrap(), before);
    untouched(&before, &fs::read(&output).unwrap(), &["general.name"]);
    let edits = [set("general.name", "y")];
    let again = plan_with(&place.path, &edits, &to(&output)).unwrap();
    assert!(matches!(
        again.apply(&mut |_| ()),
        Err(Error::OutputExists { .. })
    ));
    let same = plan_with(&place.path, &edits, &to(&place.path)).unwrap();
    assert!(matches!(
        same.apply(&mut |_| ()),
        Err(Error::OutputIsInput { .. })
    ));
    assert_eq!(fs::read(&place.path).unwrap(), before);
}

#[test]
fn the_old_file_is_kept_where_that_is_asked_for() {
    let before = sample().entry_string("general.name", b"name").build();
    let options = EditOptions {
        backup: true,
        ..EditOptions::default()
    };
    for name in [
        "eman",
        "a name that does not fit in place, so that the file is written anew",
    ] {
        let place = place(&before);
        let (_, outcome) = edit_with(&place.path, &[set("general.name", name)], &options);
        assert_eq!(
            outcome.backup,
            Some(place.folder.path().join("model.gguf.bak"))
        );
        assert_eq!(place.names(), ["model.gguf", "model.gguf.bak"]);
        assert_eq!(fs::read(outcome.backup.unwrap()).unwrap(), before);
        untouched(&before, &fs::read(&place.path).unwrap(), &["general.name"]);
        // A backup is never written over.
        let after = fs::read(&place.path).unwrap();
        let again = plan_with(&place.path, &[set("general.name", "third")], &options).unwrap();
        let error = again.apply(&mut |_| ()).unwrap_err();
        assert!(matches!(error, Error::BackupExists { .. }), "{error}");
        // `--force` would not help.
        assert!(!error.hint().unwrap().contains("force"));
        assert_eq!(fs::read(&place.path).unwrap(), after);
        assert_eq!(place.names(), ["model.gguf", "model.gguf.bak"]);
    }
}

#[cfg(unix)]
#[test]
fn links_and_modes_stay_what_they_are() {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
    let before = sample().entry_string("general.name", b"name").build();
    let long = "a name that does not fit in place, so that the file is written anew";
    for name in ["eman", long] {
        let place = place(&before);
        fs::set_permissions(&place.path, fs::Permissions::from_mode(0o640)).unwrap();
        let links = place.folder.path().join("links");
        fs::create_dir(&links).unwrap();
        let link = links.join("link.gguf");
        symlink(&place.path, &link).unwrap();
        edit(&link, &[set("general.name", name)]);
        assert!(link.is_symlink());
        assert_eq!(fs::read_dir(&links).unwrap().count(), 1);
        let file = File::open(&place.path).unwrap();
        assert_eq!(file.metadata().str("general.name").unwrap(), Some(name));
        let mode = fs::metadata(&place.path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
    }
    // The other name of a hard link keeps the old file.
    let place = place(&before);
    let other = place.folder.path().join("other.gguf");
    fs::hard_link(&place.path, &other).unwrap();
    let way = edit(&place.path, &[set("general.name", "eman")]);
    assert!(
        matches!(&way, Way::Rewrite { reason } if reason.contains("hard links")),
        "{way:?}"
    );
    assert_eq!(fs::read(&other).unwrap(), before);
    assert_eq!(fs::metadata(&other).unwrap().nlink(), 1);

    // A write-protected file is not written to by accident.
    fs::set_permissions(&other, fs::Permissions::from_mode(0o444)).unwrap();
    let error = plan(&other, &[set("general.name", "eman")]).unwrap_err();
    assert!(
        matches!(error, Error::WriteProtected { .. }) && error.hint().is_some(),
        "{error}"
    );
    // Whoever is sure writes it anew; it was once opened for writing, which the system refuses.
    let (way, _) = edit_with(&other, &[set("general.name", "eman")], &force());
    assert!(
        matches!(&way, Way::Rewrite { reason } if reason.contains("write-protected")),
        "{way:?}"
    );
    assert_eq!(fs::metadata(&other).unwrap().mode() & 0o777, 0o444);
}

#[test]
fn a_reserve_without_room_can_be_removed_too() {
    for value in [Value::U8(0), Value::from("")] {
        let mut file = sample();
        file = match value {
            Value::U8(_) => file.entry(RESERVED_KEY, 0, &[0]),
            _ => file.entry_string(RESERVED_KEY, b""),
        };
        let place = place(&file.build());
        let way = edit(&place.path, &[remove(RESERVED_KEY)]);
        assert_ne!(way, Way::Unchanged, "{value:?}");
        assert!(
            !File::open(&place.path)
                .unwrap()
                .metadata()
                .contains(RESERVED_KEY)
        );
    }
}

#[test]
fn b41_a_full_disk_leaves_the_file_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let disk = folder.path().join("disk");
    let Some(_mounted) = SmallDisk::mount(&disk, 1) else {
        return;
    };
    let path = disk.join("model.gguf");
    // A header of 200 KB, so that neither the undo file nor a new file finds room.
    let before = sample()
        .entry_string("x.filling", &[b'f'; 200_000])
        .entry_string("general.name", b"name")
        .build();
    fs::write(&path, &before).unwrap();
    fs::write(disk.join("other"), vec![0; 740 << 10]).unwrap();
    for (name, in_place) in [("eman", true), (&*"long".repeat(100), false)] {
        let plan = plan(&path, &[set("general.name", name)]).unwrap();
        assert_eq!(*plan.way() == Way::InPlace, in_place);
        let error = plan.apply(&mut |_| ()).unwrap_err();
        assert!(
            matches!(error, Error::NoSpace { .. }) && error.hint().is_some(),
            "{error}"
        );
        assert_eq!(fs::read(&path).unwrap(), before);
        assert_eq!(fs::read_dir(&disk).unwrap().count(), 2);
    }
    fs::remove_file(&path).unwrap();
    fs::remove_file(disk.join("other")).unwrap();
}
