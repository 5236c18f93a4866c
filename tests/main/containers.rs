//! Splitting, merging, turning, hashing and comparing files through the binary.

use std::path::PathBuf;

use gristmill_gguf::{File, Metadata, TensorPlan, WriteOptions, Writer};
use gristmill_quant::{F32, Q4_0};
use insta::assert_snapshot;

use crate::harness::Workplace;

/// A model of `n_tensors` tensors, F32 and Q4_0 in turn, of `n_rows` rows of 64 elements.
pub fn model(place: &Workplace, name: &str, n_tensors: u64, n_rows: u64) -> PathBuf {
    let mut metadata = Metadata::new();
    metadata.set("general.architecture", "llama");
    metadata.set("general.name", "Little");
    metadata.set(
        "tokenizer.ggml.tokens",
        vec!["a".to_owned(), "b".to_owned()],
    );
    let tensor = |n: u64| TensorPlan {
        name: format!("blk.{n}.weight"),
        dims: vec![64, n_rows],
        ty: if n.is_multiple_of(2) { F32 } else { Q4_0 },
    };
    let plan: Vec<TensorPlan> = (0..n_tensors).map(tensor).collect();
    let path = place.path(name);
    let options = WriteOptions::default();
    let mut writer = Writer::create(&path, &metadata, &plan, &options).expect("it can be begun");
    let mut state = 1u32;
    while let Some((_, left)) = writer.next_tensor() {
        // Small numbers, whatever type they are read in.
        let data: Vec<u8> = (0..left)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 24) as u8 & 0x3f
            })
            .collect();
        writer.write(&data).expect("it can be written");
    }
    writer.finish().expect("it can be finished");
    path
}

pub fn read(place: &Workplace, name: &str) -> Vec<u8> {
    std::fs::read(place.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[test]
fn a_model_is_split_and_merged() {
    let place = Workplace::new();
    model(&place, "model.gguf", 5, 4);
    assert_snapshot!(place.run("gristmill split --split-max-tensors 2 model.gguf s"), @r#"
    exit: 0
    --- stdout
    wrote s-00001-of-00003.gguf: 2 tensors, 1568 bytes
    wrote s-00002-of-00003.gguf: 2 tensors, 1408 bytes
    wrote s-00003-of-00003.gguf: 1 tensor, 1184 bytes
    "#);
    assert_snapshot!(place.run("gristmill merge s-00002-of-00003.gguf merged.gguf"), @r#"
    exit: 0
    --- stdout
    wrote merged.gguf: 5 tensors of 3 files, 3840 bytes
    "#);
    assert!(read(&place, "merged.gguf") == read(&place, "model.gguf"));
    assert_snapshot!(place.run("gristmill diff model.gguf s-00003-of-00003.gguf"), @r#"
    exit: 0
    --- stdout
    equal: 3 entries, 5 tensors
    "#);
    // A dry run tells the same and writes nothing.
    let before = place.files();
    assert_snapshot!(place.run("gristmill split --dry-run --split-max-size 1KiB --no-tensor-first-split model.gguf t"), @r#"
    exit: 0
    --- stdout
    would write t-00001-of-00006.gguf: 0 tensors, 256 bytes
    would write t-00002-of-00006.gguf: 1 tensor, 1184 bytes
    would write t-00003-of-00006.gguf: 1 tensor, 320 bytes
    would write t-00004-of-00006.gguf: 1 tensor, 1184 bytes
    would write t-00005-of-00006.gguf: 1 tensor, 320 bytes
    would write t-00006-of-00006.gguf: 1 tensor, 1184 bytes
    "#);
    assert_snapshot!(place.run("gristmill merge --dry-run s-00001-of-00003.gguf other.gguf"), @r#"
    exit: 0
    --- stdout
    would write other.gguf: 5 tensors of 3 files, 3840 bytes
    "#);
    assert_eq!(place.files(), before);
    // What is there stays.
    assert_snapshot!(place.run("gristmill split --split-max-tensors 2 model.gguf s.gguf"), @r#"
    exit: 1
    --- stderr
    error: s-00001-of-00003.gguf: already exists
    hint: choose another name, or give `--force` to replace it
    "#);
    assert_snapshot!(place.run("gristmill split --split-max-tensors 2 --split-max-size 1G model.gguf u"), @r#"
    exit: 2
    --- stderr
    error: the argument '--split-max-tensors <N>' cannot be used with '--split-max-size <SIZE>'

    Usage: gristmill split --split-max-tensors <N> <IN> <PREFIX>

    For more information, try '--help'.
    "#);
    assert_snapshot!(place.run("gristmill split --split-max-size 4X model.gguf u"), @r#"
    exit: 2
    --- stderr
    error: invalid value '4X' for '--split-max-size <SIZE>': "X" is none of the units K, M, G, T (decimal), KiB, MiB, GiB, TiB

    For more information, try '--help'.
    "#);
}

#[test]
fn the_reference_name_prints_and_exits_as_the_reference() {
    let place = Workplace::new();
    model(&place, "model.gguf", 5, 4);
    assert_snapshot!(place.run("llama-gguf-split --split-max-size 1M --dry-run model.gguf s"), @r#"
    exit: 0
    --- stdout
    n_split: 1
    split 00001: n_tensors = 5, total_size = 0M
    --- stderr
    gguf_split: 1 gguf split written with a total of 5 tensors.
    "#);
    assert_snapshot!(place.run("llama-gguf-split --split --split_max_tensors 3 model.gguf s"), @r#"
    exit: 0
    --- stdout
    n_split: 2
    split 00001: n_tensors = 3, total_size = 0M
    split 00002: n_tensors = 2, total_size = 0M
    Writing file s-00001-of-00002.gguf ... done
    Writing file s-00002-of-00002.gguf ... done
    --- stderr
    gguf_split: 2 gguf split written with a total of 5 tensors.
    "#);
    assert_snapshot!(place.run("llama-gguf-split --merge s-00001-of-00002.gguf out.gguf"), @r#"
    exit: 0
    --- stderr
    gguf_merge: s-00001-of-00002.gguf -> out.gguf
    gguf_merge: out.gguf merged from 2 split with 5 tensors.
    "#);
    assert_snapshot!(place.run("llama-gguf-split --merge s-00001-of-00002.gguf out.gguf"), @r#"
    exit: 1
    --- stderr
    gguf_merge: s-00001-of-00002.gguf -> out.gguf
    error: out.gguf: already exists
    hint: choose another name, or give `--force` to replace it
    "#);
    assert_snapshot!(place.run("llama-gguf-split model.gguf"), @r#"
    exit: 1
    --- stderr
    error: the following required arguments were not provided:
      <PREFIX>

    Usage: llama-gguf-split <IN> <PREFIX>

    For more information, try '--help'.
    "#);
    let merged = File::open(&place.path("out.gguf")).expect("it opens");
    assert_eq!(merged.metadata().u32("split.count").ok(), Some(Some(0)));
    let outcome =
        place.run("llama-gguf-split --merge --delete-splits s-00001-of-00002.gguf new.gguf");
    assert!(outcome.starts_with("exit: 0"), "{outcome}");
    assert_eq!(place.files(), ["model.gguf", "new.gguf", "out.gguf"]);
}

#[test]
fn b16_a_shell_pattern_destroys_no_shard() {
    let place = Workplace::new();
    model(&place, "model.gguf", 4, 4);
    for (count, line) in [
        (3, "--split-max-tensors 2 --no-tensor-first-split"),
        (2, "--split-max-tensors 2"),
    ] {
        let outcome = place.run(&format!("gristmill split {line} model.gguf s"));
        assert!(outcome.starts_with("exit: 0"), "{outcome}");
        let names: Vec<String> = (1..=count)
            .map(|n| format!("s-{n:05}-of-{count:05}.gguf"))
            .collect();
        let before: Vec<Vec<u8>> = names.iter().map(|name| read(&place, name)).collect();
        // What the shell makes of `s-0000*`, with and without an output behind it.
        for more in ["", " out.gguf"] {
            for (program, code) in [
                ("gristmill merge", [1, 2]),
                ("llama-gguf-split --merge", [1, 1]),
            ] {
                let line = format!("{program} {}{more}", names.join(" "));
                let outcome = place.run(&line);
                let refused = code
                    .iter()
                    .any(|code| outcome.starts_with(&format!("exit: {code}\n")));
                assert!(refused, "{line}\n{outcome}");
            }
        }
        let after: Vec<Vec<u8>> = names.iter().map(|name| read(&place, name)).collect();
        assert!(before == after);
        assert!(!place.path("out.gguf").exists());
    }
    let last = read(&place, "s-00002-of-00002.gguf");
    assert_snapshot!(place.run("gristmill merge s-00001-of-00002.gguf s-00002-of-00002.gguf --force"), @r#"
    exit: 2
    --- stderr
    error: one shard is enough, the others are found by their names: `gristmill merge s-00001-of-00002.gguf s.gguf`
    "#);
    assert!(last == read(&place, "s-00002-of-00002.gguf"));
}

#[test]
fn b18_what_is_wrong_with_a_set_is_named() {
    let place = Workplace::new();
    model(&place, "model.gguf", 3, 4);
    place.run("gristmill split --split-max-tensors 1 model.gguf s");
    let second = read(&place, "s-00002-of-00003.gguf");
    std::fs::remove_file(place.path("s-00002-of-00003.gguf")).expect("it is there");
    assert_snapshot!(place.run("gristmill merge s-00001-of-00003.gguf out.gguf"), @r#"
    exit: 1
    --- stderr
    error: s-00001-of-00003.gguf: is part of a set of 3 shards, of which 1 cannot be found: s-00002-of-00003.gguf
    hint: put all shards of the set into one folder, under their original names
    "#);
    place.write(
        "s-00002-of-00003.gguf",
        read(&place, "s-00001-of-00003.gguf"),
    );
    assert_snapshot!(place.run("gristmill merge s-00003-of-00003.gguf out.gguf"), @r#"
    exit: 1
    --- stderr
    error: s-00002-of-00003.gguf: is shard 1 of 3 by its metadata (split.no, which counts from 0), but its name says 2
    hint: a shard was renamed, or copied over another one: give each its own name back, and fetch those that are lost
    "#);
    place.write("s-00002-of-00003.gguf", second);
    std::fs::rename(
        place.path("s-00001-of-00003.gguf"),
        place.path("first.gguf"),
    )
    .expect("it is there");
    assert_snapshot!(place.run("gristmill merge first.gguf out.gguf"), @r#"
    exit: 1
    --- stderr
    error: first.gguf: is shard 1 of 3 by its metadata, but its name does not end in "-00001-of-00003.gguf"
    hint: give the file back its original name; shards find each other by their names
    "#);
    assert_snapshot!(place.run("gristmill merge model.gguf out.gguf"), @r#"
    exit: 1
    --- stderr
    error: model.gguf: is no part of a set of shards
    hint: name any file of a set, as in model-00001-of-00003.gguf
    "#);
}

#[test]
fn b19_byte_order_is_turned() {
    let place = Workplace::new();
    model(&place, "model.gguf", 3, 4);
    assert_snapshot!(place.run("gristmill endian model.gguf big.gguf big"), @r#"
    exit: 0
    --- stdout
    wrote big.gguf: big-endian, 3 entries, 3 tensors, 2560 bytes
    "#);
    assert_snapshot!(place.run("gristmill endian big.gguf back.gguf little"), @r#"
    exit: 0
    --- stdout
    wrote back.gguf: little-endian, 3 entries, 3 tensors, 2560 bytes
    "#);
    assert!(read(&place, "back.gguf") == read(&place, "model.gguf"));
    assert_snapshot!(place.run("gristmill endian model.gguf out.gguf little"), @r#"
    exit: 1
    --- stderr
    error: model.gguf: is little-endian already
    hint: there is nothing to convert; use the file as it is
    "#);
    assert_snapshot!(place.run("gristmill endian model.gguf out.gguf middle"), @r#"
    exit: 2
    --- stderr
    error: invalid value 'middle' for '<ORDER>'
      [possible values: big, little, native]

    For more information, try '--help'.
    "#);
    assert_snapshot!(place.run("gristmill diff model.gguf big.gguf"), @r#"
    exit: 0
    --- stdout
    equal: 3 entries, 3 tensors
    "#);
}

#[test]
fn hashes_are_printed_and_checked() {
    let place = Workplace::new();
    model(&place, "model.gguf", 2, 4);
    assert_snapshot!(place.run("gristmill hash model.gguf"), @r#"
    exit: 0
    --- stdout
    sha256    65ebbb173700c8d847533eb460d392bfc36a26ffc8345e72938dbb1ef770579d  model.gguf:blk.0.weight
    sha256    dcb95f2fb8d198759cef55d035397d16be8552d5cf0d45e655be67b192b1b0fa  model.gguf:blk.1.weight
    sha256    2cf8e961714616e57ff65abe05b354cda6dd0bcfa1fed8e93d740c4a84838e55  model.gguf
    file-sha256  95a4840c55e67c4b00b38774bb4e0c54e06e7c6a75fd07c3d0359db35c3c1dbd  model.gguf
    "#);
    assert_snapshot!(place.run("llama-gguf-hash --uuid --all --no-layer model.gguf"), @r#"
    exit: 0
    --- stdout
    xxh64     17900de655b11aca  model.gguf
    sha1      f425d118b73e2db9395233a2ddc43fb030265607  model.gguf
    sha256    2cf8e961714616e57ff65abe05b354cda6dd0bcfa1fed8e93d740c4a84838e55  model.gguf
    uuid      d0025644-44b9-57a3-a6ae-a2b9dc8becc6  model.gguf
    "#);
    let list = |line: &str| place.run(line).replace("exit: 0\n--- stdout\n", "");
    place.write("list", list("gristmill hash --all --uuid model.gguf"));
    place.write("sums", list("gristmill hash --sha256sum model.gguf"));
    assert_snapshot!(place.run("gristmill hash --check sums model.gguf"), @r#"
    exit: 0
    --- stdout
    file-sha256  95a4840c55e67c4b00b38774bb4e0c54e06e7c6a75fd07c3d0359db35c3c1dbd  model.gguf  -  Ok
    "#);
    assert!(
        place
            .run("gristmill hash --check list model.gguf")
            .starts_with("exit: 0")
    );
    assert_snapshot!(place.run("llama-gguf-hash --check list model.gguf"), @r#"
    exit: 0
    --- stdout
    manifest  list  sha256  sha1  xxh64  uuid
    sha256    65ebbb173700c8d847533eb460d392bfc36a26ffc8345e72938dbb1ef770579d  model.gguf:blk.0.weight  -  Ok
    sha256    dcb95f2fb8d198759cef55d035397d16be8552d5cf0d45e655be67b192b1b0fa  model.gguf:blk.1.weight  -  Ok
    sha256    2cf8e961714616e57ff65abe05b354cda6dd0bcfa1fed8e93d740c4a84838e55  model.gguf  -  Ok

    Verification results for list - Success
    "#);
    // The tool whose format it is, where the system has it.
    let theirs = std::process::Command::new("sha256sum")
        .args(["-c", "sums"])
        .current_dir(place.path(""))
        .status();
    assert!(theirs.map_or(true, |status| status.success()));
    // One byte of one tensor.
    let mut bytes = read(&place, "model.gguf");
    let last = bytes.len() - 40;
    bytes[last] ^= 1;
    place.write("model.gguf", bytes);
    assert_snapshot!(place.run("gristmill hash --check sums model.gguf"), @r#"
    exit: 1
    --- stdout
    file-sha256  a0f295b948722c2cb60802185f33ab613a776f653f86dd5618c473022f2b02c7  model.gguf  -  Mismatch
    --- stderr
    error: sums: 1 of 1 hashes differ
    hint: the file is not the one that was listed; fetch it again, or ask its source for a new list
    "#);
    let outcome = place.run("llama-gguf-hash --check list --sha1 model.gguf");
    assert!(
        outcome.starts_with("exit: 1") && outcome.ends_with("list - Failure"),
        "{outcome}"
    );
    assert!(
        outcome.contains("model.gguf:blk.0.weight  -  Ok"),
        "{outcome}"
    );
    // Lists that say nothing.
    place.write("words", "nothing here\n");
    let codes = ["words", "absent"].map(|list| {
        let outcome = place.run(&format!("llama-gguf-hash --check {list} model.gguf"));
        outcome.lines().next().map(str::to_owned)
    });
    assert_eq!(
        codes,
        [Some("exit: 4".to_owned()), Some("exit: 5".to_owned())]
    );
    assert_snapshot!(place.run("gristmill hash --check words model.gguf"), @r"
    exit: 1
    --- stderr
    error: words: holds no hash of a known kind
    hint: a list has lines such as `sha256 HASH NAME`, or those of sha256sum; `gristmill hash` writes one
    ");
}

#[test]
fn differences_are_shown_with_their_exit_codes() {
    let place = Workplace::new();
    model(&place, "a.gguf", 3, 4);
    model(&place, "b.gguf", 4, 5);
    std::fs::copy(place.path("a.gguf"), place.path("c.gguf")).expect("it can be copied");
    let mut bytes = read(&place, "c.gguf");
    let last = bytes.len() - 2;
    bytes[last] ^= 1;
    place.write("c.gguf", bytes);
    assert_snapshot!(place.run("gristmill diff a.gguf b.gguf"), @r#"
    exit: 1
    --- stdout
    metadata: 0 differ, 3 are equal
    tensors: 4 differ, 0 are equal
    ~ blk.0.weight: f32 [64, 4] -> f32 [64, 5]
    ~ blk.1.weight: q4_0 [64, 4] -> q4_0 [64, 5]
    ~ blk.2.weight: f32 [64, 4] -> f32 [64, 5]
    + blk.3.weight: q4_0 [64, 5]
    "#);
    assert_snapshot!(place.run("gristmill diff a.gguf c.gguf"), @r#"
    exit: 1
    --- stdout
    metadata: 0 differ, 3 are equal
    tensors: 1 differ, 2 are equal
    ~ blk.2.weight: f32 [64, 4], 1 bytes differ, 1 values differ, most by 3.5527137e-15 at [63, 3]: 5.4428906e-13 -> 5.4073635e-13
    "#);
    assert_snapshot!(place.run("gristmill diff --json a.gguf c.gguf"), @r#"
    exit: 1
    --- stdout
    {
      "equal": false,
      "metadata": [],
      "metadata_order": null,
      "n_equal_entries": 3,
      "tensors": [
        {
          "name": "blk.2.weight",
          "change": "changed",
          "a": {
            "type": "f32",
            "dims": [
              64,
              4
            ]
          },
          "b": {
            "type": "f32",
            "dims": [
              64,
              4
            ]
          },
          "n_bytes_different": 1,
          "values": {
            "largest": 3.552713678800501e-15,
            "index": 255,
            "place": [
              63,
              3
            ],
            "a": 5.442890604369366e-13,
            "b": 5.407363467581361e-13,
            "n_different": 1,
            "n_not_finite": 0,
            "first_not_finite": null
          }
        }
      ],
      "tensor_order": null,
      "n_equal_tensors": 2
    }
    "#);
    assert_snapshot!(place.run("gristmill diff --metadata-only a.gguf c.gguf"), @r#"
    exit: 0
    --- stdout
    equal: 3 entries, tensors were not compared
    "#);
    assert_snapshot!(place.run("gristmill diff a.gguf absent.gguf"), @r#"
    exit: 2
    --- stderr
    error: absent.gguf: no such file
    hint: check the path: a model is one .gguf file, or any of its shards
    "#);
    assert_snapshot!(place.run("gristmill diff a.gguf"), @r#"
    exit: 2
    --- stderr
    error: the following required arguments were not provided:
      <B>

    Usage: gristmill diff <A> <B>

    For more information, try '--help'.
    "#);
}

#[test]
fn golden_files_split_as_the_reference_splits_them() {
    let Some(golden) = gristmill_golden::folder("") else {
        return;
    };
    let place = Workplace::new();
    let source = golden.join("convert/llama/llama-f32.gguf");
    let source = source.to_string_lossy();
    // Of the reference's llama-gguf-split (build 11434) on the same file: the beginnings of the SHA-256 of its shards. What
    // it merges them to is always the same file.
    const SHARDS: [(&str, &str); 4] = [
        ("--split-max-tensors 8", "60b3acbe7cbe5cb79c3d74d7"),
        (
            "--split-max-tensors 5 --no-tensor-first-split",
            "ebac90be3d1c979007ae31bb6c93407c853b512228f0305b",
        ),
        (
            "--split-max-size 1M",
            "3b7494785be4271026efbb58520fd55f0a7344fa3fc83da688ea10d6f0a97a1c58572926",
        ),
        (
            "--split-max-size 2M --no-tensor-first-split",
            "f74cbcd1216562f96253e0081ac9e44726b84b23",
        ),
    ];
    for (flags, expected) in SHARDS {
        let outcome = place.run(&format!("gristmill split {flags} {source} s"));
        assert!(outcome.starts_with("exit: 0"), "{outcome}");
        let names: Vec<String> = place
            .files()
            .into_iter()
            .filter(|name| name.starts_with("s-"))
            .collect();
        let mut hashes = String::new();
        for name in &names {
            let sums = place.run(&format!("gristmill hash --alone --sha256sum {name}"));
            let sum = sums.lines().nth(2).unwrap_or_default();
            hashes += &sum[..8];
        }
        assert_eq!(hashes, expected, "{flags}");
        let outcome = place.run(&format!("gristmill merge {} merged.gguf", names[0]));
        assert!(outcome.starts_with("exit: 0"), "{outcome}");
        assert!(read(&place, "merged.gguf") == std::fs::read(&*source).expect("it is there"));
        let merged = place.run(&format!(
            "llama-gguf-split --merge {} theirs.gguf",
            names[0]
        ));
        assert!(merged.starts_with("exit: 0"), "{merged}");
        let sums = place.run("gristmill hash --sha256sum theirs.gguf");
        assert!(sums.contains("\n30c5382d"), "{sums}");
        for name in names
            .iter()
            .map(String::as_str)
            .chain(["merged.gguf", "theirs.gguf"])
        {
            std::fs::remove_file(place.path(name)).expect("it is there");
        }
    }
    gristmill_golden::compared(SHARDS.len(), "split sets");
}

/// What cannot be printed is trouble, and not a difference.
#[test]
#[cfg(target_os = "linux")]
fn a_comparison_that_cannot_be_printed() {
    let place = Workplace::new();
    place.write("a.gguf", crate::bytes::sample().build());
    for json in [None, Some("--json")] {
        let full = std::fs::File::options().write(true).open("/dev/full");
        let status = place
            .command("gristmill")
            .args(["diff", "a.gguf", "a.gguf"])
            .args(json)
            .stdout(full.expect("the system has it"))
            .stderr(std::process::Stdio::null())
            .status()
            .expect("it starts");
        assert_eq!(status.code(), Some(2), "{json:?}");
    }
}
