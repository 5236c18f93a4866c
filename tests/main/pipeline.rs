//! `pipeline` and `demo` lose nothing: neither what was there before, nor what they made.

use std::path::Path;

use crate::harness::{Workplace, tiny};

/// A copy of the embedded checkpoint at this place.
fn checkpoint(place: &Workplace, name: &str) {
    for entry in std::fs::read_dir(tiny()).expect("it can be read").flatten() {
        let bytes = std::fs::read(entry.path()).expect("it can be read");
        let file = Path::new(name).join(entry.file_name());
        place.write(&file.to_string_lossy(), bytes);
    }
}

/// All files with their bytes, to see whether anything changed.
fn contents(place: &Workplace) -> Vec<(String, Vec<u8>)> {
    let read = |name: String| {
        let bytes = std::fs::read(place.path(&name)).expect("it can be read");
        (name, bytes)
    };
    place.files().into_iter().map(read).collect()
}

#[test]
fn folders_of_which_one_would_replace_another_are_refused() {
    let place = Workplace::new();
    checkpoint(&place, "out/Tiny-Q4_0");
    checkpoint(&place, "deep/Tiny-Q4_0/source");
    checkpoint(&place, "models/bf16");
    std::os::unix::fs::symlink("out", place.path("link")).expect("a link can be made");
    let before = contents(&place);
    for words in [
        "out/Tiny-Q4_0 Tiny Q4_0 --models m --reports out",
        "out/Tiny-Q4_0 Tiny Q4_0 --models m --reports link",
        "deep/Tiny-Q4_0/source Tiny Q4_0 --models m --reports deep",
        "models/bf16 Tiny Q4_0",
        "models/bf16 Tiny Q4_0 --models r/Tiny-Q4_0 --reports r",
    ] {
        for force in ["", " --force"] {
            let outcome = place.run(&format!("gristmill pipeline {words}{force}"));
            assert!(outcome.starts_with("exit: 1"), "{words}{force}\n{outcome}");
            assert!(outcome.contains("is or holds the folder"), "{outcome}");
            assert!(outcome.contains("hint: "), "{outcome}");
            assert!(contents(&place) == before, "{words}{force} changed a file");
        }
    }
}

#[test]
fn a_folder_with_more_than_reports_is_not_replaced() {
    let place = Workplace::new();
    checkpoint(&place, "source");
    place.write("reports/Tiny-Q4_0/notes.txt", "precious");
    let before = contents(&place);
    let outcome = place.run("gristmill pipeline source Tiny Q4_0 --force");
    assert!(outcome.starts_with("exit: 1"), "{outcome}");
    assert!(outcome.contains("it holds \"notes.txt\""), "{outcome}");
    assert!(contents(&place) == before);
}

#[test]
fn what_cannot_be_made_is_refused_before_anything_is_written() {
    let place = Workplace::new();
    checkpoint(&place, "source");
    let before = contents(&place);
    for words in [
        "nowhere Tiny Q4_0",
        "source Tiny IQ2_XXS",
        "source Tiny NOTHING",
        "source Ti\nny Q4_0",
        "source . Q4_0",
    ] {
        let words: Vec<&str> = words.split(' ').collect();
        let outcome = place.run_words(&[&["gristmill", "pipeline"], &*words].concat());
        assert!(outcome.starts_with("exit: 1"), "{words:?}\n{outcome}");
        assert!(contents(&place) == before, "{words:?} left something");
        assert!(!place.path("reports").exists(), "{words:?}");
        assert!(!place.path("models").exists(), "{words:?}");
    }
}

/// Nobody reads the inside of a program: the logs are what the commands print.
#[test]
fn the_logs_are_what_the_commands_print() {
    let place = Workplace::new();
    checkpoint(&place, "source");
    let outcome = place.run("gristmill pipeline source Tiny Q4_0 -t 1");
    assert!(outcome.starts_with("exit: 0"), "{outcome}");
    for (line, log, made) in [
        (
            "gristmill convert source --outtype bf16 --outfile a.gguf -v",
            "convert.log",
            ("a.gguf", "models/bf16/Tiny-BF16.gguf"),
        ),
        (
            "gristmill quantize models/bf16/Tiny-BF16.gguf b.gguf Q4_0 -v",
            "quantize.log",
            ("b.gguf", "models/quant/Tiny-Q4_0.gguf"),
        ),
    ] {
        let path = place.path(&format!("reports/Tiny-Q4_0/{log}"));
        let log = std::fs::read_to_string(path).expect("there is a log");
        let printed = place.run(line).replace(made.0, made.1);
        let missing = log.lines().find(|line| !printed.contains(line));
        assert!(log.lines().count() > 38, "{log}");
        assert!(missing.is_none(), "{missing:?} is not in\n{printed}");
        assert!(!log.contains("Report {"), "{log}");
    }
}

#[test]
fn a_bf16_file_is_used_again_for_its_own_checkpoint_only() {
    let place = Workplace::new();
    checkpoint(&place, "source");
    let run = |ty: &str| place.run(&format!("gristmill pipeline source Tiny {ty} -t 1"));
    let first = run("Q4_0");
    assert!(first.starts_with("exit: 0"), "{first}");
    let second = run("Q8_0");
    assert!(second.starts_with("exit: 0"), "{second}");
    assert!(second.contains("taken as it is"), "{second}");

    place.write("source/README.md", "another checkpoint");
    let before = contents(&place);
    let third = run("Q5_0");
    assert!(third.starts_with("exit: 1"), "{third}");
    assert!(
        third.contains("no record says that it was made from source"),
        "{third}"
    );
    assert!(contents(&place) == before);

    // Nor is a file without a record taken for anything.
    std::fs::remove_file(place.path("models/bf16/Tiny-BF16.source.json")).expect("it is there");
    let fourth = run("Q5_0");
    assert!(
        fourth.contains("no record says that it was made from source"),
        "{fourth}"
    );
}

#[test]
fn the_demo_replaces_nothing_that_is_not_its_own() {
    for (name, text) in [
        ("tiny/config.json", "{}"),
        ("tiny-BF16.gguf", "precious"),
        ("tiny-Q4_K_M.gguf", "precious"),
    ] {
        let place = Workplace::new();
        place.write(name, text);
        let outcome = place.run("gristmill demo . -n 1");
        assert!(outcome.starts_with("exit: 1"), "{name}\n{outcome}");
        assert!(outcome.contains("is no file of this demo"), "{outcome}");
        assert!(outcome.contains("--force"), "{outcome}");
        let read = |name: &str| std::fs::read(place.path(name)).expect("it is there");
        assert_eq!(read(name), text.as_bytes(), "{name}");
        let left = place.files();
        assert!(left.iter().all(|name| !name.ends_with(".part")), "{left:?}");

        let outcome = place.run("gristmill demo . -n 1 --force");
        assert!(outcome.starts_with("exit: 0"), "{name}\n{outcome}");
        assert_ne!(read(name), text.as_bytes(), "{name}");
    }
}

#[test]
fn a_dry_run_looks_at_the_output_too() {
    let place = Workplace::new();
    checkpoint(&place, "source");
    let made = place.run("gristmill convert source --outtype bf16 --outfile a.gguf");
    assert!(made.starts_with("exit: 0"), "{made}");
    place.write("b.gguf", "precious");
    for (output, reason) in [
        ("b.gguf", "already exists"),
        ("nowhere/b.gguf", "there is no folder"),
    ] {
        for line in ["convert source --outfile OUT", "quantize a.gguf OUT Q4_0"] {
            let line = line.replace("OUT", output);
            let outcome = place.run(&format!("gristmill {line} --dry-run"));
            assert!(outcome.starts_with("exit: 1"), "{line}\n{outcome}");
            assert!(outcome.contains(reason), "{line}\n{outcome}");
        }
    }
    let outcome = place.run("gristmill quantize a.gguf a.gguf Q4_0 --dry-run --force");
    assert!(
        outcome.contains("is the same file as the input"),
        "{outcome}"
    );
}
