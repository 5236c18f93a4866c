//! Hashes through the binary: lists that nothing in a file can forge, and that every command reads.

use std::time::{Duration, Instant};

use gristmill_gguf::{File, Metadata, TensorPlan, WriteOptions, Writer};

use crate::containers::model;
use crate::fixtures::small_model;
use crate::harness::Workplace;

fn list(place: &Workplace, line: &str) -> String {
    let shown = place.run(line);
    let list = shown.strip_prefix("exit: 0\n--- stdout\n");
    format!("{}\n", list.unwrap_or_else(|| panic!("{shown}")))
}

/// SHA-256 named was not the default that help calls it: the line for the whole file was missing.
#[test]
fn whole_files_are_hashed_with_sha256() {
    let place = Workplace::new();
    model(&place, "m.gguf", 1, 4);
    let kinds = |flags: &str| {
        let lines = list(&place, &format!("gristmill hash --no-layer {flags}m.gguf"));
        let kinds = lines.lines().filter_map(|line| line.split(' ').next());
        kinds.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(kinds(""), "sha256 file-sha256");
    assert_eq!(kinds("--sha256 "), "sha256 file-sha256");
    assert_eq!(kinds("--all "), "xxh64 sha1 sha256 file-sha256");
    assert_eq!(kinds("--sha1 --uuid "), "sha1 uuid");
    // The reference has no such line, and another default; its help says so under its name.
    let theirs = list(&place, "llama-gguf-hash --no-layer --sha256 m.gguf");
    assert_eq!(theirs.lines().count(), 1, "{theirs}");
    let help = place.run("llama-gguf-hash --help");
    let examples = help.split_once("\nExamples:\n").expect("it has some").1;
    assert!(
        examples.starts_with("  llama-gguf-hash model.gguf\n"),
        "{help}"
    );
}

#[test]
fn a_renamed_file_is_checked_against_its_list() {
    let place = Workplace::new();
    model(&place, "m.gguf", 3, 4);
    place.write("list", list(&place, "gristmill hash m.gguf"));
    place.write("sums", list(&place, "gristmill hash --sha256sum m.gguf"));
    std::fs::copy(place.path("m.gguf"), place.path("n.gguf")).expect("it can be copied");
    place.run("gristmill split --split-max-tensors 2 m.gguf s");
    for line in [
        "--check list n.gguf",
        "--check sums n.gguf",
        "--data-only --check list s-00001-of-00002.gguf",
    ] {
        let shown = place.run(&format!("gristmill hash {line}"));
        let note = "is a list of m.gguf; this file has another name and is compared all the same";
        assert!(
            shown.starts_with("exit: 0") && shown.contains(note),
            "{line}: {shown}"
        );
    }
    let shown = place.run("gristmill hash --json --check sums n.gguf");
    let (_, json) = shown.split_once("--- stdout\n").expect("it prints");
    let json = json.split("\n---").next().unwrap_or_default();
    let json: serde_json::Value = serde_json::from_str(json).expect("it is JSON");
    assert_eq!(
        (&json["n_equal"], &json["n_different"]),
        (&1.into(), &0.into())
    );
    assert_eq!(json["hashes"][0]["outcome"], "Ok");
    std::fs::remove_file(place.path("n.gguf")).expect("it is there");
    model(&place, "n.gguf", 3, 5);
    let shown = place.run("gristmill hash --check list n.gguf");
    assert!(
        shown.starts_with("exit: 1") && shown.contains("error: list: 5 of 5 hashes differ"),
        "{shown}"
    );
}

/// Every file of a set is compared, under whatever names: a shard whose header was damaged passed, as nothing in the list
/// was paired with it.
#[test]
fn a_renamed_set_is_checked_in_whole() {
    let place = Workplace::new();
    model(&place, "m.gguf", 5, 4);
    place.run("gristmill split --split-max-tensors 2 m.gguf s");
    let name = |prefix: &str, n: usize| format!("{prefix}-0000{n}-of-00003.gguf");
    place.write("one", list(&place, "gristmill hash m.gguf"));
    for (path, flags) in [
        ("all", ""),
        ("whole", "--no-layer "),
        ("sums", "--sha256sum "),
    ] {
        let line = format!("gristmill hash {flags}{}", name("s", 1));
        place.write(path, list(&place, &line));
    }
    for n in 1..=3 {
        std::fs::rename(place.path(&name("s", n)), place.path(&name("t", n))).expect("it is there");
    }
    let check = |flags: &str| place.run(&format!("gristmill hash {flags} {}", name("t", 2)));
    let wrong = |flags: &str, error: &str| {
        let shown = check(flags);
        assert!(
            shown.starts_with("exit: 1") && shown.contains(error),
            "{flags}: {shown}"
        );
    };
    let lists = ["--check all", "--check whole", "--check sums"];
    let data = "--data-only --check one";
    for flags in lists.into_iter().chain([data]) {
        assert!(check(flags).starts_with("exit: 0"), "{flags}");
    }
    // Of one file, it says nothing of the headers of three.
    let lacks =
        "error: one: lacks the file-sha256 of 3 of 3 files (the first is t-00001-of-00003.gguf)";
    wrong("--check one", lacks);
    let path = place.path(&name("t", 3));
    let start = File::open(&path).expect("it is sound").data_offset() as usize;
    let mut bytes = std::fs::read(&path).expect("it is there");
    bytes[start - 1] ^= 1;
    std::fs::write(&path, bytes).expect("it is writable");
    for flags in lists {
        wrong(flags, "t-00003-of-00003.gguf  -  Mismatch");
    }
    assert!(check(data).starts_with("exit: 0"));
    // Among other files nothing tells which line is that of the shard.
    let sums = std::fs::read_to_string(place.path("sums")).expect("it is there");
    place.write("more", format!("{sums}{}  other.gguf\n", "0".repeat(64)));
    wrong("--check more", "lacks the file-sha256 of 1 of 3 files");
    wrong("--data-only --check sums", "has no hash of tensor data");
}

/// Hashes of tensor data alone leave metadata out: such a list is one that was cut, or is asked for by name.
#[test]
fn without_the_hash_of_the_file_metadata_may_differ() {
    let place = Workplace::new();
    model(&place, "m.gguf", 3, 4);
    let whole = list(&place, "gristmill hash m.gguf");
    let theirs = list(&place, "llama-gguf-hash m.gguf");
    place.run("gristmill edit m.gguf --set general.name=Others");
    let last = whole.rfind("file-sha256").expect("it is listed");
    let cuts = [
        &whole[..last],
        &whole[..last + "file-sha256".len()],
        &whole[..whole.len() - "uf\n".len()],
        &theirs,
    ];
    for cut in cuts {
        place.write("l", cut);
        let shown = place.run("gristmill hash --check l m.gguf");
        let is_told = shown.contains("l: line 5 is cut short")
            || shown.contains("l: lacks the file-sha256 of m.gguf\nhint: the list was cut short");
        assert!(shown.starts_with("exit: 1") && is_told, "{cut}: {shown}");
    }
    for flags in ["", "--no-layer "] {
        let shown = place.run(&format!(
            "gristmill hash {flags}--data-only --check l m.gguf"
        ));
        assert!(
            shown.starts_with("exit: 0") && !shown.contains("file-sha256"),
            "{shown}"
        );
    }
    // A tensor that the list has and the file has not.
    let line = theirs.replace("blk.2.weight", "blk.3.weight");
    let line = line
        .lines()
        .find(|line| line.contains("blk.3"))
        .expect("it was replaced");
    place.write(
        "l",
        format!(
            "{}{line}\n",
            theirs.replace(theirs.lines().last().expect("of all"), "")
        ),
    );
    let shown = place.run("gristmill hash --data-only --check l m.gguf");
    let error = "error: l: has the xxh64 of m.gguf:blk.3.weight, which is not there";
    assert!(
        shown.starts_with("exit: 1") && shown.contains(error),
        "{shown}"
    );
}

#[test]
fn a_list_that_contradicts_itself_is_refused() {
    let place = Workplace::new();
    model(&place, "m.gguf", 1, 4);
    let own = list(&place, "gristmill hash m.gguf");
    let zeros = "0".repeat(64);
    place.write("l", format!("{own}\n{zeros}  ./m.gguf\n"));
    for line in ["hash --check l m.gguf", "check m.gguf --checksums l"] {
        let shown = place.run(&format!("gristmill {line}"));
        let error = "error: l: lines 3 and 5 give different hashes of \"m.gguf\"";
        assert!(
            shown.starts_with("exit: 1") && shown.contains(error),
            "{shown}"
        );
    }
    let entry = |hash: &str| format!(r#"{{"name": "m.gguf", "sha256": "{hash}"}}"#);
    place.write(
        "l.json",
        format!(
            r#"{{"files": [{}, {}]}}"#,
            entry(&zeros),
            entry(&"1".repeat(64))
        ),
    );
    let shown = place.run("gristmill check m.gguf --checksums l.json");
    let error = "l.json: is no list of hashes: it gives two hashes of \"m.gguf\"";
    assert!(
        shown.starts_with("exit: 1") && shown.contains(error),
        "{shown}"
    );
    // Said twice, it is the same.
    let hash = own.lines().last().and_then(|line| line.split("  ").nth(1));
    let again = hash.expect("of the file").to_uppercase();
    place.write("l", format!("{own}{again}  ./m.gguf\n"));
    let shown = place.run("gristmill hash --check l m.gguf");
    assert!(shown.starts_with("exit: 0"), "{shown}");
}

/// A list that lost lines: what is left of it is no proof.
#[test]
fn a_list_that_was_cut_is_told_of() {
    let place = Workplace::new();
    model(&place, "m.gguf", 3, 4);
    place.run("gristmill split --split-max-tensors 2 m.gguf s");
    let (one, set) = (
        list(&place, "gristmill hash m.gguf"),
        list(&place, "gristmill hash s-00001-of-00002.gguf"),
    );
    let sums = list(&place, "gristmill hash --sha256sum s-00001-of-00002.gguf");
    let checked = |text: &str, file: &str| {
        place.write("l", text);
        let shown = place.run(&format!("gristmill hash --check l {file}"));
        let error = shown.lines().find(|line| line.starts_with("error:"));
        (
            shown.starts_with("exit: 0"),
            error.unwrap_or_default().to_owned(),
        )
    };
    let until = |text: &str, n: usize| text.split_inclusive('\n').take(n).collect::<String>();
    let lacks = |(is_ok, error): (bool, String), what: &str| {
        assert!(!is_ok && error.contains(what), "{what}: {error}");
    };
    let cut = checked(&one[..one.len() - 30], "m.gguf");
    lacks(cut, "l: line 5 is cut short");
    let cut = checked(&until(&one, 2), "m.gguf");
    lacks(
        cut,
        "l: lacks the sha256 of 1 of 3 tensors (the first is m.gguf:blk.2.weight)",
    );
    // Inside the name of a tensor.
    let end = one.find("k.2.weight").expect("it is listed");
    let cut = checked(&one[..end], "m.gguf");
    lacks(cut, "lacks the sha256 of 1 of 3 tensors");
    let n = set.lines().count();
    let cut = checked(&until(&set, n - 1), "s-00002-of-00002.gguf");
    lacks(
        cut,
        "lacks the file-sha256 of 1 of 2 files (the first is s-00002-of-00002.gguf)",
    );
    let cut = checked(&sums[..sums.len() - 5], "s-00001-of-00002.gguf");
    lacks(cut, "lacks the file-sha256 of 1 of 2 files");
    // Of sha256sum, and of some files of the set.
    let first = until(&sums, 1);
    for text in [&*first, first.trim_end()] {
        let some = checked(text, "s-00001-of-00002.gguf");
        lacks(
            some,
            "lacks the file-sha256 of 1 of 2 files (the first is s-00002-of-00002.gguf)",
        );
    }
    for (text, file) in [
        (&*first, "--alone s-00001-of-00002.gguf"),
        (&*set, "--alone s-00001-of-00002.gguf"),
        (&*set, "--alone s-00002-of-00002.gguf"),
        // Of no tensors.
        (one.lines().nth(4).expect("the whole"), "m.gguf"),
        (one.trim_end(), "m.gguf"),
        // Without its last line break, and with blanks, rules and words behind.
        (&format!("{one}  "), "m.gguf"),
        (&format!("{one}---"), "m.gguf"),
        (&format!("{one}added"), "m.gguf"),
    ] {
        assert_eq!(checked(text, file), (true, String::new()), "{text}");
    }
}

/// A tensor's name once wrote a line of its own into the list.
#[test]
fn a_name_forges_no_line() {
    let place = Workplace::new();
    let forged = "xxh64     0123456789abcdef  m.gguf";
    let tensor = TensorPlan {
        name: format!("a\n{forged}"),
        dims: vec![8],
        ty: gristmill_quant::F32,
    };
    let path = place.path("m.gguf");
    let options = WriteOptions::default();
    let mut writer =
        Writer::create(&path, &Metadata::new(), &[tensor], &options).expect("it can be begun");
    writer.write(&[0; 32]).expect("it can be written");
    writer.finish().expect("it can be finished");
    let lines = list(&place, "gristmill hash --xxh64 m.gguf");
    assert!(!lines.lines().any(|line| line == forged), "{lines}");
    assert!(lines.contains("m.gguf:a\\nxxh64"), "{lines}");
    // Such a list is read all the same.
    place.write("list", &lines);
    let checked = place.run("gristmill hash --data-only --check list m.gguf");
    assert!(checked.starts_with("exit: 0"), "{checked}");
    assert_eq!(checked.matches("  -  Ok").count(), 2, "{checked}");
}

#[test]
fn a_list_of_hash_is_a_list_for_check() {
    let place = Workplace::new();
    model(&place, "m.gguf", 2, 4);
    place.write("l", list(&place, "gristmill hash m.gguf"));
    let checked = place.run("gristmill check m.gguf --checksums l");
    assert!(checked.contains("note[hash-match]"), "{checked}");
    // Two files of one name: that of the nearer path counts.
    for folder in ["a", "b"] {
        std::fs::create_dir(place.path(folder)).expect("a folder can be made");
        model(
            &place,
            &format!("{folder}/m.gguf"),
            1 + u64::from(folder == "b"),
            4,
        );
    }
    let lines = ["a", "b"].map(|folder| {
        list(
            &place,
            &format!("gristmill hash --sha256sum {folder}/m.gguf"),
        )
    });
    place.write("sums", lines.concat());
    for folder in ["a", "b"] {
        let checked = place.run(&format!("gristmill check {folder}/m.gguf --checksums sums"));
        assert!(checked.contains("note[hash-match]"), "{checked}");
        let checked = place.run(&format!("gristmill hash --check sums {folder}/m.gguf"));
        assert!(checked.starts_with("exit: 0"), "{checked}");
    }
}

#[cfg(unix)]
#[test]
fn a_list_without_an_end_is_refused() {
    let place = Workplace::new();
    model(&place, "m.gguf", 1, 4);
    let started = Instant::now();
    for line in [
        "gristmill hash --check /dev/zero m.gguf",
        "gristmill check m.gguf --checksums /dev/zero",
    ] {
        let shown = place.run(line);
        assert!(shown.starts_with("exit: 1"), "{shown}");
        assert!(
            shown.contains("/dev/zero: is not a regular file"),
            "{shown}"
        );
    }
    assert!(started.elapsed() < Duration::from_secs(30));
}

#[test]
fn threads_are_counted_in_one_way() {
    let place = Workplace::new();
    model(&place, "m.gguf", 1, 4);
    for (command, told) in [
        ("check m.gguf", "m.gguf: 2 errors"),
        ("hash m.gguf", "file-sha256"),
        ("diff m.gguf m.gguf", "equal: "),
    ] {
        let shown = place.run(&format!("gristmill {command} --threads 200000"));
        assert!(
            shown.starts_with("exit: 2") && shown.contains("a whole number up to 512"),
            "{shown}"
        );
        let with = |threads: &str| place.run(&format!("gristmill {command} -t {threads}"));
        let one = with("1");
        assert!(one.contains(told), "{one}");
        assert_eq!(with("0"), one);
    }
}

/// What is left out of a list was still counted behind it.
#[test]
fn without_notes_nothing_is_said_of_notes() {
    let place = Workplace::new();
    let mut metadata = Metadata::new();
    metadata.set("general.architecture", "llama");
    let mut tokens: Vec<String> = vec![String::new(); 15];
    tokens.push("a".to_owned());
    metadata.set("tokenizer.ggml.model", "llama");
    metadata.set("tokenizer.ggml.tokens", tokens);
    let path = place.path("m.gguf");
    let options = WriteOptions::default();
    let writer = Writer::create(&path, &metadata, &[], &options).expect("it can be begun");
    writer.finish().expect("it can be finished");
    let shown = place.run("gristmill check m.gguf");
    assert!(shown.contains("and 5 more of empty-token"), "{shown}");
    let shown = place.run("gristmill check m.gguf --no-notes");
    assert!(!shown.contains("empty-token"), "{shown}");
}

#[cfg(target_os = "linux")]
#[test]
fn names_in_a_list_are_the_bytes_of_the_names() {
    use std::os::unix::ffi::OsStrExt as _;
    let place = Workplace::new();
    for (bytes, line_end) in [
        (&b"b\xff.gguf"[..], &b"  b\xff.gguf\n"[..]),
        (b"a\\b\n.gguf", b"  a\\\\b\\n.gguf\n"),
    ] {
        let name = std::ffi::OsStr::from_bytes(bytes);
        std::fs::copy(small_model(), place.path(".").join(name)).expect("it is copied");
        let mut command = place.command("gristmill");
        let output = command.args(["hash", "--sha256sum"]).arg(name).output();
        let line = output.expect("it runs").stdout;
        assert!(line.ends_with(line_end), "{line:?}");
        assert_eq!(line.starts_with(b"\\"), bytes.contains(&b'\\'));
    }
}
