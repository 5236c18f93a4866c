//! B18: sets of shards, whole and with each of their faults.

use std::path::{Path, PathBuf};

use gristmill_gguf::{Error, Model};

use crate::bytes::{Bytes, F32};

/// Shard `number` (from 0) of `count` with one tensor.
fn shard(number: u16, count: u16, tensor: &str) -> Bytes {
    let file = if number == 0 {
        Bytes::new().entry_string("general.architecture", b"llama")
    } else {
        Bytes::new()
    };
    file.entry_u16("split.no", number)
        .entry_u16("split.count", count)
        .entry("split.tensors.count", 5, &i32::from(count).to_le_bytes())
        .tensor(tensor, &[8], F32, 0)
        .data(&[number as u8; 32])
}

struct Set {
    folder: tempfile::TempDir,
}

impl Set {
    /// Three good shards.
    fn new() -> Set {
        let set = Set {
            folder: tempfile::tempdir().unwrap(),
        };
        for number in 0..3 {
            set.write(number, &shard(number, 3, &format!("t{number}")));
        }
        set
    }

    fn path(&self, number: u16) -> PathBuf {
        self.folder
            .path()
            .join(format!("m-{:05}-of-00003.gguf", number + 1))
    }

    fn write(&self, number: u16, bytes: &Bytes) {
        std::fs::write(self.path(number), bytes.build()).unwrap();
    }

    /// The error when shard `number` is opened.
    fn error(&self, number: u16) -> Error {
        Model::open(&self.path(number)).expect_err("the set must be refused")
    }
}

fn check(error: &Error, file: &Path, message: &str) {
    let text = error.to_string();
    assert!(text.starts_with(&file.display().to_string()), "{text}");
    assert!(text.contains(message), "{text}");
    assert!(error.hint().is_some(), "no remedy for: {text}");
}

#[test]
fn b18_any_shard_opens_the_set() {
    let set = Set::new();
    for number in 0..3 {
        let model = Model::open(&set.path(number)).unwrap();
        let names: Vec<&str> = model
            .tensors()
            .iter()
            .map(|tensor| tensor.name.as_str())
            .collect();
        assert_eq!(names, ["t0", "t1", "t2"]);
        assert_eq!(
            model.metadata().str("general.architecture").unwrap(),
            Some("llama")
        );
        assert_eq!(model.path(), set.path(0));
        let last = model.tensor("t2").unwrap();
        assert_eq!((last.data, last.shard), (&[2u8; 32][..], 2));
        let region = model.region(2).unwrap();
        let start = last.offset as usize;
        assert_eq!((*region).as_ref().get(start..start + 32), Some(last.data));
        assert!(model.require_weights().is_ok());
    }
}

#[test]
fn b18_a_missing_shard() {
    let set = Set::new();
    std::fs::remove_file(set.path(1)).unwrap();
    check(
        &set.error(0),
        &set.path(0),
        "3 shards, of which 1 cannot be found: m-00002-of-00003.gguf",
    );
    check(
        &set.error(2),
        &set.path(2),
        "1 cannot be found: m-00002-of-00003.gguf",
    );
    std::fs::remove_file(set.path(0)).unwrap();
    check(
        &set.error(2),
        &set.path(2),
        "2 cannot be found: m-00001-of-00003.gguf, m-00002-of-00003.gguf",
    );
    check(&set.error(1), &set.path(1), "no such file");
}

#[test]
fn b18_a_wrong_count() {
    let set = Set::new();
    set.write(1, &shard(1, 4, "t1"));
    check(
        &set.error(0),
        &set.path(1),
        "split.count is 4, but the set has 3 shards",
    );
    check(
        &set.error(1),
        &set.path(1),
        "split.count is 4, but the set has 3 shards",
    );
}

#[test]
fn b18_a_number_twice() {
    let set = Set::new();
    set.write(2, &shard(1, 3, "t2"));
    check(
        &set.error(0),
        &set.path(2),
        "is shard 2 of 3 by its metadata (split.no, which counts from 0), but its name says 3",
    );
    check(
        &set.error(2),
        &set.path(2),
        "is shard 2 of 3 by its metadata",
    );
}

#[test]
fn b18_a_tensor_twice() {
    let set = Set::new();
    set.write(2, &shard(2, 3, "t0"));
    check(
        &set.error(1),
        &set.path(2),
        &format!("tensor \"t0\" is in {} too", set.path(0).display()),
    );
}

#[test]
fn b18_a_wrong_number_of_tensors() {
    let set = Set::new();
    let fewer = shard(0, 3, "t0").build();
    let mut more = Bytes::new()
        .entry_string("general.architecture", b"llama")
        .entry_u16("split.no", 0);
    more = more
        .entry_u16("split.count", 3)
        .entry("split.tensors.count", 5, &7i32.to_le_bytes());
    set.write(0, &more.tensor("t0", &[8], F32, 0).data(&[0; 32]));
    check(
        &set.error(1),
        &set.path(0),
        "split.tensors.count is 7, but the shards have 3 tensors together",
    );
    assert!(!fewer.is_empty());
}

#[test]
fn b18_a_renamed_first_part() {
    let set = Set::new();
    let renamed = set.folder.path().join("model.gguf");
    std::fs::rename(set.path(0), &renamed).unwrap();
    let error = Model::open(&renamed).expect_err("the others cannot be found");
    check(
        &error,
        &renamed,
        "is shard 1 of 3 by its metadata, but its name does not end in \"-00001-of-00003.gguf\"",
    );
    check(
        &set.error(1),
        &set.path(1),
        "1 cannot be found: m-00001-of-00003.gguf",
    );
}

#[test]
fn b18_a_missing_key() {
    let set = Set::new();
    set.write(
        1,
        &Bytes::new()
            .entry_u16("split.count", 3)
            .tensor("t1", &[8], F32, 0)
            .data(&[0; 32]),
    );
    let text = set.error(0).to_string();
    assert_eq!(
        text,
        format!(
            "{}: metadata key \"split.no\" is missing",
            set.path(1).display()
        )
    );
    set.write(
        1,
        &Bytes::new()
            .entry_string("split.count", b"3")
            .tensor("t1", &[8], F32, 0)
            .data(&[0; 32]),
    );
    let text = set.error(1).to_string();
    assert!(
        text.contains("\"split.count\" must be an integer"),
        "{text}"
    );
}

#[test]
fn b18_mixed_versions() {
    let set = Set::new();
    let mut other = shard(2, 3, "t2");
    other.version = 2;
    set.write(2, &other);
    check(
        &set.error(0),
        &set.path(2),
        "the GGUF version is 2, but the first shard has 3",
    );
}

#[test]
fn b18_a_set_of_one_and_a_folder_that_looks_like_a_shard() {
    let set = Set::new();
    let one = set.folder.path().join("x-00001-of-00001.gguf");
    std::fs::write(&one, shard(0, 1, "w").build()).unwrap();
    assert_eq!(Model::open(&one).unwrap().shards().len(), 1);

    let folder = set.folder.path().join("m-00002-of-00009.gguf");
    std::fs::create_dir(&folder).unwrap();
    for number in 0..2 {
        let name = format!("m-{:05}-of-00002.gguf", number + 1);
        std::fs::write(
            folder.join(name),
            shard(number, 2, &format!("t{number}")).build(),
        )
        .unwrap();
    }
    let model = Model::open(&folder.join("m-00002-of-00002.gguf")).unwrap();
    assert_eq!((model.shards().len(), model.tensors().len()), (2, 2));
    let plain = folder.join("plain.gguf");
    std::fs::write(&plain, crate::bytes::sample().build()).unwrap();
    assert_eq!(Model::open(&plain).unwrap().shards().len(), 1);
}

#[test]
fn a_count_beyond_all_sets() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m-00001-of-00002.gguf");
    let file = Bytes::new()
        .entry("split.count", 10, &u64::MAX.to_le_bytes())
        .entry_u16("split.no", 0);
    std::fs::write(&path, file.build()).unwrap();
    assert!(matches!(
        Model::open(&path),
        Err(Error::TooManyShards { .. })
    ));
    // The largest set there can be, and only this file of it.
    let file = Bytes::new()
        .entry_u16("split.count", u16::MAX)
        .entry_u16("split.no", 0);
    let path = folder.path().join("m-00001-of-65535.gguf");
    std::fs::write(&path, file.build()).unwrap();
    assert!(matches!(
        Model::open(&path),
        Err(Error::MissingShards {
            n_missing: 65534,
            ..
        })
    ));
}

#[test]
fn a_name_with_number_zero_is_no_shard_name() {
    let set = Set::new();
    let zero = set.folder.path().join("m-00000-of-00003.gguf");
    std::fs::rename(set.path(0), &zero).unwrap();
    let error = Model::open(&zero).expect_err("shards count from 1");
    // The message once subtracted 1 from the number.
    check(
        &error,
        &zero,
        "is shard 1 of 3 by its metadata, but its name does not end in \"-00001-of-00003.gguf\"",
    );
}
