//! Splitting and merging: bytes come back, sets are whole or not there, faults are named.

use std::path::{Path, PathBuf};

use gristmill_gguf::{
    Endian, EndianOptions, Error, Event, File, MergeOptions, MergeReport, Metadata, Model,
    ShardLimits, SplitOptions, SplitReport, TensorPlan, Value, WriteOptions, Writer,
    convert_endian, merge, split,
};
use gristmill_quant::{F32, Q4_0};

struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        Place {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn files(&self) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(self.folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    /// A model of `n_tensors` tensors of 32, 64, 96, … elements, F32 and Q4_0 in turn.
    fn model(&self, name: &str, n_tensors: u64) -> PathBuf {
        let mut metadata = Metadata::new();
        metadata.set("general.architecture", "llama");
        metadata.set("general.name", "Little");
        metadata.set("llama.sizes", vec![1u8, 2, 3]);
        let plan: Vec<TensorPlan> = (1..=n_tensors)
            .map(|n| TensorPlan {
                name: format!("blk.{n}.weight"),
                dims: vec![32, n.min(8)],
                ty: if n % 2 == 0 { F32 } else { Q4_0 },
            })
            .collect();
        let path = self.path(name);
        let mut writer = Writer::create(&path, &metadata, &plan, &WriteOptions::default()).unwrap();
        let mut byte = 0u8;
        while let Some((_, left)) = writer.next_tensor() {
            let data: Vec<u8> = (0..left)
                .map(|_| {
                    byte = byte.wrapping_mul(31).wrapping_add(7);
                    byte
                })
                .collect();
            writer.write(&data).unwrap();
        }
        writer.finish().unwrap();
        path
    }
}

fn limits(tensors: Option<u64>, bytes: Option<u64>, tensor_free_first: bool) -> ShardLimits {
    ShardLimits {
        tensors,
        bytes,
        tensor_free_first,
    }
}

fn split_to(input: &Path, prefix: &Path, limits: ShardLimits) -> Result<SplitReport, Error> {
    let options = SplitOptions {
        input: input.to_owned(),
        prefix: prefix.to_owned(),
        limits,
        dry_run: false,
        force: false,
        as_reference: false,
    };
    let planned = split(
        &SplitOptions {
            dry_run: true,
            ..options.clone()
        },
        &mut |_| {},
    )?;
    let report = split(&options, &mut |_| {})?;
    // The dry run is the real plan.
    assert_eq!(planned.files, report.files);
    for file in &report.files {
        assert_eq!(std::fs::metadata(&file.path).unwrap().len(), file.bytes);
        assert_eq!(
            File::open(&file.path).unwrap().tensors().len(),
            file.n_tensors
        );
    }
    Ok(report)
}

fn merge_options(input: &Path, output: &Path) -> MergeOptions {
    MergeOptions {
        input: input.to_owned(),
        output: output.to_owned(),
        dry_run: false,
        force: false,
        delete_shards: false,
        as_reference: false,
    }
}

fn merge_to(input: &Path, output: &Path) -> Result<MergeReport, Error> {
    merge(&merge_options(input, output), &mut |_| {})
}

#[test]
fn merging_gives_back_the_bytes() {
    let place = Place::new();
    let input = place.model("model.gguf", 7);
    let bytes = std::fs::read(&input).unwrap();
    let cases = [
        (limits(None, None, false), 1),
        (limits(Some(1), None, false), 7),
        (limits(Some(3), None, false), 3),
        (limits(Some(3), None, true), 4),
        (limits(Some(100), None, false), 1),
        (limits(None, Some(1), false), 7),
        (limits(None, Some(600), false), 5),
        (limits(None, Some(1 << 40), true), 2),
        (limits(Some(2), Some(600), false), 5),
    ];
    for (case, (limits, n_files)) in cases.into_iter().enumerate() {
        let report = split_to(&input, &place.path(&format!("s{case}")), limits.clone()).unwrap();
        assert_eq!(report.files.len(), n_files, "{limits:?}");
        assert!(report.restores);
        // From every shard, not only the first.
        for (index, file) in report.files.iter().enumerate() {
            let output = place.path(&format!("m{case}-{index}.gguf"));
            let merged = merge_to(&file.path, &output).unwrap();
            assert_eq!((merged.n_tensors, merged.bytes), (7, bytes.len() as u64));
            assert!(std::fs::read(&output).unwrap() == bytes, "{limits:?}");
        }
    }
}

#[test]
fn shards_carry_the_entries_of_the_reference() {
    let place = Place::new();
    let input = place.model("model.gguf", 3);
    let report = split_to(&input, &place.path("s"), limits(Some(1), None, true)).unwrap();
    let names: Vec<String> = report
        .files
        .iter()
        .map(|file| file.path.file_name().unwrap().to_str().unwrap().to_owned())
        .collect();
    assert_eq!(names[0], "s-00001-of-00004.gguf");
    assert_eq!(names[3], "s-00004-of-00004.gguf");
    for (number, file) in (0u16..).zip(&report.files) {
        let file = File::open(&file.path).unwrap();
        let entries: Vec<(&str, &Value)> = file.metadata().iter().collect();
        let own = &entries[entries.len() - 3..];
        assert_eq!(
            own,
            [
                ("split.no", &Value::U16(number)),
                ("split.tensors.count", &Value::I32(3)),
                ("split.count", &Value::U16(4)),
            ]
        );
        assert_eq!(entries.len(), if number == 0 { 6 } else { 3 });
        assert_eq!(file.tensors().len(), usize::from(number > 0));
        // The header is padded even where no tensor follows.
        assert_eq!(file.size() % 32, 0);
    }
}

#[test]
fn a_set_is_divided_anew_and_existing_files_are_kept() {
    let place = Place::new();
    let input = place.model("model.gguf", 5);
    let first = split_to(&input, &place.path("a"), limits(Some(2), None, false)).unwrap();
    let again = split_to(
        &first.files[1].path,
        &place.path("b"),
        limits(Some(4), None, false),
    )
    .unwrap();
    assert_eq!(again.files.len(), 2);
    merge_to(&again.files[0].path, &place.path("out.gguf")).unwrap();
    assert_eq!(
        std::fs::read(place.path("out.gguf")).unwrap(),
        std::fs::read(&input).unwrap()
    );
    let before = place.files();
    let refused = split_to(&input, &place.path("a"), limits(Some(2), None, false));
    assert!(matches!(refused, Err(Error::OutputExists { .. })));
    // The inputs of a set are outputs of the same set: never replaced, with force neither.
    let options = SplitOptions {
        input: first.files[0].path.clone(),
        prefix: place.path("a"),
        limits: limits(Some(2), None, false),
        dry_run: false,
        force: true,
        as_reference: false,
    };
    let refused = split(&options, &mut |_| {});
    assert!(matches!(refused, Err(Error::OutputIsInput { .. })));
    assert_eq!(place.files(), before);
    let forced = SplitOptions { input, ..options };
    split(&forced, &mut |_| {}).unwrap();
    assert_eq!(place.files(), before);
}

#[test]
fn limits_that_cannot_be_kept_are_named() {
    let place = Place::new();
    let input = place.model("model.gguf", 5);
    let zero = split_to(&input, &place.path("s"), limits(Some(0), None, false)).unwrap_err();
    assert_eq!(
        zero.to_string(),
        format!(
            "{}: cannot be split into files of 0 tensors",
            input.display()
        )
    );
    // As the reference: the first file would be empty.
    let options = SplitOptions {
        input: input.clone(),
        prefix: place.path("s"),
        limits: limits(None, Some(10), false),
        dry_run: true,
        force: false,
        as_reference: true,
    };
    let error = split(&options, &mut |_| {}).unwrap_err();
    assert!(
        matches!(&error, Error::FirstTensorTooLarge { .. }),
        "{error}"
    );
    assert!(error.hint().is_some());
    assert_eq!(place.files(), ["model.gguf"]);
}

#[test]
fn more_shards_than_a_set_can_count() {
    let place = Place::new();
    let input = place.model("model.gguf", 65_536);
    let options = SplitOptions {
        input: input.clone(),
        prefix: place.path("s"),
        limits: limits(Some(1), None, false),
        dry_run: true,
        force: false,
        as_reference: false,
    };
    let error = split(&options, &mut |_| {}).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "{}: would be split into 65536 files; a set has at most 65535",
            input.display()
        )
    );
}

#[test]
fn b16_a_merge_never_destroys_a_shard() {
    let place = Place::new();
    let input = place.model("model.gguf", 3);
    let shards = split_to(&input, &place.path("s"), limits(Some(1), None, false))
        .unwrap()
        .files;
    let bytes = |index: usize| std::fs::read(&shards[index].path).unwrap();
    let before: Vec<Vec<u8>> = (0..3).map(bytes).collect();
    for force in [false, true] {
        for output in &shards {
            let options = MergeOptions {
                force,
                ..merge_options(&shards[0].path, &output.path)
            };
            let error = merge(&options, &mut |_| {}).unwrap_err();
            assert!(matches!(error, Error::OutputIsInput { .. }), "{error}");
        }
    }
    // By a link too.
    let link = place.path("link.gguf");
    std::fs::hard_link(&shards[1].path, &link).unwrap();
    let options = MergeOptions {
        force: true,
        ..merge_options(&shards[0].path, &link)
    };
    let error = merge(&options, &mut |_| {}).unwrap_err();
    assert!(matches!(error, Error::OutputIsInput { .. }), "{error}");
    assert_eq!((0..3).map(bytes).collect::<Vec<_>>(), before);
    // An existing file of another kind is kept as well.
    std::fs::write(place.path("there.gguf"), "words").unwrap();
    let error = merge_to(&shards[0].path, &place.path("there.gguf")).unwrap_err();
    assert!(matches!(error, Error::OutputExists { .. }), "{error}");
}

#[test]
fn b18_gaps_strangers_and_repeated_parts_are_refused() {
    let place = Place::new();
    let input = place.model("model.gguf", 3);
    let other = place.model("other.gguf", 4);
    let shards = split_to(&input, &place.path("s"), limits(Some(1), None, false))
        .unwrap()
        .files;
    let strangers = split_to(&other, &place.path("t"), limits(Some(2), None, true))
        .unwrap()
        .files;
    let output = place.path("out.gguf");
    let refused = |message: &str| {
        let error = merge_to(&shards[0].path, &output).unwrap_err();
        assert!(error.to_string().contains(message), "{error}");
        assert!(error.hint().is_some());
        assert!(!output.exists());
    };
    let third = std::fs::read(&shards[2].path).unwrap();
    std::fs::remove_file(&shards[2].path).unwrap();
    refused("1 cannot be found: s-00003-of-00003.gguf");
    std::fs::copy(&shards[1].path, &shards[2].path).unwrap();
    refused("s-00003-of-00003.gguf: is shard 2 of 3 by its metadata");
    std::fs::copy(&strangers[2].path, &shards[2].path).unwrap();
    refused("s-00003-of-00003.gguf: split.tensors.count is 4, but the first shard has 3");
    std::fs::write(&shards[2].path, third).unwrap();
    merge_to(&shards[0].path, &output).unwrap();
}

#[test]
fn a_file_that_is_no_shard_is_not_merged() {
    let place = Place::new();
    let input = place.model("model.gguf", 2);
    let error = merge_to(&input, &place.path("out.gguf")).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("{}: is no part of a set of shards", input.display())
    );
    let shards = split_to(&input, &place.path("s"), limits(Some(1), None, false))
        .unwrap()
        .files;
    let merged = place.path("merged.gguf");
    let options = MergeOptions {
        as_reference: true,
        ..merge_options(&shards[0].path, &merged)
    };
    merge(&options, &mut |_| {}).unwrap();
    // The reference leaves its mark, so that the output is not merged again.
    let file = File::open(&merged).unwrap();
    let keys: Vec<(&str, &Value)> = file.metadata().iter().skip(3).collect();
    assert_eq!(
        keys,
        [
            ("split.no", &Value::U16(0)),
            ("split.tensors.count", &Value::I32(2)),
            ("split.count", &Value::U16(0)),
        ]
    );
    let error = merge_to(&merged, &place.path("out.gguf")).unwrap_err();
    assert!(error.to_string().contains("split.count is 0"), "{error}");
}

#[test]
fn shards_are_deleted_only_after_a_good_merge() {
    let place = Place::new();
    let input = place.model("model.gguf", 3);
    let shards = split_to(&input, &place.path("s"), limits(Some(2), None, false))
        .unwrap()
        .files;
    let options = MergeOptions {
        delete_shards: true,
        ..merge_options(&shards[0].path, &input)
    };
    assert!(merge(&options, &mut |_| {}).is_err());
    assert!(shards.iter().all(|shard| shard.path.exists()));
    let options = MergeOptions {
        output: place.path("out.gguf"),
        ..options
    };
    merge(&options, &mut |_| {}).unwrap();
    assert_eq!(place.files(), ["model.gguf", "out.gguf"]);
    assert_eq!(
        std::fs::read(place.path("out.gguf")).unwrap(),
        std::fs::read(&input).unwrap()
    );
}

#[test]
fn an_input_with_another_layout_is_told_apart() {
    let place = Place::new();
    // Data that does not start where a writer puts it.
    let odd = crate::bytes::Bytes::new()
        .entry_string("general.architecture", b"llama")
        .tensor("a", &[8], 0, 64)
        .tensor("b", &[8], 0, 0)
        .data(&[7; 96]);
    let path = place.path("odd.gguf");
    std::fs::write(&path, odd.build()).unwrap();
    let report = split_to(&path, &place.path("s"), limits(Some(1), None, false)).unwrap();
    assert!(!report.restores);
    // What `check` gives as the remedy for such a layout: a set of one, merged.
    let one = split_to(&path, &place.path("one"), limits(None, None, false)).unwrap();
    merge_to(&one.files[0].path, &place.path("ordered.gguf")).unwrap();
    let ordered = File::open(&place.path("ordered.gguf")).unwrap();
    let offsets: Vec<u64> = ordered.tensors().iter().map(|t| t.offset).collect();
    assert_eq!(offsets, [0, 32]);
    merge_to(&report.files[0].path, &place.path("out.gguf")).unwrap();
    let (before, after) = (
        Model::open(&path).unwrap(),
        Model::open(&place.path("out.gguf")).unwrap(),
    );
    assert_eq!(before.metadata(), after.metadata());
    for (before, after) in before.views().zip(after.views()) {
        assert_eq!(
            (&before.info.name, &before.info.dims, before.data),
            (&after.info.name, &after.info.dims, after.data)
        );
    }
}

#[test]
fn big_endian_sets_stay_big_endian() {
    let place = Place::new();
    let file = crate::bytes::Bytes::big();
    let value = file.u32(5);
    let file = file
        .entry_string("general.architecture", b"llama")
        .entry("n", 4, &value)
        .tensor("a", &[8], 0, 0)
        .tensor("b", &[8], 0, 32)
        .data(&(0..64).collect::<Vec<u8>>());
    let path = place.path("big.gguf");
    std::fs::write(&path, file.build()).unwrap();
    let report = split_to(&path, &place.path("s"), limits(Some(1), None, false)).unwrap();
    assert_eq!(report.files.len(), 2);
    merge_to(&report.files[1].path, &place.path("out.gguf")).unwrap();
    assert_eq!(
        std::fs::read(place.path("out.gguf")).unwrap(),
        std::fs::read(&path).unwrap()
    );
}

#[test]
fn a_shard_that_was_replaced_meanwhile_is_not_merged() {
    let place = Place::new();
    let input = place.model("model.gguf", 4);
    split_to(&input, &place.path("p"), limits(Some(2), None, false)).unwrap();
    let second = place.path("p-00002-of-00002.gguf");
    // Another file of the same size takes the name after the set was opened.
    let mut other = std::fs::read(&second).unwrap();
    *other.last_mut().unwrap() ^= 1;
    std::fs::write(place.path("other"), &other).unwrap();
    let options = MergeOptions {
        delete_shards: true,
        ..merge_options(&second, &place.path("merged.gguf"))
    };
    let merged = merge(&options, &mut |event| {
        if let Event::Start { .. } = event {
            std::fs::rename(place.path("other"), &second).unwrap();
        }
    });
    assert!(
        matches!(&merged, Err(Error::Changed { path }) if *path == second),
        "{merged:?}"
    );
    assert_eq!(
        place.files(),
        [
            "model.gguf",
            "p-00001-of-00002.gguf",
            "p-00002-of-00002.gguf"
        ]
    );
    assert_eq!(std::fs::read(&second).unwrap(), other);
}

/// A set of two, whose second file has these entries beside those of every shard.
fn set_with(place: &Place, entries: &[(&str, Value)]) -> PathBuf {
    let tensor = |n: u64| TensorPlan {
        name: format!("t{n}"),
        dims: vec![32],
        ty: F32,
    };
    for number in 0..2u16 {
        let mut metadata = Metadata::new();
        if number == 0 {
            metadata.set("general.architecture", "llama");
            metadata.set("general.name", "Little");
        } else {
            for (key, value) in entries {
                metadata.set(*key, value.clone());
            }
        }
        metadata.set("split.no", number);
        metadata.set("split.count", 2u16);
        metadata.set("split.tensors.count", 2i32);
        let path = place.path(&format!("s-{:05}-of-00002.gguf", number + 1));
        let plan = [tensor(number.into())];
        let mut writer = Writer::create(&path, &metadata, &plan, &WriteOptions::default()).unwrap();
        writer.write(&[number as u8; 128]).unwrap();
        writer.finish().unwrap();
    }
    place.path("s-00001-of-00002.gguf")
}

#[test]
fn metadata_of_later_shards_is_kept() {
    let place = Place::new();
    let entries = [
        ("general.name", Value::from("Little")),
        ("tokenizer.chat_template", Value::from("{{ x }}")),
        ("general.alignment", Value::U32(64)),
    ];
    let first = set_with(&place, &entries);
    merge_to(&first, &place.path("merged.gguf")).unwrap();
    let keys = |path: &Path| -> Vec<String> {
        let file = File::open(path).unwrap();
        let keys = file.metadata().iter().map(|(key, _)| key.to_owned());
        keys.collect()
    };
    let expected = [
        "general.architecture",
        "general.name",
        "tokenizer.chat_template",
    ];
    assert_eq!(keys(&place.path("merged.gguf")), expected);
    split_to(&first, &place.path("again"), limits(Some(1), None, false)).unwrap();
    assert_eq!(
        keys(&place.path("again-00001-of-00002.gguf"))[..3],
        expected
    );
    // The reference keeps that of the first file.
    let options = MergeOptions {
        as_reference: true,
        ..merge_options(&first, &place.path("theirs.gguf"))
    };
    merge(&options, &mut |_| {}).unwrap();
    let theirs = keys(&place.path("theirs.gguf"));
    assert!(!theirs.contains(&"tokenizer.chat_template".to_owned()));
}

#[test]
fn metadata_of_later_shards_that_contradicts_is_named() {
    let place = Place::new();
    let first = set_with(&place, &[("general.name", Value::from("Large"))]);
    let error = merge_to(&first, &place.path("merged.gguf")).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "{}: metadata key \"general.name\" is STRING \"Large\", but the first shard has STRING \"Little\"",
            place.path("s-00002-of-00002.gguf").display()
        )
    );
    assert!(split_to(&first, &place.path("again"), limits(Some(1), None, false)).is_err());
    assert_eq!(place.files().len(), 2);
}

#[test]
fn the_only_shard_of_a_file_without_tensors_has_the_size_that_was_told() {
    let place = Place::new();
    let path = place.path("vocab.gguf");
    let file = crate::bytes::Bytes::new().entry_string("general.architecture", b"llama");
    std::fs::write(&path, file.build()).unwrap();
    // `split_to` compares the sizes with the files; the one planned was 11 bytes more.
    let report = split_to(&path, &place.path("s"), limits(None, None, false)).unwrap();
    assert_eq!(report.files.len(), 1);
    assert_eq!(report.files[0].bytes % 32, 0);
}

#[test]
fn what_no_reader_takes_is_not_merged() {
    let place = Place::new();
    let path = place.path("many.gguf");
    let tensors: Vec<TensorPlan> = (0..1_000_001)
        .map(|n| TensorPlan {
            name: n.to_string(),
            dims: vec![8],
            ty: F32,
        })
        .collect();
    let size = Writer::size_of(&path, &Metadata::new(), &tensors, &WriteOptions::default());
    let error = size.unwrap_err();
    assert!(matches!(error, Error::TooMany { .. }));
    assert_eq!(
        error.to_string(),
        format!(
            "{}: would have 1000001 tensors; the limit is 1000000",
            path.display()
        )
    );
}

#[test]
fn dry_runs_check_their_targets() {
    let place = Place::new();
    let input = place.model("model.gguf", 2);
    split_to(&input, &place.path("s"), limits(Some(1), None, false)).unwrap();
    let first = place.path("s-00001-of-00002.gguf");
    let merging = |output: &Path| MergeOptions {
        dry_run: true,
        ..merge_options(&first, output)
    };
    let merged = |output: &Path| merge(&merging(output), &mut |_| {}).unwrap_err();
    assert!(matches!(merged(&input), Error::OutputExists { .. }));
    assert!(matches!(merged(&first), Error::OutputIsInput { .. }));
    let nowhere = place.path("no/such.gguf");
    assert!(matches!(merged(&nowhere), Error::NoFolder { .. }));
    let splitting = SplitOptions {
        input: input.clone(),
        prefix: place.path("s"),
        limits: limits(Some(1), None, false),
        dry_run: true,
        force: false,
        as_reference: false,
    };
    let error = split(&splitting, &mut |_| {}).unwrap_err();
    assert!(matches!(error, Error::OutputExists { .. }), "{error}");
    let turning = EndianOptions {
        input,
        output: first,
        to: Endian::Big,
        dry_run: true,
        force: false,
    };
    let error = convert_endian(&turning, &mut |_| {}).unwrap_err();
    assert!(matches!(error, Error::OutputExists { .. }), "{error}");
}

#[test]
fn a_prefix_is_the_beginning_of_a_file_name() {
    let place = Place::new();
    let input = place.model("m.gguf", 4);
    let limits = ShardLimits {
        tensors: Some(2),
        ..ShardLimits::default()
    };
    let before = place.files();
    let mut prefixes = vec![
        place.path("dir.gguf/"),
        place.path("dir/"),
        place.path("."),
        place.path(".."),
        place.path("x/."),
        PathBuf::from("/"),
        PathBuf::from("."),
    ];
    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStrExt as _;
        prefixes.push(PathBuf::from("/dev/null"));
        prefixes.push(
            place
                .folder
                .path()
                .join(std::ffi::OsStr::from_bytes(b"p\xff")),
        );
    }
    for prefix in prefixes {
        let error = split_to(
            &input,
            &gristmill_gguf::shard_prefix(&prefix),
            limits.clone(),
        );
        let error = error.unwrap_err();
        assert!(
            matches!(error, Error::BadPrefix { .. }),
            "{prefix:?}: {error}"
        );
        assert!(error.hint().is_some());
    }
    assert_eq!(place.files(), before);
    // A folder of the same name is beside them, not in their way.
    std::fs::create_dir(place.path("m")).unwrap();
    split_to(&input, &place.path("m"), limits).unwrap();
    assert!(place.path("m-00002-of-00002.gguf").exists());
}

#[test]
fn what_is_there_of_an_incomplete_set_can_be_looked_at() {
    let place = Place::new();
    let input = place.model("m.gguf", 6);
    let limits = ShardLimits {
        tensors: Some(2),
        ..ShardLimits::default()
    };
    split_to(&input, &place.path("m"), limits).unwrap();
    let shard = |number| place.path(&format!("m-0000{number}-of-00003.gguf"));
    let (model, missing) = Model::open_present(&shard(2)).unwrap();
    assert!(missing.is_none() && model.shards().len() == 3);
    std::fs::remove_file(shard(2)).unwrap();
    let (model, missing) = Model::open_present(&shard(3)).unwrap();
    assert_eq!(model.tensors().len(), 4);
    assert_eq!(
        model.metadata().str("general.name").unwrap(),
        Some("Little")
    );
    assert!(matches!(
        missing,
        Some(Error::MissingShards {
            n_missing: 1,
            count: 3,
            ..
        })
    ));
    assert!(Model::open(&shard(3)).is_err());
    // Other faults of a set stay errors.
    std::fs::copy(shard(1), shard(2)).unwrap();
    assert!(Model::open_present(&shard(3)).is_err());
}

#[cfg(target_os = "linux")]
#[test]
fn a_file_of_the_system_is_not_called_empty() {
    let error = File::open(Path::new("/proc/version")).unwrap_err();
    assert!(matches!(error, Error::NotRegular { .. }), "{error}");
}
