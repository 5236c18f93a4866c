//! How weights come into memory, and on how many threads they are used.

use std::io::{Seek as _, SeekFrom, Write as _};

use crate::fixtures::with_model;
use crate::harness::Workplace;

/// Standard output and standard error of a run on `a.gguf`.
fn run(place: &Workplace, words: &str) -> (String, String) {
    let mut command = place.command("gristmill");
    let fixed = "run -m a.gguf -no-cnv -p hello -n 6 --temp 0 -t 1 -c 128";
    let output = command
        .args(fixed.split(' '))
        .args(words.split_whitespace())
        .output();
    let output = output.expect("the program starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{words}: {}", text(&output.stderr));
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn weights_are_mapped_or_read_and_say_the_same() {
    let place = with_model();
    let (expected, _) = run(&place, "");
    for (words, is_mapped) in [
        ("", true),
        ("--mmap", true),
        ("--load-mode auto", true),
        ("-lm mmap", true),
        ("-lm mmap+mlock", true),
        ("--mlock", true),
        ("--no-mmap", false),
        ("-lm none", false),
        ("-lm mlock", false),
        ("-lm dio", false),
    ] {
        let (said, told) = run(&place, words);
        assert_eq!(said, expected, "{words}");
        let word = if is_mapped { "MiB mapped" } else { "MiB read" };
        assert!(told.contains(word), "{words}: {told}");
        if cfg!(target_os = "linux") {
            let is_locked = !told.contains(" 0.0 MiB locked");
            let is_refused = told.contains("warning: the weights cannot be locked in memory");
            let is_asked = words.contains("mlock");
            assert_eq!(is_locked || is_refused, is_asked, "{words}: {told}");
        }
    }
    let wrong = place.run("gristmill run -m a.gguf -lm mmap --mlock");
    assert!(wrong.starts_with("exit: 2"), "{wrong}");
}

#[test]
fn prompts_may_have_threads_of_their_own() {
    let place = with_model();
    let (expected, told) = run(&place, "");
    assert!(told.contains("1 threads\n"), "{told}");
    let (said, told) = run(&place, "-tb 3");
    assert_eq!(said, expected);
    assert!(told.contains("1 threads, 3 for prompts"), "{told}");
}

#[test]
fn weights_that_are_no_numbers_are_found_when_asked_for() {
    let place = with_model();
    run(&place, "--check-tensors");
    let file = gristmill_gguf::Model::open(&place.path("a.gguf")).expect("it can be opened");
    let view = file.tensor("blk.1.ffn_norm.weight").expect("it is there");
    let place_of_nan = view.offset + 40;
    drop(file);
    let file = std::fs::File::options()
        .write(true)
        .open(place.path("a.gguf"));
    let mut file = file.expect("it can be written");
    file.seek(SeekFrom::Start(place_of_nan))
        .expect("it is long enough");
    file.write_all(&f32::NAN.to_le_bytes())
        .expect("there is room");
    drop(file);
    let line = "gristmill run -m a.gguf -no-cnv -p hello -n 1 --log-disable --check-tensors";
    insta::assert_snapshot!(place.run(line), @r"
    exit: 1
    --- stderr
    error: a.gguf: tensor `blk.1.ffn_norm.weight` holds NaN or infinity
    hint: the weights are damaged or hold values out of range: `gristmill check FILE` names the tensors; or compare the file's hash with its source
    ");
}
