//! `edit`: what it refuses or warns of, with the remedy, and that a remedy which is followed works.

use std::fs;

use gristmill_gguf::{Array, File, Metadata, StringArray, Text, Value, WriteOptions, Writer};
use insta::assert_snapshot;

use crate::edit::{small, value};
use crate::harness::Workplace;

/// Runs `edit` on the small model.
fn edit(place: &Workplace, words: &[&str]) -> String {
    place.run_words(&[&["gristmill", "edit", "model.gguf"], words].concat())
}

#[test]
fn a_flag_given_twice_is_two_edits() {
    let place = Workplace::new();
    let path = small(&place);
    let before = fs::read(&path).expect("the file");
    for flags in [
        ["--set", "x.a=u8:1", "--set", "x.a=u8:2"],
        ["--eos", "a", "--eos", "b"],
        ["--general-name", "a", "--general-name", "b"],
        ["--pre-tokenizer", "qwen2", "--pre-tokenizer", "llama-bpe"],
        ["--chat-template", "{{ 1 }}", "--chat-template", "{{ 2 }}"],
        ["--remove", "general.name", "--remove", "general.name"],
        [
            "--remove",
            "gristmill.reserved",
            "--remove",
            "gristmill.reserved",
        ],
        ["--remove", "gristmill.reserved", "--reserve", "4K"],
    ] {
        let shown = edit(&place, &flags);
        assert!(
            shown.starts_with("exit: 1") && shown.contains("two edits name it"),
            "{flags:?} {shown}"
        );
    }
    assert_snapshot!(edit(&place, &["--rename", "general.name=general.name"]), @r#"
    exit: 1
    --- stderr
    error: model.gguf: metadata key "general.name" cannot be changed: the new key is the old one
    "#);
    assert_eq!(fs::read(&path).expect("the file"), before);
}

#[test]
fn a_template_that_loses_what_is_said_is_written_with_a_warning() {
    let place = Workplace::new();
    let path = small(&place);
    place.write(
        "tokenizer_config.json",
        r#"{"bos_token": "<s>", "chat_template": "{{ messages }}"}"#,
    );
    let key_and_file = "tokenizer.chat_template=tokenizer_config.json";
    assert_snapshot!(edit(&place, &["--set-file", key_and_file]), @r#"
    exit: 1
    --- stderr
    error: model.gguf: refused: "tokenizer.chat_template": is JSON that holds templates, and no template
    hint: --chat-template-file takes the template out of such a file; `--force` writes it as it is
    "#);
    assert_eq!(value(&path, "tokenizer.chat_template"), None);
    let dry = ["--dry-run", "--chat-template"];
    let errors = |template: &str| {
        let shown = edit(&place, &[dry[0], dry[1], template]);
        assert!(shown.starts_with("exit: 0"), "{shown}");
        let (_, errors) = shown.split_once("--- stderr\n").unwrap_or_default();
        errors.to_owned()
    };
    assert_snapshot!(errors("chatml"), @r#"
    warning: model.gguf: "tokenizer.chat_template": what was said in a conversation ("Zwetschgenknoedel?", "Palatschinken.") is not in what the template makes of it
    note: model.gguf: "tokenizer.chat_template": a system message is left out without a word
    "#);
    assert_snapshot!(errors("{{ messages | nofilter }}"), @r#"warning: model.gguf: "tokenizer.chat_template": the filter 'nofilter' is unknown"#);
    assert_snapshot!(errors("{{ raise_exception('never') }}"), @r#"note: model.gguf: "tokenizer.chat_template": a question, an answer and a question are refused: never"#);
    assert_eq!(
        errors("{% for m in messages %}{{ m.role }}: {{ m.content }}{% endfor %}"),
        ""
    );
    // The list of names stays when a named template goes, and that is told.
    place.write(
        "list.json",
        r#"{"chat_template": [{"name": "tool_use", "template": "{{ messages }}"}]}"#,
    );
    edit(&place, &["--chat-template-config", "list.json"]);
    let shown = edit(&place, &["--remove", "tokenizer.chat_template.tool_use"]);
    assert!(
        shown.contains("warning: model.gguf: \"tokenizer.chat_templates\": \"tool_use\" is listed"),
        "{shown}"
    );
}

/// What a file holds is told apart before it becomes a template, or a text.
#[test]
fn what_is_no_template_is_not_written_as_one() {
    let place = Workplace::new();
    let path = small(&place);
    let before = fs::read(&path).expect("the file");
    let expected = "hint: expected is the Jinja text of a template, or JSON with `chat_template`";
    for (bytes, fault) in [
        (&b""[..], "is empty, and no chat template"),
        (b"{{ x }}\0", "is no chat template: byte 7 is NUL"),
        (b"{{ x \xff }}", "is no UTF-8 text from byte 5 on"),
        (
            b"[]",
            "is a JSON list without templates, and no chat template",
        ),
        (b"null", "is a JSON value, and no chat template"),
        (b"\"A\"", "is a JSON string, and no chat template"),
        (
            b"\xef\xbb\xbf{\"bos_token\": 1}",
            "is a JSON object without `chat_template`, and no chat template",
        ),
        (
            b"{\"chat_template\": \"{{ mess",
            "is broken JSON, and no chat template: EOF while parsing a string",
        ),
    ] {
        fs::write(place.path("t"), bytes).expect("the folder is writable");
        let shown = edit(&place, &["--chat-template-file", "t"]);
        assert!(shown.contains(&format!("error: t: {fault}")), "{shown}");
        assert!(shown.contains(expected), "{shown}");
        let key_and_file = ["--set-file", "tokenizer.chat_template=t"];
        let shown = edit(&place, &key_and_file);
        assert!(
            shown.starts_with("exit: 1") && shown.contains(fault),
            "{shown}"
        );
    }
    fs::write(place.path("t"), b"abc\xff").expect("the folder is writable");
    assert_snapshot!(edit(&place, &["--set-file", "general.description=t"]), @r"
    exit: 1
    --- stderr
    error: t: is no UTF-8 text from byte 3 on
    hint: strings of a GGUF file are UTF-8; save the text as that
    ");
    assert_eq!(fs::read(&path).expect("the file"), before);
    for (text, template) in [
        ("[INST] {{ messages }}", "[INST] {{ messages }}"),
        ("\u{feff}{{ messages }}", "{{ messages }}"),
        (
            "\u{feff}{\"chat_template\": \"A{{ messages }}\"}",
            "A{{ messages }}",
        ),
        (
            "[{\"name\": \"default\", \"template\": \"B{{ messages }}\"}]",
            "B{{ messages }}",
        ),
    ] {
        place.write("t", text);
        for flags in [["--chat-template-file", "t"], ["--chat-template", text]] {
            place.run("gristmill edit model.gguf --set tokenizer.chat_template=x");
            edit(&place, &flags);
            assert_eq!(
                value(&path, "tokenizer.chat_template"),
                Some(template.into()),
                "{flags:?}"
            );
        }
    }
}

#[test]
fn wrong_values_come_with_the_right_ones() {
    let place = Workplace::new();
    small(&place);
    for (words, says) in [
        (["--set", "x.k=[1,2]"], "--set-array 'x.k=u32:[1,2]'"),
        (
            ["--set-array", "x.k=[true]"],
            "--set-array 'x.k=bool:[true]'",
        ),
        (
            ["--set-json", r#"{"x.k": [5]}"#],
            r#"{"type":"ARRAY","element_type":"UINT32","value":[5]}"#,
        ),
        (
            ["--set-json", "nofile.json"],
            "error: nofile.json: no such file\nhint: ",
        ),
        (["--set-json", "[1]"], "--set-json: no JSON object"),
        (
            ["--set-file", "x.k=nofile"],
            "error: nofile: no such file\nhint: ",
        ),
        (
            ["--set", "genral.name=str:x"],
            "warning: model.gguf: the key \"genral.name\" is new; near it: general.name",
        ),
        (
            ["--set", "general.file_type=Q8_0"],
            "hint: the number of Q8_0 is 7",
        ),
        (
            ["--set", "tokenizer.ggml.eos_token_id=70000"],
            "the ids of tokens are 0 to 4",
        ),
        (
            ["--reserve", "10TB"],
            "--reserve asks for 10000000000000 bytes, and a string has 268435456 at most",
        ),
        (["--reserve", "1.5K"], "a whole number, as in 1500 for 1.5K"),
    ] {
        let shown = edit(&place, &words);
        assert!(shown.contains(says), "{words:?}: {shown}");
    }
    assert_snapshot!(edit(&place, &["--set", "general.alignment=7", "--force"]), @r#"
    exit: 1
    --- stderr
    error: model.gguf: metadata key "general.alignment" cannot be changed: UINT32 7 is no alignment; give a multiple of 8 as UINT32 (llama.cpp: a power of two)
    "#);
    assert_snapshot!(edit(&place, &["--set", "general.name", "My model"]), @r"
    exit: 2
    --- stderr
    error: unexpected argument 'My model'; a change is one word, as in --set general.name='My model'

    Usage: gristmill edit [OPTIONS] <FILE>

    For more information, try '--help'.
    ");
}

#[test]
fn room_is_asked_for_as_it_can_be_had() {
    let place = Workplace::new();
    let path = small(&place);
    // There is enough of it already.
    let before = fs::read(&path).expect("the file");
    assert_snapshot!(edit(&place, &["--reserve", "64"]), @r"
    exit: 0
    --- stdout
    nothing changes
    room for later edits: 512 bytes
    that is more than the 64 that were asked for; for less, give `--reserve 0` first
    ");
    assert_eq!(fs::read(&path).expect("the file"), before);
    let more = edit(&place, &["--reserve", "1KiB", "--dry-run"]);
    let (lines, _) = more.split_once("header before").expect("hashes");
    assert_snapshot!(lines, @r"
    exit: 0
    --- stdout
    ~ gristmill.reserved: 512 -> 1024 bytes of room
    a new file: would write 1536 bytes (before: 1024), as later edits shall have 1024 bytes of room, and in the header's place there are 522
    room for later edits: 1024 bytes
    ");
    // Without tensors every edit writes the whole file, so that no room is ever used.
    let mut metadata = Metadata::new();
    metadata.set("general.name", "vocabulary");
    let path = place.path("vocabulary.gguf");
    let writer = Writer::create(&path, &metadata, &[], &WriteOptions::default());
    writer.expect("a writer").finish().expect("a file");
    assert_snapshot!(place.run("gristmill edit vocabulary.gguf --reserve 4K"), @r#"
    exit: 1
    --- stderr
    error: vocabulary.gguf: metadata key "gristmill.reserved" cannot be changed: --reserve is of no use in a file without tensors: every edit writes it anew
    "#);
    assert_eq!(File::open(&path).expect("it opens").metadata().len(), 1);
}

#[test]
fn an_edit_that_was_made_is_told_where_its_report_cannot_be() {
    let place = Workplace::new();
    let path = small(&place);
    let full = fs::OpenOptions::new().write(true).open("/dev/full");
    let Ok(full) = full else { return };
    let output = place
        .command("gristmill")
        .args(["edit", "model.gguf", "--general-name", "x"])
        .stdout(full)
        .output()
        .expect("it runs");
    assert_snapshot!(place.show(&output), @r"
    exit: 1
    --- stderr
    error: model.gguf: the edit is made, but standard output cannot be written: No space left on device (os error 28)
    hint: free some space where standard output leads to, or send it elsewhere
    ");
    assert_eq!(value(&path, "general.name"), Some(Value::from("x")));
}

#[test]
fn help_in_a_narrow_terminal_is_not_a_column_of_words() {
    let place = Workplace::new();
    let output = place
        .command("gristmill")
        .args(["edit", "--help"])
        .env("COLUMNS", "40")
        .output()
        .expect("it runs");
    let shown = place.show(&output);
    let deepest = shown
        .lines()
        .map(|line| line.len() - line.trim_start().len());
    assert!(deepest.max() <= Some(10), "{shown}");
}

#[test]
fn bytes_that_are_no_text_go_through_json_and_back() {
    let place = Workplace::new();
    let path = small(&place);
    let strings = |items: [&[u8]; 3]| {
        let mut array = StringArray::new();
        items.iter().for_each(|item| array.push(item));
        Value::Array(Array::String(array))
    };
    let (text, list) = (
        Value::String(Text::from_bytes(b"caf\xe9")),
        strings([b"\\xff", b"\xff", b"a"]),
    );
    for (key, json) in [
        ("x.text", r#"{"bytes": "636166e9"}"#),
        ("x.list", r#"["\\xff", {"bytes": "ff"}, "a"]"#),
    ] {
        let object = format!("{{\"{key}\": {json}}}");
        place.run_words(&["gristmill", "edit", "model.gguf", "--set-json", &object]);
    }
    let there = || (value(&path, "x.text"), value(&path, "x.list"));
    assert_eq!(there(), (Some(text.clone()), Some(list.clone())));
    let output = place
        .command("gristmill")
        .args(["inspect", "model.gguf", "--json", "--full"])
        .output();
    let document = output.expect("it runs").stdout;
    let mut document: serde_json::Value = serde_json::from_slice(&document).expect("it is JSON");
    let metadata = document["metadata"].as_object_mut().expect("an object");
    metadata.retain(|key, _| key.starts_with("x."));
    place.write("metadata.json", document["metadata"].to_string());
    fs::copy(&path, place.path("old.gguf")).expect("it is copied");
    for line in [
        "gristmill edit model.gguf --remove x.text --remove x.list",
        "gristmill edit model.gguf --set-json metadata.json --force",
    ] {
        let outcome = place.run(line);
        assert!(outcome.starts_with("exit: 0"), "{outcome}");
    }
    assert_eq!(there(), (Some(text), Some(list)));
    let outcome = place.run("gristmill edit old.gguf --set x.text=str:caf\\xe9");
    let change = r#"~ x.text: "caf\xe9" -> "caf\\xe9""#;
    assert!(outcome.contains(change), "{outcome}");
    let outcome = place.run("gristmill edit model.gguf --set-file general.name=old.gguf");
    assert!(
        outcome.contains("old.gguf: is no UTF-8 text from byte"),
        "{outcome}"
    );
}

#[test]
fn a_danger_is_told_by_what_it_endangers() {
    let place = Workplace::new();
    small(&place);
    let lines = [
        "gristmill edit model.gguf --set tokenizer.ggml.add_bos_token=u8:1",
        "gristmill edit model.gguf --set general.architecture=imatrix --force",
        "gristmill edit model.gguf --set imatrix.chunk_count=u32:5",
        "gristmill edit model.gguf --set split.count=u16:2 --force",
        "gristmill inspect model.gguf",
    ];
    let said = lines.map(|line| {
        let outcome = place.run(line);
        let lines = outcome.lines();
        let said = |line: &&str| line.starts_with("error") || line.starts_with("hint");
        lines.filter(said).collect::<Vec<_>>().join("\n")
    });
    assert_snapshot!(said.join("\n"), @r#"
    error: model.gguf: refused: "tokenizer.ggml.add_bos_token" says how text becomes tokens; "tokenizer.ggml.add_bos_token" would be UINT8, and it is BOOL everywhere
    hint: if you are sure, give `--force`; `--dry-run --force` shows the change, and `--backup` keeps the old file

    error: model.gguf: refused: "imatrix.chunk_count" says how the sums were counted
    hint: if you are sure, give `--force`; `--dry-run --force` shows the change, and `--backup` keeps the old file

    error: model.gguf: metadata key "split.no" is missing
    hint: if this is a whole model, `gristmill edit FILE --remove split.count --force`; if it is a shard, fetch it again
    "#);
}
