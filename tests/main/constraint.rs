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

/// What a chat says that is held to an object, of which the model likes `}` most.
fn object_of_chat(place: &Workplace, template: &str, flags: &[&str]) -> String {
    let line = "gristmill run -m a.gguf -st -p A -j {} -n 60 --temp 0 --log-disable --skip-chat-parsing -l [[\"}\",20]] --chat-template";
    let words: Vec<&str> = line
        .split(' ')
        .chain([template])
        .chain(flags.iter().copied())
        .collect();
    let output = place.command(words[0]).args(&words[1..]).output();
    let output = output.expect("the binary starts");
    assert!(output.status.success(), "{}", place.show(&output));
    String::from_utf8(output.stdout).expect("it is text")
}

/// A reply held to an object, whose reasoning ends after five tokens.
fn cut_reply(place: &Workplace, template: &str, biases: &str) -> serde_json::Value {
    let line = "gristmill run -m a.gguf -st -p A -j {} -n 200 --temp 0 --log-disable --json --reasoning-budget 5 --chat-template";
    let words: Vec<&str> = line.split(' ').chain([template, "-l", biases]).collect();
    let output = place.command(words[0]).args(&words[1..]).output();
    let output = output.expect("the binary starts");
    assert!(output.status.success(), "{}", place.show(&output));
    serde_json::from_slice(&output.stdout).expect("it is JSON")
}

fn assert_object(text: &str) {
    let value: serde_json::Value =
        serde_json::from_str(text.trim()).unwrap_or_else(|error| panic!("{text:?}: {error}"));
    assert!(value.is_object(), "{text:?}");
}

#[test]
fn case_b63_a_chat_is_held_behind_the_thinking_that_its_template_opens() {
    let place = with_model();
    let plain = "{{ messages[0].content }}</think>";
    assert_object(&object_of_chat(&place, plain, &[]));
    let open = format!("{plain}<think>");
    // The model never ends its thinking; behind the end that a budget puts there the form holds.
    let thought = object_of_chat(&place, &open, &["--ignore-eos"]);
    assert!(thought.starts_with("}}}"), "{thought:?}");
    let reply = cut_reply(&place, &open, "[[\"}\",20]]");
    assert!(!reply["reasoning"].as_str().expect("a text").is_empty());
    assert_object(reply["content"].as_str().expect("a text"));
}

#[test]
fn case_b63_a_model_that_opens_its_thinking_itself_may_do_so_before_the_form() {
    let place = with_model();
    // It knows the marks, and begins none.
    let template = "{{ messages[0].content }}{# <think></think> #}";
    // A bias on the characters of the mark, which are no form's beginning.
    let likes = ["-l", "[[\"<\",40]]"];
    let thinks = object_of_chat(&place, template, &likes);
    assert!(thinks.trim_start().starts_with("<think>"), "{thinks:?}");
    let reply = cut_reply(&place, template, "[[\"}\",20],[\"<\",15]]");
    assert!(!reply["reasoning"].as_str().expect("a text").is_empty());
    assert_object(reply["content"].as_str().expect("a text"));
    let budget = [&likes[..], &["--reasoning-budget", "0"]].concat();
    for flags in [
        &[&likes[..], &["-rea", "off"]].concat()[..],
        &[
            &likes[..],
            &["--chat-template-kwargs", "{\"enable_thinking\":false}"],
        ]
        .concat(),
        &budget,
    ] {
        let answer = object_of_chat(&place, template, flags);
        assert!(answer.starts_with('{'), "{flags:?}: {answer:?}");
    }
    // Without the mark it begins the form at once, as does one whose template knows no thinking or has ended it.
    assert_object(&object_of_chat(&place, template, &[]));
    for other in [
        "{{ messages[0].content }}",
        "{{ messages[0].content }}<think></think>",
    ] {
        assert!(
            object_of_chat(&place, other, &likes).starts_with('{'),
            "{other}"
        );
    }
}

#[test]
fn white_space_between_the_tokens_of_json_comes_to_an_end() {
    let place = with_model();
    for schema in [
        "{}",
        r#"{"type":"object","properties":{"a":{"type":"integer","maximum":9,"minimum":0}},"required":["a"]}"#,
    ] {
        let longest = |seed: &str| {
            let flags = [
                "-j",
                schema,
                "--temp",
                "0",
                "--seed",
                seed,
                "-l",
                "[[\"\\n\",30],[\" \",30]]",
                "-n",
                "60",
            ];
            let text = answer(&place, &flags);
            let text = text.strip_suffix('\n').unwrap_or(&text).to_owned();
            assert!(
                text.starts_with("{\n") || text.starts_with("{ "),
                "{text:?}"
            );
            let outside: String = text.split('"').step_by(2).collect::<Vec<_>>().join("\"");
            let runs = outside.split(|c: char| !c.is_whitespace()).map(str::len);
            runs.max().unwrap_or(0)
        };
        // A line break and an indent of 20.
        assert!(longest("1") <= 21, "{schema}");
    }
    // Properties that the schema does not name are not there.
    let named = r#"{"type":"object","properties":{"a":{"type":"integer","maximum":9,"minimum":0}},"required":["a"]}"#;
    for seed in ["1", "2", "3"] {
        let text = answer(&place, &["-j", named, "--seed", seed, "-n", "120"]);
        let value: serde_json::Value = serde_json::from_str(&text).expect("it is whole");
        assert_eq!(
            value.as_object().map(serde_json::Map::len),
            Some(1),
            "{text}"
        );
    }
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
        &["-j", "{\"properties\": {\"a\": {\"type\": \"strin\"}}}"],
        &["--regex", "a(?=b)"],
        &["--regex", "(yes"],
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
    error: --json-schema: JSON Schema: Invalid type: strin, at /properties/a (types are object, array, string, number, integer, boolean and null)
    hint: docs/structured-output.md tells what each form of constraint may have
    exit: 1
    --- stderr
    error: --regex: regular expression, line 1, column 2: look-around, including look-ahead and look-behind, is not supported
    hint: docs/structured-output.md tells what each form of constraint may have
    exit: 1
    --- stderr
    error: --regex: regular expression, line 1, column 1: unclosed group
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
