//! Flags of the reference that are not supported, and arguments that come in more than one way.

use std::process::Output;

use insta::assert_snapshot;

use crate::fixtures::with_model;
use crate::harness::{self, Workplace, tiny};

/// Runs a command line with this standard input.
fn piped(place: &Workplace, line: &str, input: &str) -> Output {
    let words: Vec<&str> = line.split(' ').collect();
    let mut command = place.command(words[0]);
    let (written, output) = harness::piped(command.args(&words[1..]), input.as_bytes());
    written.expect("it is read");
    output
}

#[test]
fn flags_of_several_letters_are_never_taken_apart() {
    let place = with_model();
    let unsupported = "is a flag of the reference that is not supported here yet";
    for (flags, flag, words) in [
        (
            "-ptc 4",
            "-ptc",
            "the line behind an answer tells its tokens",
        ),
        ("-np 1", "-np", "it is a flag of `estimate`"),
        ("-cram 0", "-cram", "holds its one conversation whole"),
        ("-kvu", "-kvu", unsupported),
        ("--rpc h:1", "--rpc", "a model runs on one machine"),
        ("--log_jsonl", "--log-jsonl", "messages are lines of text"),
        ("-dr b", "-dr", "asks for a download that is not supported"),
        ("-xyz", "-xyz", "unexpected argument '-xyz' found"),
        ("-pc", "-pc", "unexpected argument '-pc' found"),
    ] {
        let shown = place.run(&format!("gristmill run -m a.gguf {flags}"));
        assert!(shown.starts_with("exit: 2"), "{flags}\n{shown}");
        let line = shown.lines().find(|line| line.starts_with("error: "));
        let named = format!("'{flag}'");
        assert!(
            line.is_some_and(|line| line.contains(&named) && line.contains(words)),
            "{flags}\n{shown}"
        );
    }
    let shown = place.run("llama-cli -m a.gguf -kvu");
    assert!(
        shown.starts_with("exit: 1") && shown.contains(unsupported),
        "{shown}"
    );
}

/// A flag that another command has was called one that is not supported.
#[test]
fn a_flag_at_the_wrong_place_is_told_its_place() {
    let place = Workplace::new();
    assert_snapshot!(place.run("gristmill -m a.gguf -p Hi"), @r"
    exit: 2
    --- stderr
    error: a command is missing before '-m', as in `gristmill run -m`

    Usage: gristmill <COMMAND>

    For more information, try '--help'.
    ");
    assert_snapshot!(place.run("gristmill inspect a.gguf --delete-splits"), @r"
    exit: 2
    --- stderr
    error: '--delete-splits' is not supported by `inspect`; it is a flag of `merge`, `split`

    Usage: gristmill inspect [OPTIONS] [MODEL]

    For more information, try '--help'.
    ");
    assert_snapshot!(place.run("gristmill run a.gguf --numa numactl --parallel 2 -kvu"), @r"
    exit: 2
    --- stderr
    error: '--numa' is not supported: memory is placed by the system; start the program under numactl

    Usage: gristmill run [OPTIONS] [MODEL]

    For more information, try '--help'.
    ");
    assert_snapshot!(place.run("gristmill inspect"), @r"
    exit: 2
    --- stderr
    error: the following required arguments were not provided:
      <MODEL>, or -m FILE, -hf USER/REPO[:QUANT] or -mu URL

    Usage: gristmill inspect <MODEL>

    For more information, try '--help'.
    ");
}

#[test]
fn what_the_parser_says_is_of_use() {
    let place = with_model();
    for (line, words, not) in [
        (
            "split a.gguf s --split-max-tensors x",
            "it must be a whole number",
            "invalid digit",
        ),
        (
            "split a.gguf s --split-max-size 1.5G",
            "a size is a whole number, as in 1500M for 1.5G",
            "units K",
        ),
        (
            "split a.gguf s --split-max-tensors 99999999999999999999",
            "out of range",
            "too large to fit",
        ),
        (
            "split a.gguf s --bogus",
            "unexpected argument '--bogus' found",
            "tip:",
        ),
        (
            "split --merge --split-max-tensors 3 a.gguf o.gguf",
            "--split-max-tensors says how to split, and --merge splits nothing",
            "tip:",
        ),
        (
            "split --merge --no-tensor-first-split a.gguf o.gguf",
            "--no-tensor-first-split says how to split, and --merge splits nothing",
            "tip:",
        ),
        (
            "inspect a.gguf --tensor-limit 2",
            "--tensor-limit is of a list: give --tensors, --json or --markdown too",
            "tip:",
        ),
        (
            "inspect a.gguf --json --no-tensors --tensor-limit 2",
            "--tensor-limit is of a list that --no-tensors leaves out",
            "tip:",
        ),
        (
            "inspect a.gguf --get general.name --tensors",
            "the argument '--get <KEY>' cannot be used with '--tensors'",
            "tip:",
        ),
        (
            "inspect a.gguf --data-offset --metadata-limit 2",
            "the argument '--data-offset' cannot be used with '--metadata-limit <N>'",
            "tip:",
        ),
        ("serve -m a.gguf", "unrecognized subcommand 'serve'", "tip:"),
        ("quantise a.gguf", "'quantize'", "'merge'"),
        (
            "merge s-1 s-2 s-3 o.gguf",
            "one shard is enough, the others are found by their names: `gristmill merge s-1 o.gguf`",
            "unexpected",
        ),
    ] {
        let shown = place.run(&format!("gristmill {line}"));
        assert!(
            shown.starts_with("exit: 2") && shown.contains(words) && !shown.contains(not),
            "{line}\n{shown}"
        );
    }
}

/// A remedy named a program that is perhaps not on the path.
#[test]
fn under_a_reference_name_remedies_name_it() {
    let place = with_model();
    let shown = place.run("llama-quantize a.gguf b.gguf FROB");
    assert!(
        shown.starts_with("exit: 1") && shown.contains("`llama-quantize --help`"),
        "{shown}"
    );
    // With nothing to do it tells what there is, as the reference does.
    let shown = place.run("llama-quantize");
    assert!(
        shown.starts_with("exit: 1\n--- stderr\nerror: ") && shown.contains("Q4_K_M"),
        "{shown}"
    );
    assert!(place.run("llama-quantize --version").starts_with("exit: 0"));
}

#[test]
fn a_model_is_named_by_flag_or_as_a_word() {
    let place = with_model();
    for (flag, word) in [
        ("inspect -m a.gguf --json", "inspect a.gguf --json"),
        ("tokenize -m a.gguf -p Hi", "tokenize a.gguf -p Hi"),
        (
            "run -m a.gguf -no-cnv -p Hi -n 4 --temp 0 --log-disable",
            "run a.gguf -no-cnv -p Hi -n 4 --temp 0 --log-disable",
        ),
        (
            "logits --model a.gguf --tokens 1 --output o.npy -f",
            "logits a.gguf --tokens 1 --output o.npy -f",
        ),
    ] {
        let by_flag = place.run(&format!("gristmill {flag}"));
        assert!(by_flag.starts_with("exit: 0"), "{by_flag}");
        assert_eq!(by_flag, place.run(&format!("gristmill {word}")));
        let command = flag.split(' ').next().expect("there is a word");
        let none = place.run(&format!("gristmill {command}"));
        assert!(none.starts_with("exit: 2"), "{none}");
    }
}

#[test]
fn links_made_twice_are_right_already() {
    let place = Workplace::new();
    let first = place.run("gristmill links bin");
    assert!(first.starts_with("exit: 0"), "{first}");
    assert_eq!(place.run("gristmill links bin"), first);
    std::fs::remove_file(place.path("bin/llama-cli")).expect("it is there");
    place.write("bin/llama-cli", "another program");
    let foreign = place.run("gristmill links bin");
    assert!(
        foreign.starts_with("exit: 1") && foreign.contains("bin/llama-cli: already exists"),
        "{foreign}"
    );
}

#[test]
fn a_single_turn_takes_all_of_a_pipe() {
    let place = with_model();
    let ids = |line: &str, input: &str| {
        let line = format!("gristmill run -m a.gguf -n 0 --output-format json --log-disable{line}");
        let output = piped(&place, &line, input);
        assert!(output.status.success(), "{}", place.show(&output));
        let answer: serde_json::Value =
            serde_json::from_slice(&output.stdout).expect("one JSON object");
        answer["prompt_ids"].clone()
    };
    place.write("prompt.txt", "first\nsecond\n");
    let whole = ids(" -st -f prompt.txt", "");
    assert_eq!(ids(" -st", "first\nsecond\n"), whole);
    assert_ne!(ids(" -st", "first\n"), whole);
}

#[test]
fn what_has_no_effect_is_said() {
    let place = with_model();
    let shown = place.run("gristmill run -m a.gguf -no-cnv -sys Be -p Hi -n 1");
    assert!(
        shown.contains("note: the system prompt belongs to a chat"),
        "{shown}"
    );
    place.write("about.json", r#"{"general.author": "A", "author": "B"}"#);
    let source = tiny().to_string_lossy().into_owned();
    let words = [
        "gristmill",
        "convert",
        &source,
        "--metadata",
        "about.json",
        "--outfile",
        "b.gguf",
    ];
    let shown = place.run_words(&words);
    assert!(
        shown.starts_with("exit: 0")
            && shown
                .contains("warning: about.json: only general.* entries are read; left out: author"),
        "{shown}"
    );
    let words = [
        "gristmill",
        "convert",
        &source,
        "--tokenizer-pre",
        "nonsense",
        "--outfile",
        "c.gguf",
    ];
    let shown = place.run_words(&words);
    assert!(
        shown.contains("error: pre-tokenizer \"nonsense\" is unknown (known: ")
            && shown.contains(", qwen2, "),
        "{shown}"
    );
}
