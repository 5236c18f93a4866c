//! `edit`: what it prints and refuses, and that a kill at any moment leaves a model that can be used.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use gristmill_gguf::{File, Metadata, TensorPlan, Value, WriteOptions, Writer};
use insta::assert_snapshot;

use crate::harness::{Workplace, send};
use crate::interrupted::n_kills;

/// A small model with a vocabulary, and room for edits.
pub(crate) fn small(place: &Workplace) -> PathBuf {
    let path = place.path("model.gguf");
    let mut metadata = Metadata::new();
    metadata.set("general.architecture", "llama");
    metadata.set("general.name", "small");
    metadata.set("general.tags", vec!["one".to_owned()]);
    metadata.set("llama.block_count", 2u32);
    metadata.set("x.bytes", vec![1u8, 2, 255]);
    let tokens = ["<s>", "</s>", "a", "<|im_end|>", "b"].map(str::to_owned);
    metadata.set("tokenizer.ggml.tokens", tokens.to_vec());
    metadata.set("tokenizer.ggml.eos_token_id", 1u32);
    let tensor = TensorPlan {
        name: "w".to_owned(),
        dims: vec![16],
        ty: gristmill_quant::F32,
    };
    let options = WriteOptions {
        reserve: 512,
        ..WriteOptions::default()
    };
    let mut writer = Writer::create(&path, &metadata, &[tensor], &options).expect("a writer");
    writer.write(&[7; 64]).expect("the data");
    writer.finish().expect("a file");
    path
}

pub(crate) fn value(path: &Path, key: &str) -> Option<Value> {
    let file = File::open(path).expect("the file opens");
    file.metadata().get(key).cloned()
}

#[test]
fn an_edit_is_shown_and_then_made() {
    let place = Workplace::new();
    let path = small(&place);
    let before = fs::read(&path).expect("the file");
    let line = "gristmill edit model.gguf --set general.name=a:b --add x.n=u8:7 --rename general.tags=general.labels \
                --remove x.bytes";
    let words: Vec<&str> = line.split_whitespace().collect();
    let dry = place.run_words(&[&words[..], &["--dry-run"]].concat());
    assert_snapshot!(dry, @r#"
    exit: 0
    --- stdout
    - x.bytes: ARRAY of UINT8 [1, 2, 255] (3)
    > general.labels: was general.tags
    ~ general.name: "small" -> "a:b"
    + x.n: UINT8 7
    in place: would write 1976 bytes, undo file included; the file keeps its 1024 bytes, and the tensor data its place
    room for later edits: 540 bytes
    header before: sha256 30fe0bdeb168161768c0076589453b8e83102fd752928522263abb26ef03500f (960 bytes)
    header after:  sha256 3eb04a3e5a25367b6292d6927145f50697998facedb2104252de19da9c7a4f0b (960 bytes)
    "#);
    assert_eq!(fs::read(&path).expect("the file"), before);
    let done = place.run_words(&words);
    assert_eq!(done, dry.replace("would write", "wrote"));
    assert_eq!(value(&path, "general.name"), Some("a:b".into()));
    assert_eq!(value(&path, "x.n"), Some(Value::U8(7)));
    assert_eq!(place.files(), ["model.gguf"]);
    assert_eq!(
        fs::metadata(&path).expect("the file").len(),
        before.len() as u64
    );
}

#[test]
fn the_json_report_says_the_same() {
    let place = Workplace::new();
    small(&place);
    let line = "gristmill edit model.gguf --set-array general.tags=[\"x\",\"y\"] --eos <|im_end|> --json --hash --backup";
    let output = place
        .command("gristmill")
        .args(line.split(' ').skip(1))
        .output()
        .expect("it runs");
    assert!(output.status.success(), "{}", place.show(&output));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    assert_eq!(report["way"], "in place");
    assert_eq!(report["dry_run"], false);
    assert_eq!(
        report["changes"][0]["after"]["preview"],
        serde_json::json!(["x", "y"])
    );
    assert_eq!(report["changes"][1]["key"], "tokenizer.ggml.eos_token_id");
    assert_eq!(
        report["changes"][1]["after"],
        serde_json::json!({ "type": "UINT32", "value": 3 })
    );
    let sum = |when: &str| report["file_sha256"][when].as_str().map(str::len);
    assert_eq!((sum("before"), sum("after")), (Some(64), Some(64)));
    assert_eq!(place.files(), ["model.gguf", "model.gguf.bak"]);
}

#[test]
fn values_come_from_files_json_and_the_reference_flags() {
    let place = Workplace::new();
    let path = small(&place);
    place.write("t.jinja", "{{ messages }}\r\n\u{2581}");
    place.write(
        "more.json",
        r#"{"general.name": "from json", "x.f": {"type": "f32", "value": 0.5}, "x.bytes": [9]}"#,
    );
    let run = |line: &str| {
        let shown = place.run(line);
        assert!(shown.starts_with("exit: 0"), "{shown}");
    };
    run(
        "gristmill edit model.gguf --set-json more.json --chat-template-file t.jinja --set-file x.text=t.jinja",
    );
    let template = || value(&path, "tokenizer.chat_template");
    assert_eq!(template(), Some("{{ messages }}\r\n\u{2581}".into()));
    assert_eq!(value(&path, "x.text"), template());
    assert_eq!(value(&path, "x.f"), Some(0.5f32.into()));
    assert_eq!(value(&path, "x.bytes"), Some(vec![9u8].into()));
    run("gristmill edit model.gguf --general-name other --general-description d --remove-metadata x.f --pre-tokenizer qwen2 \
         --special-token bos <s> --special-token-by-id eot 3 --pad b"
        .replace("         ", "").as_str());
    assert_eq!(value(&path, "general.name"), Some("other".into()));
    assert_eq!(value(&path, "tokenizer.ggml.pre"), Some("qwen2".into()));
    assert_eq!(
        value(&path, "tokenizer.ggml.bos_token_id"),
        Some(0u32.into())
    );
    assert_eq!(
        value(&path, "tokenizer.ggml.eot_token_id"),
        Some(3u32.into())
    );
    assert_eq!(
        value(&path, "tokenizer.ggml.padding_token_id"),
        Some(4u32.into())
    );
    place.write(
        "tokenizer_config.json",
        r#"{"chat_template": [{"name": "default", "template": "A"}, {"name": "tool use", "template": "B"}]}"#,
    );
    run("gristmill edit model.gguf --chat-template-config tokenizer_config.json");
    assert_eq!(template(), Some("A".into()));
    assert_eq!(
        value(&path, "tokenizer.chat_template.tool_use"),
        Some("B".into())
    );
    assert_eq!(
        value(&path, "tokenizer.chat_templates"),
        Some(vec!["tool_use".to_owned()].into())
    );
}

#[test]
fn what_cannot_be_done_is_said_with_its_remedy() {
    let place = Workplace::new();
    let path = small(&place);
    let before = fs::read(&path).expect("the file");
    assert_snapshot!(place.run("gristmill edit model.gguf"), @r#"
    exit: 2
    --- stderr
    error: nothing to change: give --set, --add, --rename, --remove or another edit

    Usage: gristmill edit [OPTIONS] <FILE>

    For more information, try '--help'.
    "#);
    assert_snapshot!(place.run("gristmill edit model.gguf --set llama.block_count=3 --remove tokenizer.ggml.tokens"), @r#"
    exit: 1
    --- stderr
    error: model.gguf: refused: "tokenizer.ggml.tokens" says how text becomes tokens; "llama.block_count" is a hyperparameter of the model
    hint: if you are sure, give `--force`; `--dry-run --force` shows the change, and `--backup` keeps the old file
    "#);
    assert_snapshot!(place.run("gristmill edit model.gguf --set x.new=3"), @r#"
    exit: 1
    --- stderr
    error: model.gguf: metadata key "x.new" is new, and its type is not given
    hint: put a type in front of the value, as in x.new=u32:3
    "#);
    assert_snapshot!(place.run("gristmill edit model.gguf --set llama.block_count=-3 --force"), @r#"
    exit: 1
    --- stderr
    error: model.gguf: metadata key "llama.block_count": -3 does not fit in UINT32 (0 to 4294967295)
    "#);
    assert_snapshot!(place.run("gristmill edit model.gguf --remove x.none"), @r#"
    exit: 1
    --- stderr
    error: model.gguf: metadata key "x.none" cannot be changed: it is not there
    hint: `gristmill inspect --metadata` lists the keys
    "#);
    assert_snapshot!(place.run("gristmill edit model.gguf --eos im_end"), @r#"
    exit: 1
    --- stderr
    error: model.gguf: no token of the vocabulary is "im_end"
    hint: near it: "<|im_end|>"
    "#);
    for (wrong, says) in [
        ("--special-token end a", "\"end\" is no special token"),
        ("--special-token-by-id eos x", "\"x\" is no id of a token"),
        (
            "--set foo",
            "\"foo\" is not of the form --set KEY=[TYPE:]VALUE",
        ),
        ("--rename =x", "\"=x\" is not of the form --rename OLD=NEW"),
    ] {
        let shown = place.run(&format!("gristmill edit model.gguf {wrong}"));
        assert!(
            shown.starts_with("exit: 2") && shown.contains(says),
            "{shown}"
        );
    }
    assert_snapshot!(place.run("gristmill edit model.gguf --set-array x.new=u8:[1,256]"), @r#"
    exit: 1
    --- stderr
    error: model.gguf: metadata key "x.new": 256 does not fit in UINT8 (0 to 255)
    "#);
    let shown =
        place.run("gristmill edit model.gguf --general-name x --output model.gguf --dry-run");
    assert!(
        shown.starts_with("exit: 1") && shown.contains("is the same file as the input"),
        "{shown}"
    );
    assert_snapshot!(place.run("gristmill edit model.gguf --general-name x --output model.gguf"), @r#"
    exit: 1
    --- stderr
    error: model.gguf: is the same file as the input model.gguf
    hint: choose another name: an input is never overwritten
    "#);
    assert_eq!(fs::read(&path).expect("the file"), before);
    assert_eq!(place.files(), ["model.gguf"]);
}

#[test]
fn a_template_that_does_not_compile_is_not_written() {
    let place = Workplace::new();
    let path = small(&place);
    let before = fs::read(&path).expect("the file");
    place.write(
        "broken.jinja",
        "{{ bos_token }}\n{% for m in messages %}\n{{ m.content }}",
    );
    place.write("list.json", r#"{"chat_template": [{"name": "default", "template": "A"}, {"name": "tool use", "template": "{% if %}"}]}"#);
    assert_snapshot!(place.run("gristmill edit model.gguf --chat-template-file broken.jinja"), @r#"
    exit: 1
    --- stderr
    error: model.gguf: refused: "tokenizer.chat_template": chat template, line 3: the template ends before 'else' or 'endfor'
    hint: mend the template; `--force` writes it as it is
    "#);
    assert_snapshot!(place.run("gristmill edit model.gguf --chat-template-config list.json --dry-run"), @r#"
    exit: 1
    --- stderr
    error: model.gguf: refused: "tokenizer.chat_template.tool_use": chat template, line 1: '%}' instead of a value
    hint: mend the template; `--force` writes it as it is
    "#);
    assert_snapshot!(place.run("gristmill edit model.gguf --add tokenizer.chat_template=u32:5"), @r#"
    exit: 1
    --- stderr
    error: model.gguf: refused: "tokenizer.chat_template" would be UINT32, and it is STRING everywhere
    hint: if you are sure, give `--force`; `--dry-run --force` shows the change, and `--backup` keeps the old file
    "#);
    for line in [
        "gristmill edit model.gguf --set-file tokenizer.chat_template=broken.jinja",
        "gristmill edit model.gguf --set-file x.text=broken.jinja --output other.gguf",
        "gristmill edit other.gguf --rename x.text=tokenizer.chat_template",
    ] {
        let shown = place.run(line);
        let refused = shown.contains("line 3") && shown.starts_with("exit: 1");
        // As any other text it is nobody's business.
        assert_eq!(refused, !line.contains("--output"), "{line}\n{shown}");
    }
    assert_eq!(fs::read(&path).expect("the file"), before);
    let shown = place.run("gristmill edit model.gguf --chat-template-file broken.jinja --force");
    assert!(
        shown.starts_with("exit: 0") && shown.contains("warning: "),
        "{shown}"
    );
    let written = fs::read_to_string(place.path("broken.jinja")).expect("the template");
    assert_eq!(
        value(&path, "tokenizer.chat_template"),
        Some(written.into())
    );
}

#[test]
fn a_cut_edit_is_put_right_by_any_command_or_refused() {
    let place = Workplace::new();
    let path = small(&place);
    let before = fs::read(&path).expect("the file");
    // An undo file that is none: nothing is believed, nothing is touched.
    place.write("model.gguf.edit-undo", "GMILLUND but not really");
    for line in [
        "gristmill inspect model.gguf",
        "gristmill tokenize -m model.gguf -p a",
        "gristmill quantize model.gguf out.gguf Q8_0",
        "gristmill edit model.gguf --general-name x",
        "gristmill run -m model.gguf -p a",
    ] {
        let shown = place.run(line);
        assert!(shown.starts_with("exit: 1\n--- stderr\nerror: "), "{shown}");
        assert!(
            shown.contains("model.gguf.edit-undo") && shown.contains("\nhint: "),
            "{shown}"
        );
    }
    assert_eq!(fs::read(&path).expect("the file"), before);
    assert_eq!(place.files(), ["model.gguf", "model.gguf.edit-undo"]);
}

/// A model whose header has several megabytes, so that there is something to cut short.
fn large(path: &Path) {
    let mut metadata = Metadata::new();
    metadata.set("general.architecture", "llama");
    metadata.set("general.name", "before");
    let tokens: Vec<String> = (0..400_000).map(|id| format!("token {id}")).collect();
    metadata.set("tokenizer.ggml.tokens", tokens);
    let tensor = TensorPlan {
        name: "w".to_owned(),
        dims: vec![1 << 18],
        ty: gristmill_quant::F32,
    };
    let options = WriteOptions {
        reserve: 4096,
        ..WriteOptions::default()
    };
    let mut writer = Writer::create(path, &metadata, &[tensor], &options).expect("a writer");
    writer.write(&vec![3; 1 << 20]).expect("the data");
    writer.finish().expect("a file");
}

/// Moments spread evenly over the time that an edit takes, by a sequence that never repeats.
fn moments(whole: Duration) -> impl Iterator<Item = Duration> {
    (1..=n_kills()).map(move |n| whole.mul_f64((f64::from(n) * 0.618_033_988_75).fract() * 1.1))
}

#[test]
fn a_kill_at_any_moment_leaves_the_old_file_or_the_new_one() {
    // A value that moves everything behind it, in place; and one that needs a new file.
    let long = "x".repeat(1 << 20);
    for (name, in_place) in [("a name of another length", true), (long.as_str(), false)] {
        let place = Workplace::new();
        let path = place.path("model.gguf");
        large(&path);
        let before = fs::read(&path).expect("the file");
        fs::write(place.path("name"), name).expect("the name");
        let edit = || {
            place
                .command("gristmill")
                .args(["edit", "model.gguf", "--set-file", "general.name=name"])
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("it starts")
        };
        // The shortest of a few, so that most kills come before the end.
        let timed = |_| {
            fs::write(&path, &before).expect("the file");
            let start = Instant::now();
            assert!(edit().wait().expect("it ends").success());
            start.elapsed()
        };
        let whole = (0..4).map(timed).min().unwrap_or_default();
        let after = fs::read(&path).expect("the file");
        assert_eq!(after.len() == before.len(), in_place);
        let (mut n_old, mut n_new, mut n_restored, mut n_midway) = (0, 0, 0, 0);
        for moment in moments(whole) {
            fs::write(&path, &before).expect("the file");
            let mut child = edit();
            std::thread::sleep(moment);
            child.kill().expect("it can be killed");
            n_midway += u32::from(!child.wait().expect("it ends").success());
            let output = place
                .command("gristmill")
                .args(["inspect", "model.gguf"])
                .output();
            let output = output.expect("it runs");
            assert!(
                output.status.success(),
                "{moment:?}: {}",
                place.show(&output)
            );
            n_restored += u32::from(String::from_utf8_lossy(&output.stderr).contains("note: "));
            let found = fs::read(&path).expect("the file");
            assert!(
                found == before || found == after,
                "{moment:?}: neither old nor new"
            );
            n_old += u32::from(found == before);
            n_new += u32::from(found == after);
            // What a kill leaves has a name that nothing takes for a model.
            for left in place.files() {
                assert!(
                    ["model.gguf", "name"].contains(&&*left) || left.ends_with(".gguf.part"),
                    "{left}"
                );
                if left.ends_with(".part") {
                    fs::remove_file(place.path(&left)).expect("it can be removed");
                }
            }
        }
        println!("{n_old} old, {n_new} new, {n_restored} put right; one edit takes {whole:?}");
        assert!(n_midway > 0, "every kill came too late");
    }
}

#[test]
fn ctrl_c_leaves_nothing_but_the_old_file_or_the_new_one() {
    let place = Workplace::new();
    let path = place.path("model.gguf");
    large(&path);
    let before = fs::read(&path).expect("the file");
    fs::write(place.path("name"), "x".repeat(1 << 20)).expect("the name");
    for wait in [20, 60, 120] {
        fs::write(&path, &before).expect("the file");
        let mut child = place
            .command("gristmill")
            .args(["edit", "model.gguf", "--set-file", "general.name=name"])
            .stderr(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("it starts");
        std::thread::sleep(Duration::from_millis(wait));
        send(&child, "-INT");
        let mut errors = String::new();
        let stderr = child.stderr.as_mut().expect("it is piped");
        stderr.read_to_string(&mut errors).expect("it can be read");
        let status = child.wait().expect("it ends");
        let new_name = value(&path, "general.name") != Some("before".into());
        assert!(
            new_name == status.success() || status.code() == Some(130),
            "{status:?} {errors}"
        );
        assert_eq!(place.files(), ["model.gguf", "name"]);
    }
}

#[test]
fn what_a_value_is_read_from_is_a_file_of_bounded_length() {
    let place = Workplace::new();
    small(&place);
    for flag in [
        "--set-file x.text=/dev/zero",
        "--set-json /dev/zero",
        "--chat-template-file /dev/zero",
        "--chat-template-config /dev/zero",
    ] {
        let shown = place.run(&format!("gristmill edit model.gguf {flag}"));
        assert!(
            shown.contains("/dev/zero: is no regular file\nhint: "),
            "{flag}: {shown}"
        );
    }
    // A hole of a terabyte costs nothing to make.
    let hole = fs::File::create(place.path("hole")).expect("a file");
    hole.set_len(1 << 40).expect("a length");
    let shown = place.run("gristmill edit model.gguf --set-file x.text=hole");
    assert!(
        shown.contains("hole: has more than the 268435456 bytes"),
        "{shown}"
    );
}

#[test]
fn known_keys_have_their_types_and_near_ones_are_told() {
    let place = Workplace::new();
    let path = small(&place);
    let run =
        |words: &[&str]| place.run_words(&[&["gristmill", "edit", "model.gguf"], words].concat());
    for word in [
        r#"general.languages=["en","de"]"#,
        r#"general.datasets=str:["x","y"]"#,
        "general.base_model.count=1",
        "tokenizer.ggml.eot_token_id=3",
    ] {
        let shown = run(&["--set", word]);
        assert!(shown.starts_with("exit: 0"), "{shown}");
    }
    let list = |words: [&str; 2]| Some(Value::from(words.map(str::to_owned).to_vec()));
    assert_eq!(value(&path, "general.languages"), list(["en", "de"]));
    assert_eq!(value(&path, "general.datasets"), list(["x", "y"]));
    assert_eq!(value(&path, "general.base_model.count"), Some(1u32.into()));
    assert_eq!(
        value(&path, "tokenizer.ggml.eot_token_id"),
        Some(3u32.into())
    );
    for (word, says) in [
        (
            "tokenizer.ggml.eom_token_id=u64:1",
            "it is UINT32 everywhere",
        ),
        ("tokenizer.ggml.pre=u32:5", "it is STRING everywhere"),
        ("general.author=srt:foo", "\"srt\" is no type"),
    ] {
        let shown = run(&["--set", word]);
        assert!(
            shown.starts_with("exit: 1") && shown.contains(says),
            "{shown}"
        );
    }
    let forced = run(&["--set", "tokenizer.ggml.pre=u32:5", "--force", "--dry-run"]);
    assert!(
        forced.contains("warning: ") && forced.contains("it is STRING everywhere"),
        "{forced}"
    );
    let near = run(&["--set", "genral.license=str:mit", "--dry-run"]);
    assert!(near.contains("near it: general.license"), "{near}");
    let absent = run(&["--remove", "general.nam"]);
    assert!(absent.contains("hint: near it: general.name"), "{absent}");
    let twice = run(&["--set-json", r#"{"x.a": "x", "x.a": "y"}"#]);
    assert!(
        twice.starts_with("exit: 1") && twice.contains("\"x.a\" is there twice"),
        "{twice}"
    );
    let number = run(&["--eos", "3"]);
    assert!(number.contains("--special-token-by-id eos 3"), "{number}");
}

#[test]
fn the_report_shows_where_texts_part_and_which_tokens_ids_mean() {
    let place = Workplace::new();
    small(&place);
    let start = "{# a template with a long beginning that no edit touches #}".repeat(3);
    place.write("a.jinja", format!("{start}old"));
    place.write("b.jinja", format!("{start}new"));
    place.run("gristmill edit model.gguf --chat-template-file a.jinja");
    let shown = place.run("gristmill edit model.gguf --chat-template-file b.jinja");
    assert!(
        shown.contains("old\" (from byte ") && shown.contains("new\" (from byte "),
        "{shown}"
    );
    let shown = place.run("gristmill edit model.gguf --special-token-by-id eos 3");
    assert!(
        shown.contains(r#"eos_token_id: 1 "</s>" -> 3 "<|im_end|>""#),
        "{shown}"
    );
    let same = place.run("gristmill edit model.gguf --special-token-by-id eos 3");
    assert!(
        same.contains("nothing changes") && !same.contains("sha256"),
        "{same}"
    );
    // Without room it has to be made, and that is an entry of the file's.
    place.run("gristmill edit model.gguf --reserve 0");
    let shown = place.run("gristmill edit model.gguf --remove x.bytes --remove general.name");
    assert!(shown.contains("\n+ gristmill.reserved: "), "{shown}");
}
