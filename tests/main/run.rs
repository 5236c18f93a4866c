//! `run` and `logits` on a tiny model of the golden data: random weights, a real vocabulary and chat template.

use std::path::PathBuf;
use std::process::{Output, Stdio};

use crate::fixtures::with_model;
use crate::harness::{Workplace, piped, send, wait};

/// The golden model, or none with a loud word (an error on CI).
fn model() -> Option<PathBuf> {
    let folder = gristmill_golden::folder("convert/llama")?;
    folder.join("llama-f32.gguf").canonicalize().ok()
}

/// Runs `run` on the model with these words and this standard input.
fn run_with(words: &[&str], input: &[u8]) -> Option<Output> {
    let model = model()?;
    let place = Workplace::new();
    let mut command = place.command("gristmill");
    command
        .args(["run", "-m"])
        .arg(&model)
        .args(["-t", "1", "-c", "256", "--temp", "0"])
        .args(words);
    Some(piped(&mut command, input).1)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn json_of(words: &[&str]) -> Option<serde_json::Value> {
    let words = [words, &["--output-format", "json", "-no-cnv"]].concat();
    let output = run_with(&words, b"")?;
    assert!(output.status.success(), "{}", text(&output.stderr));
    Some(serde_json::from_slice(&output.stdout).expect("the output is JSON"))
}

#[test]
fn case_b72_a_seed_says_the_same_twice_and_is_reported() {
    let words = ["-p", "Once", "-n", "12", "--temp", "1.5", "--seed", "7"];
    let Some(first) = json_of(&words) else { return };
    assert_eq!(first["ids"], json_of(&words).expect("it ran before")["ids"]);
    assert_eq!(first["seed"], 7);
    let fresh = json_of(&["-p", "Once", "-n", "2", "--temp", "1.5"]).expect("it ran before");
    assert_ne!(fresh["seed"], u32::MAX);
}

#[test]
fn case_b73_exactly_as_many_tokens_as_asked_for() {
    for n in [0, 1, 2, 5] {
        let Some(answer) = json_of(&["-p", "Once", "--ignore-eos", "-n", &n.to_string()]) else {
            return;
        };
        assert_eq!(answer["ids"].as_array().expect("a list").len(), n);
        assert_eq!(answer["stop"], "length");
    }
    let full = json_of(&["-p", "Once", "--ignore-eos", "-n", "-2"]).expect("it ran before");
    let n_prompt = full["prompt_ids"].as_array().expect("a list").len();
    assert_eq!(
        full["ids"].as_array().expect("a list").len() + n_prompt,
        256
    );
    assert_eq!(full["stop"], "context");
    let wrong = run_with(&["-p", "Once", "-n", "-3"], b"").expect("it ran before");
    assert_eq!(wrong.status.code(), Some(2), "a value of a flag is usage");
}

#[test]
fn case_b73_the_end_of_input_is_a_clean_end() {
    let Some(nothing) = run_with(&["--log-disable"], b"") else {
        return;
    };
    assert_eq!((nothing.status.code(), nothing.stdout.len()), (Some(0), 0));
    // two whole lines and half a one are three messages
    let answers = run_with(&["-n", "3"], b"Hello\n\nAgain\nHalf").expect("it ran before");
    assert_eq!(answers.status.code(), Some(0), "{}", text(&answers.stderr));
    assert_eq!(
        text(&answers.stderr).matches("Generation:").count(),
        3,
        "{}",
        text(&answers.stderr)
    );
}

#[test]
fn without_a_prompt_nothing_is_continued() {
    let Some(piped) = run_with(&["-no-cnv", "-n", "1"], b"\n") else {
        return;
    };
    assert_eq!(piped.status.code(), Some(1));
    let message = text(&piped.stderr);
    assert!(
        message.contains("error: there is no prompt to continue"),
        "{message}"
    );
}

/// Loading takes time, so what needs no model is found wrong before it.
#[test]
fn files_are_read_before_the_model_is_loaded() {
    for flag in ["-f", "-sysf", "--chat-template-file"] {
        let Some(output) = run_with(&[flag, "nope.txt"], b"") else {
            return;
        };
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{flag}");
        assert!(message.starts_with("error: nope.txt: "), "{message}");
    }
}

#[test]
fn what_counts_for_nothing_is_said() {
    let Some(output) = run_with(&["-no-cnv", "-p", "a", "-n", "1", "--n-probs", "3"], b"") else {
        return;
    };
    let message = text(&output.stderr);
    assert!(
        message.contains("note: --n-probs changes nothing without --output-format json"),
        "{message}"
    );
    let place = Workplace::new();
    let output = place
        .command("llama-cli")
        .args(["-m", "model.gguf", "-p", "hi"])
        .env("LLAMA_ARG_NUMA", "isolate")
        .output()
        .expect("it starts");
    let message = text(&output.stderr);
    assert!(
        message.starts_with("note: LLAMA_ARG_NUMA of the environment is not read"),
        "{message}"
    );
}

/// Runs a program on the model with this standard input, and gives the text of the prompt and what is told.
fn prompt_of(place: &Workplace, words: &[&str], input: Stdio) -> Option<(String, String)> {
    let mut command = place.command(words[0]);
    command.args(&words[1..]).arg("-m").arg(model()?);
    command.args(["-t", "1", "-c", "256", "-n", "0", "--verbose-prompt"]);
    let output = command.stdin(input).output().expect("the binary starts");
    let told = text(&output.stderr);
    assert!(output.status.success(), "{words:?}: {told}");
    let mut lines = told.lines();
    let prompt = lines.find_map(|line| line.strip_prefix("prompt: \""));
    let prompt = prompt.and_then(|prompt| prompt.strip_suffix('"'));
    Some((prompt.expect("it is told").to_owned(), told))
}

/// A pipe with this text in it.
fn pipe_of(text: &str) -> Stdio {
    let (reader, mut writer) = std::io::pipe().expect("a pipe can be made");
    std::io::Write::write_all(&mut writer, text.as_bytes()).expect("it is short");
    reader.into()
}

#[test]
fn text_of_a_pipe_or_a_file_goes_behind_the_prompt() {
    let place = Workplace::new();
    place.write("own.jinja", "{{ messages[0].content }}!");
    place.write("prompt.txt", "Q\n");
    let file = || Stdio::from(std::fs::File::open(place.path("text.txt")).expect("it opens"));
    place.write("text.txt", "a\nb\n");
    let chat = "--chat-template-file own.jinja";
    for (words, expected) in [
        ("gristmill run -no-cnv -p Q", "Q\\na\\nb"),
        (&*format!("gristmill run {chat} -p Q"), "Q\\na\\nb!"),
        (
            &*format!("gristmill run {chat} -st -cnv -p Q"),
            "Q\\na\\nb!",
        ),
        ("gristmill run -no-cnv -f prompt.txt", "Q\\na\\nb"),
        // Text that was the prompt is not there a second time.
        ("gristmill run -no-cnv -f /dev/stdin", "a\\nb"),
    ] {
        let words: Vec<&str> = words.split(' ').collect();
        let Some((piped, told)) = prompt_of(&place, &words, pipe_of("a\nb\n")) else {
            return;
        };
        let (of_file, _) = prompt_of(&place, &words, file()).expect("it ran before");
        assert_eq!((&*piped, &*of_file), (expected, expected), "{words:?}");
        assert!(!told.contains("standard input"), "{told}");
    }
    for (words, prompt, reason) in [
        (
            "gristmill run -no-cnv -bf prompt.txt",
            "Q\\n",
            "--binary-file is all of the prompt",
        ),
        (
            "llama-completion -no-cnv -p Q",
            "Q",
            "llama-completion reads none beside a prompt",
        ),
    ] {
        let words: Vec<&str> = words.split(' ').collect();
        let (left, told) = prompt_of(&place, &words, pipe_of("a\n")).expect("it ran before");
        assert_eq!(left, prompt);
        let note = format!("note: standard input is not read: {reason}\n");
        assert!(told.contains(&note), "{told}");
    }
}

/// Programs hand on what nobody writes to and nobody closes: a socket, or a pipe that the reference does not read.
#[test]
fn standard_input_that_stays_open_is_not_waited_for() {
    let place = Workplace::new();
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().expect("it can be made");
    let socket = Stdio::from(std::os::fd::OwnedFd::from(theirs));
    let words = ["gristmill", "run", "-no-cnv", "-p", "Q"];
    let Some((prompt, told)) = prompt_of(&place, &words, socket) else {
        return;
    };
    assert_eq!(prompt, "Q");
    assert!(
        told.contains("it is a socket, neither a pipe nor a file"),
        "{told}"
    );
    drop(ours);
    let (reader, writer) = std::io::pipe().expect("a pipe can be made");
    let words = ["llama-completion", "-no-cnv", "-p", "Q"];
    let (prompt, _) = prompt_of(&place, &words, reader.into()).expect("it ran before");
    assert_eq!(prompt, "Q");
    drop(writer);
    let words = ["gristmill", "run", "-no-cnv", "-p", "Q"];
    let (prompt, told) = prompt_of(&place, &words, Stdio::null()).expect("it ran before");
    assert_eq!(prompt, "Q");
    assert!(!told.contains("standard input"), "{told}");
}

#[test]
fn a_prompt_without_a_terminal_ends_after_its_answer() {
    let Some(once) = run_with(&["-p", "Hello", "-n", "3"], b"more\nand more\n") else {
        return;
    };
    assert_eq!(text(&once.stderr).matches("Generation:").count(), 1);
    let chat =
        run_with(&["-p", "Hello", "-n", "3", "-cnv"], b"more\nand more\n").expect("it ran before");
    assert_eq!(text(&chat.stderr).matches("Generation:").count(), 3);
    let one = run_with(&["-n", "3", "-st"], b"more\nand more\n").expect("it ran before");
    assert_eq!(text(&one.stderr).matches("Generation:").count(), 1);
}

#[test]
fn case_b69_a_prompt_larger_than_the_context_is_refused_with_both_numbers() {
    let long = "word ".repeat(400);
    let Some(refused) = run_with(&["-no-cnv", "-p", &long, "--log-disable"], b"") else {
        return;
    };
    let message = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        message.contains("the context holds 256") && message.contains("hint: "),
        "{message}"
    );
}

#[test]
fn case_b55_escapes_are_processed_only_when_asked_for() {
    let place = Workplace::new();
    let file = place.write("prompt.txt", "a\\nb\n");
    let file = file.to_string_lossy();
    let Some(plain) = json_of(&["-n", "0", "-p", "a\\nb"]) else {
        return;
    };
    let escaped = json_of(&["-n", "0", "-e", "-p", "a\\nb"]).expect("it ran before");
    let broken = json_of(&["-n", "0", "-p", "a\nb"]).expect("it ran before");
    let from_file = json_of(&["-n", "0", "-e", "-f", &file]).expect("it ran before");
    assert_ne!(plain["prompt_ids"], escaped["prompt_ids"]);
    assert_eq!(broken["prompt_ids"], escaped["prompt_ids"]);
    assert_eq!(plain["prompt_ids"], from_file["prompt_ids"]);
}

#[test]
fn gpu_flags_change_nothing_and_say_so() {
    let words = [
        "-no-cnv", "-p", "Once", "-n", "2", "-ngl", "99", "-sm", "layer",
    ];
    let Some(output) = run_with(&words, b"") else {
        return;
    };
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(
        text(&output.stderr)
            .matches("no GPU backend is built in")
            .count(),
        1
    );
}

#[test]
fn case_b59_a_template_that_cannot_be_parsed_is_refused_by_line() {
    let words = [
        "-p",
        "Hi",
        "--chat-template",
        "x\n{% frob %}",
        "--log-disable",
    ];
    let Some(output) = run_with(&words, b"") else {
        return;
    };
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        message.contains("line 2") && message.contains("frob"),
        "{message}"
    );
}

#[test]
fn case_b58_a_template_refuses_in_its_own_words() {
    let template =
        "{% if messages[0].role == 'system' %}{{ raise_exception('no system here') }}{% endif %}Q";
    let words = [
        "-p",
        "Hi",
        "-sys",
        "S",
        "--chat-template",
        template,
        "--log-disable",
    ];
    let Some(output) = run_with(&words, b"") else {
        return;
    };
    let message = text(&output.stderr);
    assert!(message.contains("no system here"), "{message}");
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0));
}

/// A model without a template is no chat model: to chat with it is refused with the remedies, each of which works.
#[test]
fn case_b61_a_model_without_a_template_chats_by_a_template_that_is_given() {
    let place = with_model();
    let edited = place.run("gristmill edit a.gguf --remove tokenizer.chat_template");
    assert!(edited.starts_with("exit: 0"), "{edited}");
    place.write("own.jinja", "{{ messages[0].content }}!");
    let run = |words: &str| {
        let line = "gristmill run -m a.gguf -p Hi -n 0 -t 1 --log-disable";
        place.run(format!("{line} {words}").trim_end())
    };
    insta::assert_snapshot!(run("-cnv"), @"
    exit: 1
    --- stderr
    error: a.gguf: the model has no chat template, so it may not be made for chatting
    hint: name one with --chat-template or --chat-template-file, or continue a text with --no-conversation
    ");
    for (words, prompt) in [
        ("", r#"prompt: "Hi""#),
        ("-cnv --chat-template-file own.jinja", r#"prompt: "Hi!""#),
        (
            "--chat-template chatml",
            r#"prompt: "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n""#,
        ),
    ] {
        let shown = run(&format!("--verbose-prompt {words}"));
        assert!(
            shown.starts_with("exit: 0") && shown.contains(prompt),
            "{words}: {shown}"
        );
    }
}

#[cfg(unix)]
#[test]
fn case_b73_ctrl_c_stops_the_answer_and_a_second_one_leaves() {
    let Some(model) = model() else { return };
    let place = Workplace::new();
    let mut child = place
        .command("gristmill")
        .args(["run", "-m"])
        .arg(&model)
        .args([
            "-no-cnv",
            "-p",
            "Once",
            "--ignore-eos",
            "-c",
            "100000",
            "-t",
            "1",
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut out = child.stdout.take().expect("it is piped");
    let mut first = [0; 16];
    std::io::Read::read_exact(&mut out, &mut first).expect("it answers");
    send(&child, "-INT");
    let rest = std::thread::spawn(move || std::io::copy(&mut out, &mut std::io::sink()));
    assert_eq!(wait(&mut child).code(), Some(130));
    drop(rest.join());
    let output = child.wait_with_output().expect("it has ended");
    assert!(
        text(&output.stderr).contains("ended by an interrupt"),
        "{}",
        text(&output.stderr)
    );
}
