//! What reaches a terminal, and what happens where nothing can.

use std::fs::OpenOptions;
use std::process::Stdio;

use crate::fixtures::small_model;
use crate::harness::{Workplace, tiny};

/// `/dev/full` refuses every write, as a full disk does.
fn full() -> Stdio {
    let file = OpenOptions::new().write(true).open("/dev/full");
    file.expect("it can be opened").into()
}

#[test]
fn messages_that_cannot_be_written_stop_nothing() {
    let place = Workplace::new();
    std::fs::copy(small_model(), place.path("a.gguf")).expect("the model can be copied");
    let tiny = tiny().to_string_lossy().into_owned();
    let lines: [(&[&str], &str); 2] = [
        (&["convert", &tiny, "-v", "--outfile", "b.gguf"], "b.gguf"),
        (&["quantize", "-v", "a.gguf", "c.gguf", "Q4_0"], "c.gguf"),
    ];
    for (words, made) in lines {
        let status = place
            .command("gristmill")
            .args(words)
            .stdout(Stdio::null())
            .stderr(full())
            .status()
            .expect("it starts");
        assert_eq!(status.code(), Some(0), "{words:?}");
        assert!(place.path(made).exists(), "{words:?}");
    }
    let mut child = place
        .command("gristmill")
        .args(["quantize", "-v", "a.gguf", "d.gguf", "Q4_0"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    drop(child.stderr.take());
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
    assert!(place.path("d.gguf").exists());
}

#[test]
fn results_that_cannot_be_written_are_an_error_that_names_standard_output() {
    let place = Workplace::new();
    std::fs::copy(small_model(), place.path("a.gguf")).expect("the model can be copied");
    for words in [&["inspect", "a.gguf"][..], &["--help"]] {
        let output = place
            .command("gristmill")
            .args(words)
            .stdout(full())
            .output()
            .expect("it starts");
        let shown = place.show(&output);
        assert!(shown.starts_with("exit: 1"), "{words:?}\n{shown}");
        assert!(shown.contains("standard output"), "{words:?}\n{shown}");
    }
}

#[test]
fn words_of_a_file_do_not_steer_the_terminal() {
    let place = Workplace::new();
    let name = "evil\u{1b}]0;x\u{7}\u{202e}name";
    for entry in std::fs::read_dir(tiny()).expect("it can be read").flatten() {
        let bytes = std::fs::read(entry.path()).expect("it can be read");
        place.write(
            &format!("source/{}", entry.file_name().to_string_lossy()),
            bytes,
        );
    }
    let words = [
        "gristmill",
        "convert",
        "source",
        "--outfile",
        "a.gguf",
        "--model-name",
        name,
    ];
    let made = place.run_words(&words);
    assert!(made.starts_with("exit: 0"), "{made}");
    let shown = place.run("gristmill run -m a.gguf -no-cnv -p x -n 1 --temp 0");
    assert!(
        shown.contains("evil\\u{1b}]0;x\\u{7}\\u{202e}name"),
        "{shown}"
    );
    assert!(!shown.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{shown}");
}
