//! `check`: what is said of a sound file and of faulty ones, and the exit codes.

use gristmill_gguf::Value;
use insta::assert_snapshot;

use crate::fixtures::{Change, changed, small_model, wrong_kinds};
use crate::harness::Workplace;

/// A copy of the small model with a change.
fn copy(place: &Workplace, name: &str, change: &Change) {
    changed(&small_model(), &place.path(name), change);
}

fn set(key: &'static str, value: impl Into<Value>) -> Change {
    Change {
        set: vec![(key, value.into())],
        ..Change::default()
    }
}

/// A missing tensor, one that is cut, an id out of range, a broken template, a number of a width that llama.cpp refuses.
fn faults() -> Change {
    Change {
        without: Some("blk.0.ffn_up.weight"),
        cut: Some("blk.0.attn_q.weight"),
        set: vec![
            ("tokenizer.ggml.eos_token_id", Value::U32(5000)),
            (
                "tokenizer.chat_template",
                "{% for message in messages %}".into(),
            ),
            ("llama.context_length", Value::U64(256)),
        ],
        ..Change::default()
    }
}

/// Exit code and last line.
fn outcome(shown: &str) -> (&str, &str) {
    let lines: Vec<&str> = shown.lines().collect();
    (lines[0], lines[lines.len() - 1])
}

/// Which builds read a type that came late.
#[test]
fn a_type_that_older_builds_lack() {
    let place = Workplace::new();
    copy(&place, "tiny.gguf", &Change::default());
    place.run("gristmill quantize tiny.gguf late.gguf Q2_0");
    assert_snapshot!(place.run("gristmill check late.gguf --quick --no-notes"), @r"
    exit: 0
    --- stdout
    gristmill would load it
    llama.cpp b11434 would load it: not every older build has the tensor type q2_0
    late.gguf: 0 errors, 0 warnings, 0 notes
    ");
}

#[test]
fn a_sound_file() {
    let place = Workplace::new();
    copy(&place, "tiny.gguf", &Change::default());
    assert_snapshot!(place.run("gristmill check tiny.gguf"), @r"
    exit: 0
    --- stdout
    not run: checksums (no list of hashes was given)
    gristmill would load it
    llama.cpp b11434 would load it
    tiny.gguf: 0 errors, 0 warnings, 0 notes
    ");
    assert_snapshot!(place.run("gristmill check tiny.gguf --quick --no-notes --strict"), @r"
    exit: 0
    --- stdout
    gristmill would load it
    llama.cpp b11434 would load it
    tiny.gguf: 0 errors, 0 warnings, 0 notes
    ");
}

#[test]
fn the_ten_questions() {
    let place = Workplace::new();
    copy(&place, "tiny.gguf", &Change::default());
    assert_snapshot!(place.run("gristmill check tiny.gguf --no-notes --report"), @r"
    exit: 0
    --- stdout
    gristmill would load it
    llama.cpp b11434 would load it

     1. Where does the model come from, in which revision?
      ? name: Tiny; no address of the source is given
     2. Who converted it, and with what?
      ? the file does not say; tools leave no version in it
     3. Is the file complete?
        nothing is missing that its own directory counts; not looked at: checksums
     4. Does it answer as the original does?
      ? the file cannot tell: compare token ids, logits and answers with the original (`gristmill tokenize`, `gristmill logits`)
     5. Which recipe made it, and which types does it really have?
        labelled BF16; tensors: bf16 × 29, f32 × 9
     6. Was an importance matrix used, from which data?
      ? the file names none; a tool that leaves no trace may have used one
     7. Do hash, licence and source agree with what was published?
      ? no licence is given; no list of hashes was compared with (--checksums)
     8. Does the backend have kernels for all its types?
        gristmill's CPU backend computes with all of them; other backends say so when they load the file
     9. Does it fit the memory, with the context that is wanted?
        weights take 5.0 MiB, the cache in f16 2048 bytes a token: 0.5 MiB for the 256 tokens it was trained for; buffers come on top
    10. Does it pass the gates of speed and quality?
      ? the file cannot tell: measure prompt and decode speed and the task's own tests on the machine that will run it

    tiny.gguf: 0 errors, 0 warnings, 0 notes
    ");
}

#[test]
fn faults_of_several_kinds_at_once() {
    let place = Workplace::new();
    copy(&place, "faulty.gguf", &faults());
    assert_snapshot!(place.run("gristmill check faulty.gguf"), @r"
    exit: 1
    --- stdout
    error[template-syntax] at tokenizer.chat_template, line 1
      the template ends before 'else' or 'endfor'
      remedy: set another with `gristmill edit`, or give one to `run` with --chat-template-file

    error[tensor-shape] at tensor blk.0.attn_q.weight
      blk.0.attn_q.weight has the shape [256, 255], but the metadata asks for [256, 256]
      remedy: metadata and weights are of different models, or a value was edited; convert the model again

    error[tensor-missing] at tensor blk.0.ffn_up.weight
      blk.0.ffn_up.weight of shape [256, 512] is not there
      remedy: the conversion lost it, or the tool that made the file names it otherwise; convert the model again with a current tool

    error[token-id] at tokenizer.ggml.eos_token_id
      tokenizer.ggml.eos_token_id is 5000, but there are only 1024 tokens
      remedy: set it to the id of the right token with `gristmill edit`: an answer that never stops is what comes of a wrong end token

    warning[llama-key-type] at llama.context_length
      llama.context_length is UINT64; llama.cpp takes UINT32 only
      remedy: set the key with its right type with `gristmill edit`

    not run: checksums (no list of hashes was given)
    gristmill would refuse it: tensor-shape; tensor-missing; token-id
    llama.cpp b11434 would refuse it: tensor-shape; tensor-missing; llama-key-type
    faulty.gguf: 4 errors, 1 warning, 0 notes
    ");
}

#[test]
fn the_report_as_json() {
    let place = Workplace::new();
    copy(&place, "faulty.gguf", &faults());
    assert_snapshot!(place.run("gristmill check faulty.gguf --quick --json"), @r#"
    exit: 1
    --- stdout
    {
      "path": "faulty.gguf",
      "errors": 4,
      "warnings": 1,
      "notes": 0,
      "findings": [
        {
          "code": "template-syntax",
          "severity": "error",
          "place": {
            "key": "tokenizer.chat_template",
            "line": 1
          },
          "text": "the template ends before 'else' or 'endfor'",
          "remedy": "set another with `gristmill edit`, or give one to `run` with --chat-template-file"
        },
        {
          "code": "tensor-shape",
          "severity": "error",
          "place": {
            "tensor": "blk.0.attn_q.weight"
          },
          "text": "blk.0.attn_q.weight has the shape [256, 255], but the metadata asks for [256, 256]",
          "remedy": "metadata and weights are of different models, or a value was edited; convert the model again"
        },
        {
          "code": "tensor-missing",
          "severity": "error",
          "place": {
            "tensor": "blk.0.ffn_up.weight"
          },
          "text": "blk.0.ffn_up.weight of shape [256, 512] is not there",
          "remedy": "the conversion lost it, or the tool that made the file names it otherwise; convert the model again with a current tool"
        },
        {
          "code": "token-id",
          "severity": "error",
          "place": {
            "key": "tokenizer.ggml.eos_token_id"
          },
          "text": "tokenizer.ggml.eos_token_id is 5000, but there are only 1024 tokens",
          "remedy": "set it to the id of the right token with `gristmill edit`: an answer that never stops is what comes of a wrong end token"
        },
        {
          "code": "llama-key-type",
          "severity": "warning",
          "place": {
            "key": "llama.context_length"
          },
          "text": "llama.context_length is UINT64; llama.cpp takes UINT32 only",
          "remedy": "set the key with its right type with `gristmill edit`"
        }
      ],
      "unlisted": {},
      "skipped": {
        "checksums": "no list of hashes was given",
        "data": "quick: tensor data is not touched"
      },
      "engines": [
        {
          "engine": "gristmill",
          "loads": "no",
          "reasons": [
            "tensor-shape",
            "tensor-missing",
            "token-id"
          ]
        },
        {
          "engine": "llama.cpp b11434",
          "loads": "no",
          "reasons": [
            "tensor-shape",
            "tensor-missing",
            "llama-key-type"
          ]
        }
      ],
      "review": [
        {
          "question": "Where does the model come from, in which revision?",
          "answered": false,
          "text": "name: Tiny; no address of the source is given"
        },
        {
          "question": "Who converted it, and with what?",
          "answered": false,
          "text": "the file does not say; tools leave no version in it"
        },
        {
          "question": "Is the file complete?",
          "answered": true,
          "text": "no: 4 errors; not looked at: checksums, data"
        },
        {
          "question": "Does it answer as the original does?",
          "answered": false,
          "text": "the file cannot tell: compare token ids, logits and answers with the original (`gristmill tokenize`, `gristmill logits`)"
        },
        {
          "question": "Which recipe made it, and which types does it really have?",
          "answered": true,
          "text": "labelled BF16; tensors: bf16 × 28, f32 × 9"
        },
        {
          "question": "Was an importance matrix used, from which data?",
          "answered": false,
          "text": "the file names none; a tool that leaves no trace may have used one"
        },
        {
          "question": "Do hash, licence and source agree with what was published?",
          "answered": false,
          "text": "no licence is given; no list of hashes was compared with (--checksums)"
        },
        {
          "question": "Does the backend have kernels for all its types?",
          "answered": true,
          "text": "gristmill's CPU backend computes with all of them; other backends say so when they load the file"
        },
        {
          "question": "Does it fit the memory, with the context that is wanted?",
          "answered": true,
          "text": "weights take 4.8 MiB, the cache in f16 2048 bytes a token: 0.5 MiB for the 256 tokens it was trained for; buffers come on top"
        },
        {
          "question": "Does it pass the gates of speed and quality?",
          "answered": false,
          "text": "the file cannot tell: measure prompt and decode speed and the task's own tests on the machine that will run it"
        }
      ]
    }
    "#);
}

#[test]
fn words_of_a_file_do_not_steer_the_terminal() {
    let place = Workplace::new();
    copy(
        &place,
        "steering.gguf",
        &set("general.architecture", "llama\u{1b}[2J"),
    );
    let shown = place.run("gristmill check steering.gguf --quick");
    assert!(
        !shown.contains('\u{1b}') && shown.contains("\\u{1b}[2J"),
        "{shown}"
    );
}

#[test]
fn warnings_have_an_exit_code_of_their_own_when_strict() {
    let place = Workplace::new();
    copy(&place, "label.gguf", &set("general.file_type", 15u32));
    let lax = place.run("gristmill check label.gguf --quick");
    assert_eq!(outcome(&lax).0, "exit: 0", "{lax}");
    let strict = place.run("gristmill check label.gguf --quick --strict --no-notes");
    assert_snapshot!(strict, @r"
    exit: 3
    --- stdout
    warning[recipe-wrong] at general.file_type
      the label says Q4_K_M, but no matrix has the type q4_K
      remedy: the label was edited, or kept from another file; go by the types, and quantize again from the original if they are not what you want

    gristmill would load it
    llama.cpp b11434 would load it
    label.gguf: 0 errors, 1 warning, 0 notes
    ");
}

#[test]
fn files_of_another_kind_are_findings() {
    let place = Workplace::new();
    for (name, bytes) in wrong_kinds() {
        place.write(name, bytes);
        let shown = place.run(&format!("gristmill check {name} --quick"));
        assert!(shown.starts_with("exit: 1\n"), "{shown}");
        assert!(shown.contains("gristmill would refuse it"), "{shown}");
    }
    assert_snapshot!(place.run("gristmill check absent.gguf"), @r"
    exit: 1
    --- stdout
    error[unreadable]
      no such file
      remedy: check the path: a model is one .gguf file, or any of its shards

    not run: checksums (no list of hashes was given)
    not run: data, engines, metadata, shards, template, tensors, tokenizer (the file cannot be read)
    gristmill would refuse it: unreadable
    llama.cpp b11434 would refuse it: unreadable
    absent.gguf: 1 error, 0 warnings, 0 notes
    ");
}

#[test]
fn hashes_are_compared_with_a_list() {
    let place = Workplace::new();
    copy(&place, "tiny.gguf", &Change::default());
    let list = format!("{}  tiny.gguf\n", "0".repeat(64));
    place.write("checksums.sha256", list);
    let shown = place.run("gristmill check tiny.gguf --checksums checksums.sha256 --no-notes");
    assert!(shown.starts_with("exit: 1\n"), "{shown}");
    assert!(
        shown.contains("error[hash-mismatch] at tiny.gguf"),
        "{shown}"
    );
    let notes = |flags: &str| {
        let shown = place.run(&format!("gristmill check tiny.gguf --json {flags}"));
        shown.matches("\"severity\": \"note\"").count()
    };
    let sum = gristmill_gguf::sha256_of_file(&place.path("tiny.gguf"), &mut |_| {});
    place.write("right", format!("{}  tiny.gguf\n", sum.expect("a hash")));
    assert_eq!(notes("--checksums right"), 1);
    assert_eq!(notes("--checksums right --no-notes"), 0);
    place.write("checksums.sha256", "no list\n");
    assert_snapshot!(place.run("gristmill check tiny.gguf --checksums checksums.sha256"), @r"
    exit: 1
    --- stderr
    error: checksums.sha256: is no list of hashes: no file with its SHA-256 is in it
    hint: give what `sha256sum` or `gristmill hash` prints (a hash of 64 digits and a name), or a manifest.json of `gristmill pipeline`
    ");
    assert_snapshot!(place.run("gristmill check tiny.gguf --checksums checksums.sha256 --quick"), @r"
    exit: 2
    --- stderr
    error: --quick reads no tensor data, and --checksums asks for hashes of it; leave one out

    Usage: gristmill check [OPTIONS] <MODEL>

    For more information, try '--help'.
    ");
}
