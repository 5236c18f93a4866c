//! `run` held to grammars and schemas.

use insta::assert_snapshot;

use crate::fixtures::with_model;
use crate::harness::Workplace;

const LINE: &str =
    "gristmill run -m a.gguf -no-cnv -p ROMEO: -n 40 --log-disable --no-display-prompt";

/// What comes out under these flags.
fn answer(place: &Workplace, flags: &[&str]) -> String {
    let words: Vec<&str> = LINE.split(' ').chain(flags.iter().copied()).collect();
    let output = place.command(words[0]).args(&words[1..]).output();
    let output = output.expect("the binary starts");
    assert!(output.status.success(), "{}", place.show(&output));
    String::from_utf8(output.stdout).expect("it is text")
}

#[test]
fn every_flag_of_a_constraint_holds_the_answer() {
    let place = with_model();
    let files = [
        ("g.gbnf", "root ::= \"yes\" | \"no\"\n"),
        ("s.json", r#"{"enum": ["red", "green"]}"#),
        ("l.lark", "start: \"left\" | \"right\"\n"),
    ];
    for (name, text) in files {
        std::fs::write(place.path(name), text).expect("it can be written");
    }
    for (flags, expected) in [
        (["--grammar", files[0].1], ["yes\n", "no\n"]),
        (["--grammar-file", "g.gbnf"], ["yes\n", "no\n"]),
        (["--json-schema", files[1].1], ["\"red\"\n", "\"green\"\n"]),
        (["-j", files[1].1], ["\"red\"\n", "\"green\"\n"]),
        (["-jf", "s.json"], ["\"red\"\n", "\"green\"\n"]),
        (
            ["--json-schema-file", "s.json"],
            ["\"red\"\n", "\"green\"\n"],
        ),
        (["--regex", "a{3}|b"], ["aaa\n", "b\n"]),
        (["--lark", files[2].1], ["left\n", "right\n"]),
        (["--lark-file", "l.lark"], ["left\n", "right\n"]),
    ] {
        // Greedy, drawn, and by a stage that replaces the draw.
        for sampling in [&["--temp", "0"][..], &["--seed", "3"], &["--mirostat", "2"]] {
            let answer = answer(&place, &[&flags[..], sampling].concat());
            assert!(expected.contains(&answer.as_str()), "{flags:?}: {answer}");
        }
    }
    let object = answer(&place, &["-j", "{}", "--temp", "0", "-l", "[[\"}\",20]]"]);
    let object: serde_json::Value = serde_json::from_str(&object).expect("it is JSON");
    assert!(object.is_object());
}

#[test]
fn case_b63_a_chat_is_held_behind_the_thinking_that_its_template_opens() {
    let place = with_model();
    let begins_with_brace = |template: &str| {
        let line =
            "gristmill run -m a.gguf -st -p A -j {} -n 6 --temp 0 --log-disable --chat-template";
        let words: Vec<&str> = line.split(' ').chain([template]).collect();
        let output = place.command(words[0]).args(&words[1..]).output();
        let output = output.expect("the binary starts");
        assert!(output.status.success(), "{}", place.show(&output));
        output.stdout.starts_with(b"{")
    };
    let plain = "{{ messages[0].content }}</think>";
    assert!(begins_with_brace(plain));
    assert!(!begins_with_brace(&format!("{plain}<think>")));
}

#[test]
fn a_constraint_that_cannot_be_read_is_told_with_its_place() {
    let place = with_model();
    std::fs::write(place.path("g.gbnf"), "root ::= [z-a]\n").expect("it can be written");
    let mut shown = String::new();
    for flags in [
        &["--grammar", "root ::= word"][..],
        &["--grammar-file", "g.gbnf"],
        &["-j", "{\"type\": }"],
        &["-j", "{\"not\": {}}"],
        &["--regex", "a(?=b)"],
        &["--lark", "start: nothing"],
        &["--lark-file", "none.lark"],
        &["--regex", "a", "--grammar", "root ::= \"a\""],
    ] {
        let words: Vec<&str> = LINE.split(' ').chain(flags.iter().copied()).collect();
        shown += &place.run_words(&words);
        shown += "\n";
    }
    assert_snapshot!(shown, @r#"
    exit: 1
    --- stderr
    error: --grammar: GBNF grammar, line 1, column 10: there is no rule `word`
    hint: docs/structured-output.md tells what each form of constraint may have
    exit: 1
    --- stderr
    error: g.gbnf: GBNF grammar, line 1, column 11: the range 'z' to 'a' is empty
    hint: docs/structured-output.md tells what each form of constraint may have
    exit: 1
    --- stderr
    error: --json-schema: JSON Schema, line 1, column 10: expected value
    hint: docs/structured-output.md tells what each form of constraint may have
    exit: 1
    --- stderr
    error: --json-schema: JSON Schema: keywords that are not supported: ["not"]
    hint: docs/structured-output.md tells what each form of constraint may have
    exit: 1
    --- stderr
    error: --regex: regular expression: look-around, including look-ahead and look-behind, is not supported
    hint: docs/structured-output.md tells what each form of constraint may have
    exit: 1
    --- stderr
    error: --lark: Lark grammar, line 1, column 8: unknown name: "nothing"
    hint: docs/structured-output.md tells what each form of constraint may have
    exit: 1
    --- stderr
    error: none.lark: cannot read it: No such file or directory (os error 2)
    hint: check the path
    exit: 2
    --- stderr
    error: the argument '--regex <REGEX>' cannot be used with '--grammar <GBNF>'

    Usage: gristmill run --model <FILE> --no-conversation --prompt <PROMPT> --predict <N> --log-disable --no-display-prompt --regex <REGEX> [MODEL]

    For more information, try '--help'.
    "#);
}

#[test]
fn probabilities_have_the_names_of_the_references_server() {
    let place = with_model();
    let json = |flags: &[&str]| {
        let flags = [&["--output-format", "json", "--seed", "3"], flags].concat();
        let answer: serde_json::Value =
            serde_json::from_str(&answer(&place, &flags)).expect("it is JSON");
        answer["completion_probabilities"].clone()
    };
    let own = json(&["--logprobs", "2", "--top-k", "1"]);
    let best = &own[0]["top_logprobs"][0];
    assert_eq!(best["id"], own[0]["id"]);
    assert_eq!(best["logprob"], own[0]["logprob"]);
    assert!(own[0]["logprob"].as_f64().expect("a number") < 0.0);
    assert_eq!(own[0]["top_logprobs"].as_array().map(Vec::len), Some(2));
    let bytes = own[0]["bytes"].as_array().expect("a list").len();
    assert_eq!(own[0]["token"].as_str().map(str::len), Some(bytes));
    // One candidate is left, and certain.
    let left = json(&["--n-probs", "2", "--top-k", "1", "--post-sampling-probs"]);
    assert_eq!(left[0]["prob"], 1.0);
    assert_eq!(left[0]["top_probs"].as_array().map(Vec::len), Some(1));
    assert!(
        json(&[])[0]["top_logprobs"]
            .as_array()
            .is_some_and(Vec::is_empty)
    );
    let noted = place.run("gristmill run -m a.gguf -no-cnv -p A -n 0 --post-sampling-probs");
    let note = "note: --post-sampling-probs changes nothing without --output-format json";
    assert!(noted.contains(note), "{noted}");
}
