//! Flags whose effect no test of a larger matter shows: each with and without.

use std::path::Path;

use gristmill_gguf::{File, Imatrix, ImatrixEntry, ImatrixForm, Value, WriteOptions};
use gristmill_quant::{F16, Q8_0};
use insta::assert_snapshot;

use crate::edit;
use crate::fixtures::{Change, changed, small_model, with_model};
use crate::harness::{Workplace, piped, tiny};
use crate::quantize::write_llama;

/// What a good run writes to standard output and standard error, given this standard input.
fn outputs(place: &Workplace, words: &[&str], input: &str) -> (String, String) {
    let mut command = place.command(words[0]);
    let (_, output) = piped(command.args(&words[1..]), input.as_bytes());
    assert!(output.status.success(), "{}", place.show(&output));
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("it is text");
    (text(output.stdout), text(output.stderr))
}

/// What a good run writes to standard output.
fn stdout(place: &Workplace, words: &[&str], input: &str) -> String {
    outputs(place, words, input).0
}

/// The JSON objects of a greedy run.
fn answers(place: &Workplace, words: &[&str], input: &str) -> Vec<serde_json::Value> {
    let fixed = "gristmill run -m a.gguf --temp 0 --output-format json --log-disable";
    let words: Vec<&str> = fixed.split(' ').chain(words.iter().copied()).collect();
    let text = stdout(place, &words, input);
    let answers = serde_json::Deserializer::from_str(&text).into_iter();
    answers.map(|answer| answer.expect("it is JSON")).collect()
}

#[test]
fn convert_fp8_as_q8_says_where_it_keeps_nothing() {
    let place = Workplace::new();
    let tiny = tiny().display().to_string();
    let run = |words: &str| {
        let line = "gristmill convert SOURCE --fp8-as-q8 --dry-run -o a.gguf";
        let line = format!("{line} {words}").replace("SOURCE", &tiny);
        place.run(line.trim_end())
    };
    let shown = run("");
    let warning = "warning: no weight is FP8, so none is kept in 8 bits";
    assert!(
        shown.starts_with("exit: 0") && shown.contains(warning),
        "{shown}"
    );
    assert_snapshot!(run("--outtype q4_k_m"), @"
    exit: 1
    --- stderr
    error: --fp8-as-q8 goes with a float type or q8_0, not with a recipe
    hint: leave it out: a recipe gives every tensor its type
    ");
}

#[test]
fn convert_vocab_only_needs_and_writes_no_weights() {
    let place = Workplace::new();
    for entry in std::fs::read_dir(tiny()).expect("it can be read").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.ends_with(".safetensors") {
            let bytes = std::fs::read(entry.path()).expect("it can be read");
            place.write(&format!("source/{name}"), bytes);
        }
    }
    let without = place.run("gristmill convert source --outfile a.gguf");
    assert!(without.starts_with("exit: 1"), "{without}");
    let with = place.run("gristmill convert source --vocab-only --outfile a.gguf");
    assert!(with.starts_with("exit: 0"), "{with}");
    let merged = place.run("gristmill convert source --vocab-only --lora x.gguf --outfile b.gguf");
    assert!(
        merged.contains("'--vocab-only' cannot be used with"),
        "{merged}"
    );
    let file = File::open(&place.path("a.gguf")).expect("it opens");
    assert!(file.tensors().is_empty());
    let whole = File::open(&small_model()).expect("it opens");
    let tokens = |file: &File| file.metadata().get("tokenizer.ggml.tokens").cloned();
    assert_eq!(tokens(&file), tokens(&whole));
    assert!(tokens(&file).is_some());
}

#[test]
fn edit_names_each_special_token() {
    let place = Workplace::new();
    let path = edit::small(&place);
    let line = "gristmill edit model.gguf --bos a --eos b --eot <|im_end|> --unk <s> --pad </s>";
    let shown = place.run(line);
    assert!(shown.starts_with("exit: 0"), "{shown}");
    // The vocabulary is <s> </s> a <|im_end|> b.
    for (name, id) in [
        ("bos", 2),
        ("eos", 4),
        ("eot", 3),
        ("unknown", 0),
        ("padding", 1),
    ] {
        let key = format!("tokenizer.ggml.{name}_token_id");
        assert_eq!(edit::value(&path, &key), Some(Value::U32(id)), "{key}");
    }
}

/// The bytes of a tensor.
fn data_of(path: &Path, name: &str) -> Vec<u8> {
    let file = File::open(path).expect("it opens");
    let mut tensors = file.tensors().iter();
    let tensor = tensors.find(|tensor| tensor.name.as_str() == name);
    file.data(tensor.expect("it is there")).to_vec()
}

#[test]
fn quantize_includes_and_excludes_importance_by_name() {
    const FIRST: &str = "blk.0.attn_q.weight";
    const SECOND: &str = "blk.1.attn_q.weight";
    let place = Workplace::new();
    let tensors = [
        ("token_embd.weight", [256, 40]),
        ("output_norm.weight", [256, 1]),
        (FIRST, [256, 64]),
        (SECOND, [256, 64]),
    ];
    write_llama(&place.path("a.gguf"), F16, &tensors);
    let mut imatrix = Imatrix::default();
    for name in [FIRST, SECOND] {
        let sums = (0..256).map(|column| (column % 9) as f32 + 0.25).collect();
        let entry = ImatrixEntry::new(sums, vec![1.0], None);
        imatrix.insert(name, entry.expect("it is sound"));
    }
    let path = place.path("i.dat");
    let saved = imatrix.save(&path, ImatrixForm::Legacy, &WriteOptions::default());
    saved.expect("the folder is writable");
    let data = |flags: &str| {
        let line = format!("gristmill quantize {flags}--force a.gguf o.gguf Q4_K_S");
        let shown = place.run(&line);
        assert!(shown.starts_with("exit: 0"), "{shown}");
        [FIRST, SECOND].map(|name| data_of(&place.path("o.gguf"), name))
    };
    let [plain_first, plain_second] = data("");
    let [first, second] = data("--imatrix i.dat ");
    assert!(plain_first != first && plain_second != second);
    let included = data("--imatrix i.dat --include-weights blk.0 ");
    assert!(included == [first, plain_second]);
    let excluded = data("--imatrix i.dat --exclude-weights blk.0 ");
    assert!(excluded == [plain_first, second]);
}

#[test]
fn quantize_takes_a_quantized_source_and_a_type_of_embeddings_when_told() {
    let place = with_model();
    let embeddings = |file: &str| {
        let file = File::open(&place.path(file)).expect("it opens");
        let mut tensors = file.tensors().iter();
        let tensor = tensors.find(|tensor| tensor.name.as_str() == "token_embd.weight");
        tensor.expect("it is there").ty
    };
    let shown = place.run("gristmill quantize --token-embedding-type q8_0 a.gguf q.gguf Q4_0");
    assert!(shown.starts_with("exit: 0"), "{shown}");
    assert_eq!(embeddings("q.gguf"), Q8_0);
    let shown = place.run("gristmill quantize a.gguf r.gguf Q4_0");
    assert!(shown.starts_with("exit: 0"), "{shown}");
    assert_ne!(embeddings("r.gguf"), Q8_0);
    let refused = place.run("gristmill quantize q.gguf s.gguf Q4_1");
    assert!(refused.starts_with("exit: 1"), "{refused}");
    let taken = place.run("gristmill quantize --allow-requantize q.gguf s.gguf Q4_1");
    assert!(taken.starts_with("exit: 0"), "{taken}");
    assert!(taken.contains("errors add up"), "{taken}");
    // F32 holds what was decoded as it is.
    let widened = place.run("gristmill quantize --allow-requantize q.gguf s.gguf F32 --force");
    assert!(
        widened.contains("what that lost does not come back"),
        "{widened}"
    );
}

#[test]
fn run_takes_control_tokens_in_messages_for_text_unless_told() {
    let place = with_model();
    let n_ends = |flags: &[&str]| {
        let message = ["-st", "-n", "0", "-p", "a<|endoftext|>b"];
        let answer = &answers(&place, &[&message, flags].concat(), "")[0];
        let ids = answer["prompt_ids"].as_array().expect("a list").clone();
        ids.into_iter().filter(|id| *id == 0).count()
    };
    // The template begins with one.
    assert_eq!(n_ends(&[]), 1);
    assert_eq!(n_ends(&["--parse-special"]), 2);
}

#[test]
fn run_ends_an_answer_at_a_reverse_prompt() {
    let place = with_model();
    let words = ["-no-cnv", "-n", "40", "-p", "ROMEO:"];
    let whole = answers(&place, &words, "")[0]["text"].clone();
    let whole = whole.as_str().expect("it is text");
    let stop: String = whole.chars().skip(12).take(4).collect();
    let before = whole.split(&stop).next().expect("there is a part");
    for flag in ["--reverse-prompt", "-r"] {
        let words = [&words[..], &[flag, "never said", flag, &stop]].concat();
        let answer = &answers(&place, &words, "")[0];
        assert_eq!(answer["text"], before, "{stop:?}");
        assert_eq!(answer["stop"], "stop");
    }
}

/// Escape sequences are processed there where they are in a prompt: with `-e`, and under a reference name.
#[test]
fn run_takes_a_reverse_prompt_with_escape_sequences() {
    let place = with_model();
    let answer = |program: &[&str], flags: &[&str]| {
        let fixed = ["-m", "a.gguf", "-no-cnv", "-n", "60", "-p", "ROMEO:"];
        let json = ["--temp", "0", "--json", "--log-disable", "-r", "\\n"];
        let text = stdout(&place, &[program, &fixed, &json, flags].concat(), "");
        let answer: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
        answer["text"].as_str().expect("it is text").to_owned()
    };
    let run = &["gristmill", "run"];
    let whole = answer(run, &[]);
    let (line, _) = whole.split_once('\n').expect("a line ends");
    assert_eq!(answer(run, &["-e"]), line);
    assert_eq!(answer(&["llama-completion"], &[]), line);
    assert_eq!(answer(&["llama-completion"], &["--no-escape"]), whole);
}

#[test]
fn run_goes_on_in_the_next_line_where_several_are_allowed() {
    let place = with_model();
    let prompts = |words: &[&str], input: &str| {
        let answers = answers(&place, &[words, &["-n", "1"]].concat(), input);
        let prompts = answers
            .into_iter()
            .map(|answer| answer["prompt_ids"].clone());
        prompts.collect::<Vec<_>>()
    };
    let one = prompts(&["-st", "-p", "first\nsecond"], "");
    assert_eq!(one.len(), 1);
    // As in the reference, a backslash ends a message of several lines.
    let input = "first\nsecond\\\n";
    assert_eq!(prompts(&["--multiline-input"], input), one);
    assert_eq!(prompts(&["-mli"], input), one);
    assert_eq!(prompts(&[], input).len(), 2);
}

#[test]
fn run_shows_control_tokens_prompts_and_speed_when_told() {
    let place = with_model();
    // The bias makes the token that ends an answer the best one.
    let line = "gristmill run -m a.gguf -no-cnv -p x -n 3 --temp 0 --logit-bias 0+100";
    let shown = |flags: &str| {
        let line = format!("{line}{flags}");
        let words: Vec<&str> = line.split(' ').collect();
        outputs(&place, &words, "")
    };
    let (text, log) = shown("");
    assert_eq!(text, "x\n");
    assert!(log.contains("Generation:"), "{log}");
    assert_eq!(shown(" --special").0, "x<|endoftext|>\n");
    assert_eq!(shown(" -sp --no-display-prompt").0, "<|endoftext|>\n");
    assert!(!shown(" --show-timings off").1.contains("Generation:"));
    assert!(shown(" --show-timings").1.contains("Generation:"));
}

#[test]
fn run_leaves_backslashes_under_a_reference_name_when_told() {
    let place = with_model();
    let ids = |words: &[&str]| {
        let fixed = ["-m", "a.gguf", "-no-cnv", "-n", "0", "-p", "a\\nb"];
        let json = ["--output-format", "json", "--log-disable"];
        let text = stdout(
            &place,
            &[&words[..1], &fixed, &json, &words[1..]].concat(),
            "",
        );
        let answer: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
        answer["prompt_ids"].clone()
    };
    let escaped = ids(&["llama-completion"]);
    let plain = ids(&["llama-completion", "--no-escape"]);
    assert_ne!(escaped, plain);
    assert_eq!(ids(&["llama-completion", "--no-escape", "-e"]), escaped);
}

#[test]
fn run_penalizes_what_occurred() {
    let place = with_model();
    let ids = |flags: &[&str]| {
        let words = ["-no-cnv", "-n", "40", "-p", "ROMEO:"];
        answers(&place, &[&words, flags].concat(), "")[0]["ids"].clone()
    };
    let plain = ids(&[]);
    let presence = ids(&["--presence-penalty", "0.5"]);
    let frequency = ids(&["--frequency-penalty", "0.5"]);
    assert!(presence != plain && frequency != plain && presence != frequency);
}

/// The flags of devices change nothing, and one line says so.
#[test]
fn flags_of_devices_are_accepted_everywhere() {
    let place = with_model();
    let flags = "-ngl 9 -dev gpu -sm row -ts 1,1 -mg 0 -ot a=b -cmoe -ncmoe 1 -ncffn 1 -fit on -fitt 9 -fitc 9 -kvo";
    let flags: Vec<&str> = flags.split(' ').chain(["-nkvo"]).collect();
    let run = [
        "gristmill",
        "run",
        "-m",
        "a.gguf",
        "-no-cnv",
        "-p",
        "x",
        "-n",
        "4",
        "--temp",
        "0",
    ];
    let logits = [
        "gristmill",
        "logits",
        "a.gguf",
        "--tokens",
        "1,2",
        "--output",
        "o.npy",
        "--force",
    ];
    for words in [&run[..], &logits] {
        let (plain, _) = outputs(&place, words, "");
        let (shown, log) = outputs(&place, &[words, &flags].concat(), "");
        assert_eq!(shown, plain);
        let note = "no GPU backend is built in";
        assert_eq!(log.matches(note).count(), 1, "{log}");
    }
}

#[test]
fn tokenize_reads_counts_and_takes_text_as_it_is() {
    let place = Workplace::new();
    let change = Change {
        set: vec![("tokenizer.ggml.add_bos_token", true.into())],
        ..Change::default()
    };
    changed(&small_model(), &place.path("a.gguf"), &change);
    let tokens = |words: &[&str], input: &str| {
        let fixed = ["gristmill", "tokenize", "-m", "a.gguf"];
        stdout(&place, &[&fixed, words].concat(), input)
    };
    let text = "a\\nb<|endoftext|>";
    let shown = tokens(&["--ids", "-p", text], "");
    // The beginning, a, the line break, b and the token whose text it is.
    assert_eq!(shown, "[0, 65, 199, 66, 0]\n");
    assert_eq!(tokens(&["--ids", "--stdin"], text), shown);
    let counted = format!("{shown}Total number of tokens: 5\n");
    assert_eq!(tokens(&["--ids", "--stdin", "--show-count"], text), counted);
    assert_eq!(
        tokens(&["--ids", "--no-bos", "-p", text], ""),
        "[65, 199, 66, 0]\n"
    );
    assert_eq!(
        tokens(&["--ids", "--no-escape", "-p", text], ""),
        "[0, 65, 60, 78, 66, 0]\n"
    );
    assert!(!tokens(&["--ids", "--no-parse-special", "-p", text], "").contains(" 0]"));
}

/// Rows of [1024] logits.
fn logits(place: &Workplace, words: &str) -> Vec<Vec<u8>> {
    let words = format!("gristmill logits a.gguf --tokens 5,9,2,7,30 -o o.npy -f {words}");
    stdout(place, &words.split(' ').collect::<Vec<_>>(), "");
    let bytes = std::fs::read(place.path("o.npy")).expect("it was written");
    bytes[128..].chunks(4 * 1024).map(<[u8]>::to_vec).collect()
}

#[test]
fn batches_choose_the_rows_and_arithmetic_their_rounding() {
    let place = with_model();
    let own = logits(&place, "--ubatch-size 8");
    assert_eq!(own.len(), 5);
    // One row per batch, the rest one by one, with the bits of the whole sequence.
    assert_eq!(logits(&place, "--batches 2,1"), own[1..]);
    assert_eq!(logits(&place, "--batches 9"), own[4..]);
    let followed = logits(&place, "--arithmetic llama.cpp");
    assert_ne!(followed, own);
    let floats = |rows: &[Vec<u8>]| -> Vec<f32> {
        let bytes = rows.iter().flat_map(|row| row.as_chunks().0);
        bytes.map(|bytes| f32::from_le_bytes(*bytes)).collect()
    };
    let pairs = floats(&followed).into_iter().zip(floats(&own));
    let largest = pairs.fold(0f32, |largest, (a, b)| largest.max((a - b).abs()));
    assert!(
        largest < 0.1,
        "{largest}: 8 bits of an activation are worth less"
    );
    assert_ne!(
        logits(&place, "--arithmetic llama.cpp --batches 2,1"),
        own[1..]
    );
    // `run` takes it too: the first id is the best of the last row.
    let words = ["-no-cnv", "-p", "x", "-n", "4", "--arithmetic", "llama.cpp"];
    assert_eq!(answers(&place, &words, "").len(), 1);
}

#[test]
fn an_arithmetic_that_lacks_a_type_says_so() {
    let place = with_model();
    place.run("gristmill quantize a.gguf t.gguf TQ2_0");
    let words = "gristmill logits t.gguf --tokens 1 -o o.npy --arithmetic llama.cpp";
    assert_snapshot!(place.run(words), @r"
    exit: 1
    --- stderr
    error: t.gguf: matmul: not supported by backend cpu-llama.cpp for type tq2_0
    hint: leave out --arithmetic: gristmill's own knows every type
    ");
    let words = "gristmill logits a.gguf --tokens 1 -o o.npy --arithmetic exact";
    assert_snapshot!(place.run(words), @r"
    exit: 2
    --- stderr
    error: invalid value 'exact' for '--arithmetic <gristmill|llama.cpp>'
      [possible values: gristmill, llama.cpp]

    For more information, try '--help'.
    ");
}

/// Each flag about rotation changes the answer, or does what another does; a text of some length makes it visible.
#[test]
fn run_rotates_as_it_is_asked_to() {
    let place = with_model();
    let prompt = "To be, or not to be, that is the question. Whether it is nobler in the mind to suffer the slings of fortune";
    let answer = |flags: &str| {
        let mut words = vec!["-no-cnv", "-n", "24", "-p", prompt];
        words.extend(flags.split_whitespace());
        answers(&place, &words, "")[0]["text"].to_string()
    };
    let plain = answer("");
    let linear = answer("--rope-scale 8");
    let yarn = "--rope-scaling yarn --rope-scale 8 --yarn-orig-ctx 64";
    let yarned = answer(yarn);
    for same in [
        "--rope-scale 0 --rope-freq-base 0 --yarn-orig-ctx 0 --yarn-ext-factor -1",
        "--yarn-attn-factor -1 --yarn-beta-slow -1 --yarn-beta-fast -1",
        "--rope-scaling none --rope-scale 8",
    ] {
        assert_eq!(answer(same), plain, "{same}");
    }
    for same in [
        "--rope-freq-scale 0.125",
        "--rope-freq-scale 0.5 --rope-scale 8",
        "--rope-scaling linear --rope-scale 8",
        "--rope-scaling yarn --rope-scale 8 --yarn-ext-factor 0",
    ] {
        assert_eq!(answer(same), linear, "{same}");
    }
    for (other, than) in [
        ("--rope-scale 8".to_owned(), &plain),
        ("--rope-freq-base 20".to_owned(), &plain),
        (yarn.to_owned(), &linear),
        (format!("{yarn} --yarn-orig-ctx 4096"), &yarned),
        (format!("{yarn} --yarn-attn-factor 3"), &yarned),
        (
            format!("{yarn} --yarn-beta-fast 4 --yarn-beta-slow 3"),
            &yarned,
        ),
    ] {
        assert_ne!(answer(&other), *than, "{other}");
    }
    let refused = place.run("gristmill run -m a.gguf --rope-scale -1");
    assert!(
        refused.contains("it must be a number from 0 to 1000000"),
        "{refused}"
    );
}
