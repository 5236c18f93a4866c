//! Values of flags: what is refused, in which words, and which of several counts.

use std::process::Stdio;

use gristmill_engine::sampling::supported_samplers;
use gristmill_gguf::Value;
use insta::assert_snapshot;

use crate::fixtures::{Change, changed, small_model, with_model};
use crate::harness::{Workplace, tiny};

/// The message of each line without clap's pointer to the help; every one must be wrong usage, before any model is looked
/// for.
fn wrong_usage(place: &Workplace, lines: &[&str]) -> String {
    let message = |line: &&str| {
        let outcome = place.run(line);
        let message = outcome.strip_prefix("exit: 2\n--- stderr\nerror: ");
        let message = message.unwrap_or_else(|| panic!("{line}: is no wrong usage:\n{outcome}"));
        let message = message.split("\n\nFor more information").next();
        format!("{}\n", message.unwrap_or_default())
    };
    lines.iter().map(message).collect()
}

#[test]
fn a_value_outside_its_range_is_refused_with_flag_and_range() {
    let place = Workplace::new();
    let shown = wrong_usage(
        &place,
        &[
            "gristmill run -m no.gguf --seed 99999999999999999999",
            "gristmill run -m no.gguf -s -2",
            "gristmill run -m no.gguf --temp nan",
            "gristmill run -m no.gguf --top-p -1",
            "gristmill run -m no.gguf --min-p 5",
            "gristmill run -m no.gguf --top-k x",
            "gristmill run -m no.gguf --repeat-last-n -9",
            "gristmill run -m no.gguf --repeat-penalty 0",
            "gristmill run -m no.gguf --presence-penalty inf",
            "gristmill run -m no.gguf --logit-bias 15043",
            "gristmill run -m no.gguf --samplers top_k;frob",
            "gristmill run -m no.gguf --samplers typical;top_k",
            "gristmill run -m no.gguf --sampler-seq kz",
            "gristmill run -m no.gguf -n -3",
            "gristmill run -m no.gguf -c -1",
            "gristmill run -m no.gguf -b 0",
            "gristmill run -m no.gguf -ub -1",
            "gristmill run -m no.gguf -t 100000",
            "gristmill run -m no.gguf -ctk q6_K",
            "gristmill run -m no.gguf --chat-template-kwargs yes",
            "gristmill logits no.gguf --output o.npy --tokens 1,,2",
            "gristmill logits no.gguf --output o.npy --tokens 1 -t 513",
            "gristmill convert no -t 1000",
            "gristmill pipeline no Name -t 1000",
            "gristmill quantize --tensor-type attn_v no.gguf Q4_0",
            "gristmill quantize --tensor-type attn_v=q9 no.gguf Q4_0",
            "gristmill quantize --tensor-type [=q8_0 no.gguf Q4_0",
            "gristmill quantize --output-tensor-type q9 no.gguf Q4_0",
            "gristmill quantize --override-kv a.b=int:x no.gguf Q4_0",
        ],
    );
    // What there is comes from the registry.
    let shown = shown.replace(&supported_samplers(), "[SAMPLERS]");
    assert_snapshot!(shown, @r#"
    invalid value '99999999999999999999' for '--seed <N>': it must be a whole number from -1 to 4294967295
    invalid value '-2' for '--seed <N>': it must be a whole number from -1 to 4294967295
    invalid value 'nan' for '--temp <N>': it must be a finite number
    invalid value '-1' for '--top-p <P>': it must be a number of at least 0; 1 or more keeps all tokens
    invalid value '5' for '--min-p <P>': it must be a number of at most 1; 0 or less drops no token
    invalid value 'x' for '--top-k <N>': it must be a whole number from -2147483648 to 2147483647
    invalid value '-9' for '--repeat-last-n <N>': it must be a whole number from -1 to 2147483647
    invalid value '0' for '--repeat-penalty <N>': it must be a number above 0; 1 is off
    invalid value 'inf' for '--presence-penalty <N>': it must be a finite number
    invalid value '15043' for '--logit-bias <ID(+/-)BIAS>': 15043 is no logit bias: give a token id, a sign and a number, as in 15043+1, 15043-0.5 or 15043-inf, or JSON such as {"15043": -100} or [["cat", -5], [15043, false]]
    invalid value 'top_k;frob' for '--samplers <NAMES>': there is no sampler 'frob'; [SAMPLERS]
    invalid value 'typical;top_k' for '--samplers <NAMES>': there is no sampler 'typical'; [SAMPLERS]
    invalid value 'kz' for '--sampler-seq <LETTERS>': no sampler has the letter 'z'; [SAMPLERS]
    invalid value '-3' for '--predict <N>': it must be a whole number from -2 to 2147483647
    invalid value '-1' for '--ctx-size <N>': it must be a whole number from 0 to 2147483583
    invalid value '0' for '--batch-size <N>': it must be a whole number from 1 to 2147483647
    invalid value '-1' for '--ubatch-size <N>': it must be a whole number from 0 to 2147483647
    invalid value '100000' for '--threads <N>': it must be a whole number up to 512; 0 or less takes one thread per processor
    invalid value 'q6_K' for '--cache-type-k <TYPE>'
      [possible values: bf16, f16, f32, iq4_nl, q4_0, q4_1, q5_0, q5_1, q8_0]
    invalid value 'yes' for '--chat-template-kwargs <JSON>': it must be a JSON object, such as {"enable_thinking": false} (expected value at line 1 column 1)
    invalid value '1,,2' for '--tokens <ID,…>': it must be token ids separated by commas, as in 1,15043,29892
    invalid value '513' for '--threads <N>': it must be a whole number up to 512; 0 or less takes one thread per processor
    invalid value '1000' for '--threads <N>': it must be a whole number up to 512; 0 or less takes one thread per processor
    invalid value '1000' for '--threads <N>': it must be a whole number up to 512; 0 or less takes one thread per processor
    invalid value 'attn_v' for '--tensor-type <REGEX=TYPE>': bad tensor override "attn_v": there is no `=` (write it as PATTERN=TYPE, for example attn_v=q8_0)
    invalid value 'attn_v=q9' for '--tensor-type <REGEX=TYPE>': unknown tensor type "q9" (tensor types are lower-case names such as q4_K, q8_0 or f16)
    invalid value '[=q8_0' for '--tensor-type <REGEX=TYPE>': bad tensor override "[=q8_0": the pattern is no regular expression: unclosed character class (write it as PATTERN=TYPE, for example attn_v=q8_0)
    invalid value 'q9' for '--output-tensor-type <TYPE>': unknown tensor type "q9" (tensor types are lower-case names such as q4_K, q8_0 or f16)
    invalid value 'a.b=int:x' for '--override-kv <KEY=TYPE:VALUE>': "x" is no int: write a whole number
    "#);
    assert!(place.files().is_empty());
}

#[test]
fn numbers_of_threads_up_to_zero_leave_it_to_the_machine() {
    let place = with_model();
    for n in ["0", "-1", "-5"] {
        let outcome = place.run(&format!("gristmill run -m a.gguf -p hi -n 1 -st -t {n}"));
        assert!(outcome.starts_with("exit: 0"), "-t {n}: {outcome}");
        let outcome = place.run(&format!("gristmill quantize a.gguf out{n}.gguf Q4_0 {n}"));
        assert!(outcome.starts_with("exit: 0"), "{n}: {outcome}");
    }
    assert_snapshot!(place.run("gristmill quantize a.gguf b.gguf Q4_0 100000"), @r#"
    exit: 1
    --- stderr
    error: NTHREADS is "100000": it must be a whole number up to 512; 0 or less takes one thread per processor
    "#);
}

#[test]
fn of_repeated_flags_the_last_one_counts() {
    let place = with_model();
    let ids = |words: &str| {
        let outcome = place.run(&format!(
            "gristmill run -m no.gguf -m a.gguf -no-cnv --output-format json --log-disable --seed 1 --seed 7 -n 9 -n 5 {words}"
        ));
        let json = outcome.strip_prefix("exit: 0\n--- stdout\n");
        let json = json.unwrap_or_else(|| panic!("{words}: {outcome}"));
        let answer: serde_json::Value = serde_json::from_str(json).expect("it is JSON");
        assert_eq!(answer["seed"], 7, "{words}");
        (answer["prompt_ids"].clone(), answer["ids"].clone())
    };
    place.write("file.txt", "ROMEO:");
    place.write("other.txt", "JULIET:");
    let expected = ids("-p ROMEO:");
    for words in [
        "-p JULIET: -p ROMEO:",
        "-p JULIET: -f file.txt",
        "-f other.txt -p ROMEO:",
        "-f other.txt -f file.txt",
        "-f other.txt -bf file.txt",
        "-bf other.txt -p ROMEO:",
        "-p ROMEO: -cnv -no-cnv",
        "-p ROMEO: --temp 0 --temp 0.8 --top-k 1 --top-k 40 --samplers top_k --samplers penalties;top_k;top_p;min_p;temperature",
        "-p ROMEO: --samplers top_k --sampler-seq ekpmt",
        "-p ROMEO: -t 2 -t 1 -c 64 -c 128 --no-warmup --no-warmup",
    ] {
        assert_eq!(ids(words), expected, "{words}");
    }
    let tokens = |words: &str| place.run(&format!("gristmill tokenize -m a.gguf --ids {words}"));
    assert_eq!(tokens("-p JULIET: -p ROMEO:"), tokens("-p ROMEO:"));
    assert_eq!(tokens("-f other.txt -f file.txt"), tokens("-p ROMEO:"));
    let run = |line: &str| {
        let outcome = place.run(line);
        assert!(outcome.starts_with("exit: 0"), "{line}: {outcome}");
    };
    run(
        "gristmill logits a.gguf --tokens 1 --tokens 2,3 --output no.npy --output o.npy --ubatch-size 1 --ubatch-size 2",
    );
    let logits = std::fs::metadata(place.path("o.npy")).expect("it was written");
    assert_eq!(logits.len(), 128 + 2 * 1024 * 4);
    run(
        "gristmill quantize --verbose --verbose --output-tensor-type q8_0 --output-tensor-type q6_K a.gguf o.gguf Q4_0",
    );
    run(&format!(
        "gristmill convert {} --outtype f32 --outtype bf16 --outfile no.gguf --outfile c.gguf -t 1 -t 2",
        tiny().display()
    ));
    assert!(place.path("c.gguf").exists() && !place.path("no.gguf").exists());
}

#[test]
fn a_binary_file_is_a_prompt_byte_for_byte() {
    let place = with_model();
    place.write("prompt.bin", b"caf\xc3\xa9\xff\n");
    let ids = |flag: &str| {
        let outcome = place.run(&format!(
            "gristmill run -m a.gguf -no-cnv -n 0 --output-format json --log-disable {flag} prompt.bin"
        ));
        let json = outcome.strip_prefix("exit: 0\n--- stdout\n");
        let json = json.unwrap_or_else(|| panic!("{flag}: {outcome}"));
        let answer: serde_json::Value = serde_json::from_str(json).expect("it is JSON");
        answer["prompt_ids"].as_array().expect("a list").len()
    };
    // -f drops the newline at the end; here it is a token of its own.
    assert_eq!(ids("-bf"), ids("-f") + 1);
    assert_eq!(ids("--binary-file"), ids("-bf"));
    assert_snapshot!(place.run("gristmill run -m a.gguf -no-cnv -bf absent.bin"), @r"
    exit: 1
    --- stderr
    error: absent.bin: cannot read the prompt: No such file or directory (os error 2)
    hint: check the path
    ");
}

#[test]
fn what_cannot_be_answered_is_said_before_the_prompt_is_shown() {
    let place = with_model();
    let long = "word ".repeat(300);
    let prompt = [
        "gristmill",
        "run",
        "-m",
        "a.gguf",
        "-no-cnv",
        "--log-disable",
        "-p",
    ];
    let run = |more: &[&str]| place.run_words(&[&prompt[..], more].concat());
    assert_snapshot!(run(&[&long]), @r"
    exit: 1
    --- stderr
    error: the prompt has 302 tokens, but the context holds 256, the answer included
    hint: give a longer context with -c, or a shorter prompt
    ");
    assert_snapshot!(run(&["hi", "--logit-bias", "5000+1"]), @r"
    exit: 1
    --- stderr
    error: logit bias for token 5000, but the vocabulary has 1024 tokens
    hint: --logit-bias takes ids from 0 to 1023; `gristmill tokenize` shows those of a text
    ");
}

/// Random bytes and one letter are the longest texts for a tokenizer; a length that cannot fit is refused without it.
#[test]
fn a_prompt_of_20_mb_is_refused_at_once() {
    let place = with_model();
    let mut state = 1u64;
    let mut random: Vec<u8> = (0..20_000_000)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 56) as u8
        })
        .collect();
    // -f would drop a newline at the end.
    *random.last_mut().expect("it is not empty") = b'x';
    place.write("random.bin", random);
    place.write("letters.txt", "a".repeat(20_000_000));
    for (file, mode) in [
        ("random.bin", "-no-cnv"),
        ("letters.txt", "-no-cnv"),
        ("letters.txt", "-st"),
    ] {
        let outcome = place.run(&format!(
            "gristmill run -m a.gguf --log-disable {mode} -f {file}"
        ));
        let message = outcome.strip_prefix("exit: 1\n--- stderr\n");
        let message = message.unwrap_or_else(|| panic!("{file}: {outcome}"));
        assert!(
            message.starts_with("error: a text of 20000000 bytes has at least ")
                && message.contains("but the context holds 256"),
            "{file}: {message}"
        );
    }
}

#[test]
fn a_context_beyond_the_memory_is_refused_with_the_numbers() {
    let place = with_model();
    let outcome =
        place.run("gristmill run -m a.gguf -p hi -n 1 -st -c 2147483583 -ctk f32 -ctv f32");
    let message = outcome.lines().find(|line| line.starts_with("error: "));
    let message = message.unwrap_or_default();
    assert!(
        outcome.starts_with("exit: 1")
            && message.starts_with("error: a.gguf: a context of 2147483583 tokens needs 8.00 TiB ")
            && outcome.contains("hint: close other programs, or take -c 256"),
        "{outcome}"
    );
}

#[test]
fn logits_of_more_tokens_than_the_context_are_refused() {
    let place = with_model();
    let tokens = vec!["1"; 257].join(",");
    let run = |tokens: &str| {
        place.run(&format!(
            "gristmill logits a.gguf --tokens {tokens} --output o.npy"
        ))
    };
    assert_snapshot!(run(&tokens), @r"
    exit: 1
    --- stderr
    error: a.gguf: 257 tokens are more than the model's context of 256 (llama.context_length)
    hint: give at most 256 tokens at once; further positions mean nothing to the model
    ");
    assert_snapshot!(run("1,1024"), @r"
    exit: 1
    --- stderr
    error: a.gguf: token 1024 does not exist: the vocabulary has 1024 tokens
    hint: ids go from 0 to 1023; `gristmill tokenize` shows those of a text
    ");
    assert_eq!(place.files(), ["a.gguf"]);
    assert_eq!(
        run(&tokens[..511]),
        "exit: 0\n--- stdout\nwrote o.npy: 256 x 1024 logits, 1048704 bytes"
    );
}

#[test]
fn help_of_the_reference_names_exits_as_the_reference_does() {
    let place = Workplace::new();
    for (name, code) in [
        ("llama-quantize", 1),
        ("llama-cli", 0),
        ("llama-completion", 0),
        ("llama-tokenize", 0),
    ] {
        let outcome = place.run(&format!("{name} --help"));
        let expected = format!("exit: {code}\n--- stdout\n");
        assert!(outcome.starts_with(&expected), "{name}: {outcome}");
    }
    assert!(
        place
            .run("gristmill quantize --help")
            .starts_with("exit: 0")
    );
    assert!(place.run("llama-quantize").starts_with("exit: 1"));
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_behind_an_output_stream_is_an_error_and_no_panic() {
    let place = with_model();
    let full = || {
        let file = std::fs::OpenOptions::new().write(true).open("/dev/full");
        Stdio::from(file.expect("/dev/full can be opened"))
    };
    for line in [
        "tokenize -m a.gguf -p hi",
        "run -m a.gguf -p hi -n 2 -st",
        "run -m a.gguf -p hi -n 2 -no-cnv",
        "convert --print-supported-models",
        "check a.gguf --quick --json",
        "--help",
        "quantize --help",
    ] {
        let mut command = place.command("gristmill");
        let output = command.args(line.split(' ')).stdout(full()).output();
        let shown = place.show(&output.expect("the binary starts"));
        assert!(
            shown.starts_with("exit: 1")
                && shown.contains("error: standard output cannot be written: No space left"),
            "{line}: {shown}"
        );
    }
    // What was done is done.
    for (line, done) in [
        ("links bin", "bin: the links are made"),
        ("endian a.gguf b.gguf big", "b.gguf: is written"),
        ("quantize a.gguf q.gguf Q8_0", "q.gguf: is written"),
        (
            "split --split-max-tensors 20 a.gguf s",
            "s-00001-of-00002.gguf and 1 more: are written",
        ),
        ("merge s-00001-of-00002.gguf m.gguf", "m.gguf: is written"),
    ] {
        let mut command = place.command("gristmill");
        let output = command.args(line.split(' ')).stdout(full()).output();
        let shown = place.show(&output.expect("the binary starts"));
        let error = format!("error: {done}, but standard output cannot be written: No space left");
        assert!(
            shown.starts_with("exit: 1") && shown.contains(&error),
            "{line}: {shown}"
        );
    }
    let mut command = place.command("gristmill");
    let output = command
        .args(["tokenize", "-m", "absent.gguf", "-p", "hi"])
        .stderr(full())
        .output();
    assert_eq!(place.show(&output.expect("the binary starts")), "exit: 1");
}

#[test]
fn quantize_refuses_what_cannot_be_loaded() {
    let place = with_model();
    let text = |text: &str| Value::String(text.into());
    let changes = [
        (
            "nameless.gguf",
            Change {
                unset: vec!["general.architecture"],
                ..Change::default()
            },
        ),
        (
            "unknown.gguf",
            Change {
                set: vec![("general.architecture", text("frobnicator"))],
                ..Change::default()
            },
        ),
        (
            "typed.gguf",
            Change {
                set: vec![("general.architecture", Value::U32(1))],
                ..Change::default()
            },
        ),
        (
            "empty.gguf",
            Change {
                set: vec![("llama.block_count", Value::U32(0))],
                ..Change::default()
            },
        ),
        (
            "headless.gguf",
            Change {
                set: vec![("llama.attention.head_count", text("four"))],
                ..Change::default()
            },
        ),
    ];
    let mut shown = String::new();
    for (name, change) in &changes {
        changed(&small_model(), &place.path(name), change);
        shown += &format!(
            "{}\n",
            place.run(&format!("gristmill quantize {name} out.gguf Q4_0"))
        );
    }
    let over = "--override-kv general.architecture=str:foo";
    shown += &format!(
        "{}\n",
        place.run(&format!("gristmill quantize {over} a.gguf out.gguf Q4_0"))
    );
    shown += &place.run(&format!("gristmill quantize --dry-run {over} a.gguf Q4_0"));
    let ours = gristmill_model::arch::names();
    let n_others = gristmill_model::REFERENCE_ARCHITECTURES.len() - ours.len();
    let shown = shown
        .replace(&ours.join(", "), "[names]")
        .replace(&format!("; {n_others} more"), "; [number] more");
    assert_snapshot!(shown, @r#"
    exit: 1
    --- stderr
    error: nameless.gguf: metadata key "general.architecture" is missing
    hint: the metadata is incomplete or was edited; convert the model again from its original checkpoint
    exit: 1
    --- stderr
    error: unknown.gguf: general.architecture is "frobnicator", which no known model has (gristmill runs [names]; [number] more are quantized)
    hint: the metadata is damaged or was edited; `--override-kv general.architecture=str:NAME` sets the right name
    exit: 1
    --- stderr
    error: typed.gguf: metadata key "general.architecture" must be STRING of valid UTF-8, but is UINT32 1
    hint: the metadata is incomplete or was edited; convert the model again from its original checkpoint
    exit: 1
    --- stderr
    error: empty.gguf: metadata key `llama.block_count` is 0: must be from 1 to 512
    hint: the metadata is damaged or edited; convert the model again
    exit: 1
    --- stderr
    error: headless.gguf: metadata key "llama.attention.head_count" must be an integer from 0 to 4294967295, but is STRING
    hint: the metadata is incomplete or was edited; convert the model again from its original checkpoint
    exit: 1
    --- stderr
    error: `--override-kv general.architecture=str:foo` makes a file that gristmill or llama.cpp does not load: no known model has the architecture "foo" (gristmill runs [names])
    hint: give another value, or leave the entry out
    exit: 1
    --- stderr
    error: `--override-kv general.architecture=str:foo` makes a file that gristmill or llama.cpp does not load: no known model has the architecture "foo" (gristmill runs [names])
    hint: give another value, or leave the entry out
    "#);
    assert!(!place.path("out.gguf").exists());
}

#[test]
fn descriptive_entries_of_another_type_stop_nothing() {
    let place = Workplace::new();
    let change = Change {
        set: vec![
            ("general.name", Value::U32(7)),
            ("general.type", Value::U32(7)),
            ("general.description", Value::Bool(true)),
            ("general.license", Value::F32(1.0)),
            ("general.file_type", Value::String("f16".into())),
            ("general.quantization_version", Value::String("2".into())),
        ],
        ..Change::default()
    };
    changed(&small_model(), &place.path("a.gguf"), &change);
    for line in [
        "gristmill run -m a.gguf -p hi -n 1 -st",
        "gristmill logits a.gguf --tokens 1,2 --output o.npy",
        "gristmill tokenize -m a.gguf -p hi",
        "gristmill quantize a.gguf q.gguf Q4_0",
        "gristmill quantize a.gguf c.gguf COPY",
        "gristmill inspect a.gguf",
    ] {
        let outcome = place.run(line);
        assert!(outcome.starts_with("exit: 0"), "{line}: {outcome}");
    }
}

#[test]
fn outputs_that_cannot_be_files_are_refused_each_in_its_own_words() {
    let place = with_model();
    std::fs::create_dir(place.path("folder")).expect("a folder can be made");
    std::os::unix::fs::symlink("/dev/null", place.path("link.gguf")).expect("a link can be made");
    let long = format!("{}.gguf", "x".repeat(300));
    let outputs = [
        "",
        ".",
        "folder",
        "/dev/null",
        "link.gguf",
        "/proc/x.gguf",
        "nowhere/x.gguf",
        "new/",
        "a.gguf/x.gguf",
        &long,
    ];
    let before = place.files();
    let message = |words: &[&str]| {
        let outcome = place.run_words(words);
        outcome.strip_prefix("exit: 1\n--- stderr\n").map_or_else(
            || panic!("{words:?} was not refused: {outcome}"),
            |message| message.replace(&long, "LONG"),
        )
    };
    let mut shown = String::new();
    for output in outputs {
        let quantize = message(&["gristmill", "quantize", "a.gguf", output, "Q4_0"]);
        let forced = message(&["gristmill", "quantize", "--force", "a.gguf", output, "Q4_0"]);
        assert_eq!(forced, quantize, "{output:?}");
        if output.is_empty() {
            // The parser itself asks for a value elsewhere.
            shown += &format!("{quantize}\n");
            continue;
        }
        let logits = message(&[
            "gristmill",
            "logits",
            "a.gguf",
            "--tokens",
            "1",
            "--output",
            output,
        ]);
        assert_eq!(logits, quantize, "{output:?}");
        shown += &format!("{quantize}\n");
        if ![".", "folder"].contains(&output) {
            let tiny = tiny().to_string_lossy().to_string();
            let convert = message(&["gristmill", "convert", &tiny, "--outfile", output]);
            assert_eq!(convert, quantize, "{output:?}");
        }
    }
    assert_snapshot!(shown, @r"
    error: the name of the output is empty
    hint: name the file to write, with its folder if it is to lie in one
    error: .: is a folder; an output is a file
    hint: name the file to write, with its folder if it is to lie in one
    error: folder: is a folder; an output is a file
    hint: name the file to write, with its folder if it is to lie in one
    error: /dev/null: is a device or a pipe; an output is a regular file, which appears under its name when it is complete
    hint: name a file on a disk; to write nothing at all, use `--dry-run` where the command has it
    error: link.gguf: is a device or a pipe; an output is a regular file, which appears under its name when it is complete
    hint: name a file on a disk; to write nothing at all, use `--dry-run` where the command has it
    error: /proc/x.gguf: no file can be made there: No such file or directory (os error 2)
    hint: choose a folder that you may write to, and a name that its disk accepts
    error: nowhere/x.gguf: there is no folder nowhere
    hint: create the folder first
    error: new/: there is no folder new/
    hint: create the folder first
    error: a.gguf/x.gguf: a.gguf is no folder
    hint: choose another folder
    error: LONG: no file can be made there: File name too long (os error 36)
    hint: choose a folder that you may write to, and a name that its disk accepts
    ");
    assert_eq!(place.files(), before);
    assert!(place.path("link.gguf").is_symlink());
}
