//! Sets of shards through the binary: what is missing, misplaced or only linked to.

use insta::assert_snapshot;

use crate::containers::{model, read};
use crate::harness::Workplace;

/// A model, and the three shards `s-…` of it.
fn set() -> Workplace {
    let place = Workplace::new();
    model(&place, "m.gguf", 3, 4);
    let outcome = place.run("gristmill split --split-max-tensors 1 m.gguf s");
    assert!(outcome.starts_with("exit: 0"), "{outcome}");
    place
}

const SHARDS: [&str; 3] = [
    "s-00001-of-00003.gguf",
    "s-00002-of-00003.gguf",
    "s-00003-of-00003.gguf",
];

/// The third of three was called the second where the second was missing.
#[test]
fn shards_keep_their_numbers_where_others_are_missing() {
    let place = set();
    std::fs::remove_file(place.path(SHARDS[1])).expect("it is there");
    let shown = place.run("gristmill inspect s-00001-of-00003.gguf --tensors");
    assert!(
        shown.contains("\n    3               1.16 KiB        1  s-00003-of-00003.gguf\n"),
        "{shown}"
    );
    assert!(shown.contains("  3:160           blk.2.weight"), "{shown}");
    let shown = place.run("gristmill inspect s-00001-of-00003.gguf --json");
    let (_, json) = shown.split_once("--- stdout\n").expect("it prints");
    let json = json.split("\n---").next().unwrap_or_default();
    let json: serde_json::Value = serde_json::from_str(json).expect("it is JSON");
    assert_eq!(json["tensors"][1]["shard"], 2);
    assert_eq!(json["summary"]["shards"][1]["shard"], 2);
}

#[test]
fn a_shard_with_a_number_beyond_its_set_is_named() {
    let place = set();
    place.write("s-00003-of-00002.gguf", read(&place, SHARDS[2]));
    let outcome = place.run("gristmill edit s-00003-of-00002.gguf --set split.count=2 --force");
    assert!(outcome.starts_with("exit: 0"), "{outcome}");
    assert_snapshot!(place.run("gristmill merge s-00003-of-00002.gguf o.gguf"), @r"
    exit: 1
    --- stderr
    error: s-00003-of-00002.gguf: is shard 3 by its name and metadata, but its set has 2 (split.count)
    hint: the folder mixes shards of different sets; fetch all shards again from one source
    ");
}

/// The hint named a shard as the output, a command that is refused.
#[test]
fn the_hint_for_all_shards_is_a_command_that_works() {
    let place = set();
    let hint = |line: &str| {
        let shown = place.run(line);
        let (_, hint) = shown.split_once("by their names: `").expect("it is told");
        hint.split('`').next().unwrap_or_default().to_owned()
    };
    let all = format!("gristmill merge {}", SHARDS.join(" "));
    assert_eq!(hint(&all), "gristmill merge s-00001-of-00003.gguf s.gguf");
    let two = format!("gristmill merge {} {}", SHARDS[0], SHARDS[1]);
    assert_eq!(hint(&two), hint(&all));
    let outcome = place.run(&hint(&all));
    assert!(outcome.starts_with("exit: 0"), "{outcome}");
    // That name is taken now.
    let other = "gristmill merge s-00001-of-00003.gguf s-merged.gguf";
    assert_eq!(hint(&all), other);
}

/// Under the program's own name the dry run told what was done.
#[test]
fn a_dry_run_of_split_merge_says_would() {
    let place = set();
    assert_snapshot!(place.run("gristmill split --merge --dry-run s-00001-of-00003.gguf o.gguf"), @r"
    exit: 0
    --- stdout
    would write o.gguf: 3 tensors of 3 files, 2624 bytes
    ");
    assert!(!place.path("o.gguf").exists());
}

/// A download cache keeps files under other names and links to them.
#[cfg(unix)]
#[test]
fn of_links_only_the_links_are_deleted() {
    let place = set();
    std::fs::create_dir(place.path("blobs")).expect("a folder can be made");
    for (index, name) in SHARDS.iter().enumerate().skip(1) {
        let blob = format!("blobs/{index}");
        std::fs::rename(place.path(name), place.path(&blob)).expect("it is there");
        std::os::unix::fs::symlink(&blob, place.path(name)).expect("a link can be made");
    }
    assert_snapshot!(place.run("gristmill merge --delete-splits s-00001-of-00003.gguf o.gguf"), @r"
    exit: 0
    --- stdout
    wrote o.gguf: 3 tensors of 3 files, 2560 bytes
    --- stderr
    deleted the 3 files of the set
    note: 2 of them were links, and only the links are gone; kept are the files that they led to: [DIR]/blobs/1, [DIR]/blobs/2
    ");
    assert_eq!(place.files(), ["blobs/1", "blobs/2", "m.gguf", "o.gguf"]);
    assert!(SHARDS.iter().all(|name| !place.path(name).is_symlink()));
    assert!(read(&place, "o.gguf") == read(&place, "m.gguf"));
}

/// The files came to lie beside the folder.
#[test]
fn a_folder_is_no_prefix() {
    let place = Workplace::new();
    model(&place, "m.gguf", 1, 4);
    std::fs::create_dir(place.path("shards")).expect("a folder can be made");
    assert_snapshot!(place.run("gristmill split m.gguf shards"), @r"
    exit: 1
    --- stderr
    error: shards: is a folder, and files of a set are named after a prefix
    hint: give the folder and the beginning of the names, as in shards/model; or shards.gguf for shards-00001-of-0000N.gguf
    ");
    // Unless it is the model's own name, which its checkpoint's folder may have too.
    std::fs::create_dir(place.path("m")).expect("a folder can be made");
    for prefix in ["shards.gguf", "m"] {
        let outcome = place.run(&format!("gristmill split m.gguf {prefix}"));
        assert!(outcome.starts_with("exit: 0"), "{outcome}");
    }
    let expected = [
        "m-00001-of-00001.gguf",
        "m.gguf",
        "shards-00001-of-00001.gguf",
    ];
    assert_eq!(place.files(), expected);
}

/// Where nothing but NaN differs, an element that does not differ at all was shown with a difference of 0.
#[test]
fn a_difference_of_nan_is_no_difference_of_zero() {
    let place = Workplace::new();
    model(&place, "m.gguf", 1, 4);
    let mut bytes = read(&place, "m.gguf");
    let last = bytes.len() - 4;
    bytes[last..].copy_from_slice(&f32::NAN.to_le_bytes());
    place.write("n.gguf", bytes);
    let shown = place.run("gristmill diff m.gguf n.gguf");
    let expected =
        "1 values differ, 1 are NaN or infinite in one of the two, the first at [63, 3]: ";
    assert!(
        shown.contains(expected) && shown.ends_with(" -> NaN"),
        "{shown}"
    );
    let shown = place.run("gristmill diff --json m.gguf n.gguf");
    let (_, json) = shown.split_once("--- stdout\n").expect("it prints");
    let json: serde_json::Value = serde_json::from_str(json).expect("it is JSON");
    let values = &json["tensors"][0]["values"];
    assert_eq!(
        (&values["largest"], &values["place"]),
        (&serde_json::Value::Null, &serde_json::Value::Null)
    );
    assert_eq!(
        values["first_not_finite"]["place"],
        serde_json::json!([63, 3])
    );
    assert_eq!(values["first_not_finite"]["b"], "NaN");
}

/// Bytes that are no text.
#[test]
fn differences_are_json_whatever_bytes_strings_have() {
    let place = Workplace::new();
    for (name, byte) in [("a.gguf", 0xff), ("b.gguf", 0xfe)] {
        let file = crate::bytes::Bytes::new()
            .entry_string("general.architecture", b"llama")
            .entry_string("note", &[b'x', byte, b'"']);
        place.write(name, file.build());
    }
    let mut command = place.command("gristmill");
    let output = command
        .args(["diff", "--json", "a.gguf", "b.gguf"])
        .output();
    let output = output.expect("the binary starts");
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    let entry = &json["metadata"][0];
    assert_eq!(
        (&entry["a"]["value"], &entry["b"]["value"]),
        (
            &serde_json::json!({ "bytes": "78ff22" }),
            &serde_json::json!({ "bytes": "78fe22" })
        )
    );
}

/// Room for edits was a difference of 64 KiB of spaces.
#[test]
fn room_for_edits_is_no_difference() {
    let place = Workplace::new();
    model(&place, "m.gguf", 1, 4);
    std::fs::copy(place.path("m.gguf"), place.path("r.gguf")).expect("it can be copied");
    let outcome = place.run("gristmill edit r.gguf --reserve 64KiB");
    assert!(outcome.starts_with("exit: 0"), "{outcome}");
    let shown = place.run("gristmill inspect --metadata r.gguf");
    let expected = "gristmill.reserved = room for later edits of the metadata (65536 bytes)";
    assert!(shown.contains(expected), "{shown}");
    assert_snapshot!(place.run("gristmill diff m.gguf r.gguf"), @r"
    exit: 0
    --- stdout
    equal: 3 entries, 1 tensor
    ");
}
