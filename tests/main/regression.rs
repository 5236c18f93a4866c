//! Bad input and past faults, named after their cases.

use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use gristmill_gguf::Value;
use insta::assert_snapshot;

use crate::fixtures::{Change, changed, large_model, other_kinds, small_model, wrong_kinds};
use crate::harness::{Workplace, send, tiny, wait};

/// Runs a command line on every file, with `FILE` standing for its name, and shows what each got. Every one must fail
/// with 1 and leave nothing behind.
fn refused(place: &Workplace, line: &str, files: &[&str]) -> String {
    let before = place.files();
    let mut shown = String::new();
    for file in files {
        let outcome = place.run(&line.replace("FILE", file));
        let message = outcome.strip_prefix("exit: 1\n--- stderr\n");
        let message =
            message.unwrap_or_else(|| panic!("{file} was not refused as it should be:\n{outcome}"));
        shown += &format!("{file}\n  {}\n", message.replace('\n', "\n  "));
    }
    assert_eq!(place.files(), before, "something was left behind");
    shown
}

#[test]
fn b15_a_file_of_another_kind_is_named() {
    let place = Workplace::new();
    let files = wrong_kinds();
    for (name, bytes) in &files {
        place.write(name, bytes);
    }
    std::fs::create_dir(place.path("folder.gguf")).expect("a folder can be made");
    let mut names: Vec<&str> = files.iter().map(|(name, _)| *name).collect();
    names.extend(["absent.gguf", "folder.gguf"]);
    let shown = refused(&place, "gristmill inspect FILE", &names);
    assert_snapshot!(shown, @r#"
    empty.gguf
      error: empty.gguf: the file is empty (0 bytes)
      hint: the download or copy never finished; fetch the file again
    ggjt.gguf
      error: ggjt.gguf: is a GGJT file, a format that GGUF replaced in August 2023
      hint: get a GGUF file of the same model, or make one from its original checkpoint with `gristmill convert`
    ggml.gguf
      error: ggml.gguf: is a GGML file, a format that GGUF replaced in August 2023
      hint: get a GGUF file of the same model, or make one from its original checkpoint with `gristmill convert`
    gzip.gguf
      error: gzip.gguf: is a gzip archive (68 bytes), not a GGUF file
      hint: unpack it and name the .gguf file inside
    newer.gguf
      error: newer.gguf: is GGUF version 4; versions 2 and 3 are known
      hint: update gristmill: the file was written for a later version of the format
    page.gguf
      error: page.gguf: is an HTML page (51 bytes), not a GGUF file
      hint: the download saved a web page, often a login or error page; fetch the file itself (its address has `/resolve/` in place of `/blob/`), signed in if the model is gated
    pointer.gguf
      error: pointer.gguf: is a Git LFS pointer (73 bytes) that stands for the real file of 4920733920 bytes
      hint: run `git lfs pull` in the repository, or download the file itself
    safetensors.gguf
      error: safetensors.gguf: is a safetensors file under another name, not a GGUF file
      hint: renaming does not convert: put it in a folder with its config.json and tokenizer files, and run `gristmill convert FOLDER`
    zip.gguf
      error: zip.gguf: is a zip archive (68 bytes), not a GGUF file
      hint: unpack it and name the .gguf file inside
    absent.gguf
      error: absent.gguf: no such file
      hint: check the path: a model is one .gguf file, or any of its shards
    folder.gguf
      error: folder.gguf: is a folder, not a GGUF file
      hint: name the .gguf file inside it; a Hugging Face folder becomes one with `gristmill convert`
    "#);
    for line in [
        "gristmill run -m FILE -p hi -n 1",
        "gristmill quantize FILE out.gguf Q4_0",
        "gristmill tokenize -m FILE -p hi",
        "gristmill logits FILE --tokens 1,2 --output out.npy",
    ] {
        assert_eq!(refused(&place, line, &names), shown, "{line}");
    }
}

#[test]
fn a_gguf_that_is_no_model_is_named() {
    let place = Workplace::new();
    let names = other_kinds(&place);
    let shown = refused(&place, "gristmill run -m FILE -p hi -n 1", &names);
    assert_snapshot!(shown, @r"
    adapter.gguf
      error: adapter.gguf: is an adapter (LoRA), not a model
      hint: name the base model's file here, and this one with --lora
    control.gguf
      error: control.gguf: is a control vector, not a model
      hint: name the model's file here, and this one with --control-vector
    imatrix.gguf
      error: imatrix.gguf: is an importance matrix (imatrix), not a model
      hint: name the model's file here; `gristmill quantize --imatrix` takes an importance matrix
    mmproj.gguf
      error: mmproj.gguf: is a multimodal projector (mmproj), not a model
      hint: name the language model's file here; images and sound are not supported yet
    vocabulary.gguf
      error: vocabulary.gguf: holds a vocabulary and no weights
      hint: use a file with weights; this one is good for `gristmill tokenize` and `gristmill inspect`
    ");
    assert_eq!(
        refused(
            &place,
            "gristmill logits FILE --tokens 1,2 --output out.npy",
            &names
        ),
        shown
    );
    assert_snapshot!(refused(&place, "gristmill quantize FILE out.gguf Q4_0", &names), @r"
    adapter.gguf
      error: adapter.gguf: is an adapter (LoRA), not a model
      hint: name the base model's file here, and this one with --lora
    control.gguf
      error: control.gguf: is a control vector, not a model
      hint: name the model's file here, and this one with --control-vector
    imatrix.gguf
      error: imatrix.gguf: is an importance matrix (imatrix), not a model
      hint: name the model's file here; `gristmill quantize --imatrix` takes an importance matrix
    mmproj.gguf
      error: mmproj.gguf: is a multimodal projector (mmproj), not a model
      hint: name the language model's file here; images and sound are not supported yet
    vocabulary.gguf
      error: vocabulary.gguf: holds a vocabulary and no weights
      hint: use a file with weights; this one is good for `gristmill tokenize` and `gristmill inspect`
    ");
}

#[test]
fn b06_a_truncated_file_is_named() {
    let place = Workplace::new();
    let model = std::fs::read(small_model()).expect("the model can be read");
    for (name, length) in [
        ("header.gguf", 20),
        ("metadata.gguf", 5000),
        ("data.gguf", model.len() - 1),
    ] {
        place.write(name, &model[..length]);
    }
    let names = ["header.gguf", "metadata.gguf", "data.gguf"];
    let shown = refused(&place, "gristmill run -m FILE -p hi -n 1", &names);
    assert_snapshot!(shown, @r#"
    header.gguf
      error: header.gguf: the file ends inside the header: at byte 16 it needs 8 more bytes, and has 4
      hint: the file is incomplete; compare its size and hash with its source and fetch it again
    metadata.gguf
      error: metadata.gguf: key "tokenizer.ggml.tokens": an array of 1024 elements of STRING takes at least 8192 bytes, and 4122 are left (byte 866)
      hint: the file is damaged, or was made by a faulty tool; compare its hash with its source and fetch or convert it again
    data.gguf
      error: data.gguf: tensor "output_norm.weight" ends at byte 5281344, but the file has 5281343 bytes
      hint: the file is incomplete; compare its size and hash with its source and fetch it again
    "#);
    assert_eq!(
        refused(&place, "gristmill quantize FILE out.gguf Q4_0", &names),
        shown
    );
}

#[test]
fn a_model_that_does_not_fit_its_architecture_is_named() {
    let place = Workplace::new();
    let text = |text: &str| Value::String(text.into());
    let changes = [
        (
            "architecture.gguf",
            Change {
                set: vec![("general.architecture", text("frobnicator"))],
                ..Change::default()
            },
        ),
        (
            "missing.gguf",
            Change {
                without: Some("blk.1.ffn_up.weight"),
                ..Change::default()
            },
        ),
        (
            "pre.gguf",
            Change {
                set: vec![("tokenizer.ggml.pre", text("gpt-3"))],
                ..Change::default()
            },
        ),
        (
            "shape.gguf",
            Change {
                cut: Some("blk.0.attn_q.weight"),
                ..Change::default()
            },
        ),
    ];
    for (name, change) in &changes {
        changed(&small_model(), &place.path(name), change);
    }
    let names = changes.each_ref().map(|(name, _)| *name);
    let supported = gristmill_model::arch::names().join(", ");
    let shown = refused(&place, "gristmill run -m FILE -p hi -n 1", &names);
    assert_snapshot!(shown.replace(&supported, "ALL"), @r#"
    architecture.gguf
      error: architecture.gguf: cannot load it: architecture `frobnicator` is not supported (supported: ALL)
      hint: use a model of a supported architecture, or update gristmill
    missing.gguf
      error: missing.gguf: cannot load it: tensor `blk.1.ffn_up.weight` is missing (expected shape [256, 512])
      hint: the file does not fit its own description; compare its hash with its source, or convert the model again
    pre.gguf
      error: pre.gguf: cannot load it: tokenizer.ggml.pre is "gpt-3", an unknown pre-tokenizer; the nearest known name is "gpt-2"
      hint: convert the model again, with `--tokenizer-pre NAME` if its pre-tokenizer is a known one; or update gristmill
    shape.gguf
      error: shape.gguf: cannot load it: tensor `blk.0.attn_q.weight` has shape [256, 255], expected [256, 256]
      hint: the file does not fit its own description; compare its hash with its source, or convert the model again
    "#);
}

#[test]
fn b18_a_missing_shard_is_named() {
    let place = Workplace::new();
    let change = Change {
        set: vec![
            ("split.no", Value::U16(0)),
            ("split.count", Value::U16(3)),
            ("split.tensors.count", Value::I32(114)),
        ],
        ..Change::default()
    };
    let name = "model-00001-of-00003.gguf";
    changed(&small_model(), &place.path(name), &change);
    assert_snapshot!(refused(&place, "gristmill run -m FILE -p hi -n 1", &[name]), @r"
    model-00001-of-00003.gguf
      error: model-00001-of-00003.gguf: is part of a set of 3 shards, of which 2 cannot be found: model-00002-of-00003.gguf, model-00003-of-00003.gguf
      hint: put all shards of the set into one folder, under their original names
    ");
}

#[test]
fn an_unknown_type_is_named() {
    let place = Workplace::new();
    std::fs::copy(small_model(), place.path("model.gguf")).expect("the model can be copied");
    assert_snapshot!(place.run("gristmill quantize model.gguf out.gguf Q9_X"), @r#"
    exit: 1
    --- stderr
    error: unknown quantization type "Q9_X"
    hint: `gristmill quantize --help` lists the types
    "#);
    assert_snapshot!(place.run("gristmill quantize model.gguf Q9_X"), @r#"
    exit: 1
    --- stderr
    error: no type given
    hint: usage: gristmill quantize IN [OUT] TYPE [NTHREADS]; --help lists the types
    "#);
    assert_snapshot!(place.run("llama-quantize model.gguf out.gguf Q9_X"), @r#"
    exit: 1
    --- stderr
    error: unknown quantization type "Q9_X"
    hint: `llama-quantize --help` lists the types
    "#);
    let tiny = tiny().to_string_lossy().to_string();
    let words = [
        "gristmill",
        "convert",
        &tiny,
        "--outfile",
        "out.gguf",
        "--outtype",
        "q9_x",
    ];
    assert_snapshot!(place.run_words(&words), @r"
    exit: 1
    --- stderr
    error: output type `q9_x` is unknown (known: auto, bf16, f16, f32, q8_0 and every recipe)
    hint: `gristmill quantize --help` lists the recipes
    ");
    assert_eq!(place.files(), ["model.gguf"]);
}

#[test]
fn a_folder_that_is_no_checkpoint_is_named() {
    let place = Workplace::new();
    place.write("empty/notes.txt", "");
    place.write("file.txt", "");
    place.write(
        "unknown/config.json",
        r#"{"architectures": ["FrobnicatorForCausalLM"]}"#,
    );
    place.write("broken/config.json", "{");
    place.write("a.gguf", "GGUF\u{3}");
    place.write("a.zip", "PK\u{3}\u{4}");
    place.write(
        "pointer/config.json",
        "version https://git-lfs.github.com/spec/v1\n",
    );
    let before = place.files();
    let mut shown = String::new();
    for dir in [
        "absent",
        "org/model",
        "file.txt",
        "a.gguf",
        "a.zip",
        "empty",
        "broken",
        "pointer",
        "unknown",
    ] {
        shown += &format!(
            "{dir}: {}\n",
            place.run(&format!("gristmill convert {dir} --outfile out.gguf"))
        );
    }
    let supported = gristmill_model::arch::class_names().join(", ");
    assert_snapshot!(shown.replace(&supported, "ALL"), @r"
    absent: exit: 1
    --- stderr
    error: absent: there is no such folder
    hint: check the path; it must lead to the folder that holds config.json and model*.safetensors
    org/model: exit: 1
    --- stderr
    error: org/model: there is no such folder
    hint: if it names a model on Hugging Face, fetch it with `gristmill pull NAME --checkpoint`, and give the folder that this prints
    file.txt: exit: 1
    --- stderr
    error: file.txt: is a file, not a folder with a checkpoint
    hint: give the folder that holds config.json and model*.safetensors
    a.gguf: exit: 1
    --- stderr
    error: a.gguf: is a GGUF file already, not a folder with a checkpoint
    hint: `gristmill quantize` and `gristmill run` take it as it is
    a.zip: exit: 1
    --- stderr
    error: a.zip: is an archive, not a folder with a checkpoint
    hint: unpack it, and give the folder that holds config.json and model*.safetensors
    empty: exit: 1
    --- stderr
    error: empty: no config.json in this folder
    hint: give the folder that holds config.json and model*.safetensors
    broken: exit: 1
    --- stderr
    error: broken/config.json: EOF while parsing an object at line 1 column 1
    hint: the file is damaged or incomplete; download it again
    pointer: exit: 1
    --- stderr
    error: pointer/config.json: it is a Git LFS pointer, not the file itself
    hint: fetch the file with `git lfs pull`, in the folder that was cloned
    unknown: exit: 1
    --- stderr
    error: unknown: architecture `FrobnicatorForCausalLM` is not supported (supported: ALL)
    hint: use a model of a supported architecture, or update gristmill
    ");
    assert_eq!(place.files(), before);
}

#[test]
fn b22_an_unknown_pre_tokenizer_is_named_with_the_flag() {
    let place = Workplace::new();
    let checkpoint = place.path("tiny");
    copy_folder(&tiny(), &checkpoint);
    let path = checkpoint.join("tokenizer.json");
    let tokenizer = std::fs::read_to_string(&path).expect("the tokenizer can be read");
    let mut tokenizer: serde_json::Value =
        serde_json::from_str(&tokenizer).expect("the tokenizer is JSON");
    tokenizer["pre_tokenizer"] = serde_json::json!({"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {"Regex": "[a-z]{1,5}|."}, "behavior": "Isolated", "invert": false},
        {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false},
    ]});
    std::fs::write(&path, tokenizer.to_string()).expect("the tokenizer can be written");
    let before = place.files();
    assert_snapshot!(place.run("gristmill convert tiny --outfile out.gguf"), @r#"
    exit: 1
    --- stderr
    error: tiny/tokenizer.json: the pre-tokenizer is unknown; its regular expressions are `[a-z]{1,5}|.`, and the nearest known name is "deepseek-v3"
    hint: if you know that a known one cuts text the same way, say so: --tokenizer-pre deepseek-v3
    "#);
    assert_eq!(place.files(), before);
    let outcome = place.run("gristmill convert tiny --outfile out.gguf --tokenizer-pre gpt-2");
    assert!(outcome.starts_with("exit: 0"), "{outcome}");
}

fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder can be made");
    for entry in std::fs::read_dir(from)
        .expect("the folder can be read")
        .flatten()
    {
        std::fs::copy(entry.path(), to.join(entry.file_name())).expect("the file can be copied");
    }
}

#[test]
fn b40_an_output_that_is_the_input_is_refused() {
    let place = Workplace::new();
    let model = place.path("a.gguf");
    std::fs::copy(small_model(), &model).expect("the model can be copied");
    std::os::unix::fs::symlink("a.gguf", place.path("link.gguf")).expect("a link can be made");
    std::fs::hard_link(&model, place.path("hard.gguf")).expect("a hard link can be made");
    let bytes = std::fs::read(&model).expect("the model can be read");
    let before = place.files();
    let mut shown = String::new();
    for output in ["a.gguf", "./a.gguf", "link.gguf", "hard.gguf"] {
        for force in ["", "--force "] {
            shown += &format!(
                "{}\n",
                place.run(&format!("gristmill quantize {force}a.gguf {output} Q4_0"))
            );
        }
    }
    assert_snapshot!(shown, @r#"
    exit: 1
    --- stderr
    error: a.gguf: is the same file as the input a.gguf
    hint: choose another name: an input is never overwritten
    exit: 1
    --- stderr
    error: a.gguf: is the same file as the input a.gguf
    hint: choose another name: an input is never overwritten
    exit: 1
    --- stderr
    error: ./a.gguf: is the same file as the input a.gguf
    hint: choose another name: an input is never overwritten
    exit: 1
    --- stderr
    error: ./a.gguf: is the same file as the input a.gguf
    hint: choose another name: an input is never overwritten
    exit: 1
    --- stderr
    error: link.gguf: is the same file as the input a.gguf
    hint: choose another name: an input is never overwritten
    exit: 1
    --- stderr
    error: link.gguf: is the same file as the input a.gguf
    hint: choose another name: an input is never overwritten
    exit: 1
    --- stderr
    error: hard.gguf: is the same file as the input a.gguf
    hint: choose another name: an input is never overwritten
    exit: 1
    --- stderr
    error: hard.gguf: is the same file as the input a.gguf
    hint: choose another name: an input is never overwritten
    "#);
    assert!(
        bytes == std::fs::read(&model).expect("the model can be read"),
        "the input changed"
    );
    assert_eq!(place.files(), before);
}

#[test]
fn b41_an_existing_output_and_a_missing_folder_are_refused() {
    let place = Workplace::new();
    std::fs::copy(small_model(), place.path("a.gguf")).expect("the model can be copied");
    place.write("b.gguf", "precious");
    assert_snapshot!(place.run("gristmill quantize a.gguf b.gguf Q4_0"), @r#"
    exit: 1
    --- stderr
    error: b.gguf: already exists
    hint: choose another name, or give `--force` to replace it
    "#);
    assert_snapshot!(place.run("gristmill quantize a.gguf nowhere/b.gguf Q4_0"), @r#"
    exit: 1
    --- stderr
    error: nowhere/b.gguf: there is no folder nowhere
    hint: create the folder first
    "#);
    let tiny = tiny();
    let convert = |output| {
        [
            "gristmill".into(),
            "convert".into(),
            tiny.to_string_lossy().to_string(),
            "--outfile".into(),
            String::from(output),
        ]
    };
    for output in ["b.gguf", "nowhere/b.gguf"] {
        let words = convert(output);
        let outcome = place.run_words(&words.each_ref().map(String::as_str));
        assert!(outcome.starts_with("exit: 1"), "{outcome}");
    }
    assert_eq!(
        std::fs::read(place.path("b.gguf")).expect("it is there"),
        b"precious"
    );
    assert_eq!(place.files(), ["a.gguf", "b.gguf"]);
}

/// Starts a command that writes `out.gguf`, waits until it has begun to write and sends it a signal.
fn stopped_midway(place: &Workplace, words: &[&str], signal: &str) -> ExitStatus {
    let mut command = place.command("gristmill");
    let mut child = command
        .args(words)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let before = place.files().len();
    let start = Instant::now();
    while place.files().len() == before {
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "nothing was written"
        );
        assert!(
            child.try_wait().expect("it can be asked").is_none(),
            "it ended too early"
        );
    }
    send(&child, signal);
    wait(&mut child)
}

#[test]
fn b41_stopped_midway_nothing_is_left_at_the_final_name() {
    let place = Workplace::new();
    let (checkpoint, model) = large_model(&place);
    let runs: [&[&str]; 2] = [
        &[
            "convert",
            &checkpoint,
            "--outfile",
            "out.gguf",
            "--outtype",
            "q8_0",
        ],
        &["quantize", &model, "out.gguf", "Q6_K"],
    ];
    for words in runs {
        for (signal, code) in [
            ("-INT", Some(130)),
            ("-TERM", Some(143)),
            ("-HUP", Some(129)),
            ("-KILL", None),
        ] {
            let before = place.files();
            let status = stopped_midway(&place, words, signal);
            assert_eq!(status.code(), code, "{words:?} {signal}");
            assert!(!place.path("out.gguf").exists(), "{words:?} {signal}");
            if signal != "-KILL" {
                assert_eq!(place.files(), before, "{words:?} {signal}");
            }
        }
    }
}
