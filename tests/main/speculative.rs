//! Drafts: by the text itself, and by a smaller model.

use gristmill_gguf::{File, Value};

use crate::fixtures::{Change, changed, small_model, with_model};
use crate::harness::{Workplace, piped};

/// A long answer, and what is told beside it.
fn answer(place: &Workplace, flags: &str) -> (serde_json::Value, String) {
    let fixed = "run -m a.gguf -no-cnv --ignore-eos -n 60 -c 256 --json -t 1";
    let mut command = place.command("gristmill");
    command
        .args(fixed.split(' '))
        .args(["-p", "one two one two one"]);
    command.args(flags.split(' ').filter(|flag| !flag.is_empty()));
    let (_, output) = piped(&mut command, b"");
    assert!(output.status.success(), "{flags}: {}", place.show(&output));
    let answer = serde_json::from_slice(&output.stdout).expect("it is JSON");
    (answer, String::from_utf8_lossy(&output.stderr).into_owned())
}

/// A place with a model and a rougher one.
fn with_draft() -> Workplace {
    let place = with_model();
    let made = place.run("gristmill quantize a.gguf rough.gguf q4_0");
    assert!(made.starts_with("exit: 0"), "{made}");
    place
}

#[test]
fn answers_with_drafts_are_those_without() {
    let place = with_draft();
    let lookup =
        "--spec-type ngram-simple --spec-ngram-simple-size-n 2 --spec-ngram-simple-size-m 5";
    for how in [
        "--temp 0",
        "--seed 7 --temp 1.5 --repeat-penalty 1.2 --n-probs 2",
        "--seed 7 --temp 1.5 -ctk q8_0 -ctv q5_1",
    ] {
        let (plain, _) = answer(&place, how);
        assert!(plain["timings"].get("draft_n").is_none(), "{plain}");
        for drafts in [
            "-md rough.gguf",
            lookup,
            &format!("{lookup} -md rough.gguf"),
        ] {
            let (drafted, told) = answer(&place, &format!("{how} {drafts}"));
            for key in ["ids", "text", "completion_probabilities", "stop"] {
                assert_eq!(drafted[key], plain[key], "{how} {drafts}");
            }
            assert_eq!(drafted["timings"]["predicted_n"], 60);
            let count = |key: &str| drafted["timings"][key].as_u64().expect("a count");
            assert!(count("draft_n_accepted") <= count("draft_n"), "{drafted}");
            if drafts == "-md rough.gguf" {
                assert!(count("draft_n_accepted") > 0, "{drafted}");
                let counts = (count("draft_n_accepted"), count("draft_n"));
                let words = format!("Drafts: {} of {} tokens accepted", counts.0, counts.1);
                assert!(told.contains(&words), "{told}");
                assert!(told.contains("drafts: rough.gguf ("), "{told}");
            }
        }
    }
}

/// Each flag changes what is drafted, and never what is answered.
#[test]
fn every_flag_of_drafts_has_its_effect() {
    let place = with_draft();
    let plain = answer(&place, "--temp 0").0;
    let n_drafted = |flags: &str| {
        let (drafted, _) = answer(&place, &format!("--temp 0 {flags}"));
        assert_eq!(drafted["ids"], plain["ids"], "{flags}");
        drafted["timings"]["draft_n"].as_u64().unwrap_or(0)
    };
    let model = n_drafted("-md rough.gguf");
    assert!(model > 0);
    assert_ne!(
        n_drafted("--spec-draft-model rough.gguf --spec-draft-n-max 1"),
        model
    );
    let unsure = "--model-draft rough.gguf --spec-draft-p-min 0.05";
    let whole = n_drafted(&format!("{unsure} --spec-draft-n-min 3"));
    assert!(
        whole % 3 == 0 && (1..n_drafted(unsure)).contains(&whole),
        "{whole}"
    );
    assert!(n_drafted("-md rough.gguf --spec-draft-p-min 1") < model);
    assert_eq!(
        n_drafted("-md rough.gguf --spec-draft-sampling greedy"),
        model
    );
    assert_eq!(n_drafted("-md rough.gguf --spec-type none"), 0);
    assert_eq!(n_drafted("-md rough.gguf --spec-type draft-simple"), model);
    for (kind, key, longest, hits) in [
        ("ngram-simple", "size-n", "size-m", "min-hits"),
        ("ngram-map-k", "size-n", "size-m", "min-hits"),
        ("ngram-map-k4v", "size-n", "size-m", "min-hits"),
        ("ngram-mod", "n-match", "n-max", "n-min"),
    ] {
        let flag = |name: &str, n: usize| format!("--spec-{kind}-{name} {n}");
        let found = |others: &str| {
            let [key, longest] = [flag(key, 1), flag(longest, 2)];
            n_drafted(&format!("--spec-type {kind} {key} {longest} {others}"))
        };
        assert!(found(&flag(hits, 1)) > 0, "{kind}");
        if hits == "min-hits" {
            assert_eq!(found(&flag(hits, 1000)), 0, "{kind}");
        }
        let none = format!("--spec-type {kind} {}", flag(key, 1000));
        assert_eq!(n_drafted(&none), 0);
        let [key, hits, one] = [flag(key, 1), flag(hits, 1), flag(longest, 1)];
        let short = n_drafted(&format!("--spec-type {kind} {key} {hits} {one}"));
        assert_ne!(short, found(&hits), "{kind}");
    }
    let (_, told) = answer(&place, "--spec-default");
    assert!(told.contains("drafts: ngram-mod\n"), "{told}");
    for (flags, words) in [
        ("-md rough.gguf -td 2", "MiB, 2 threads)"),
        (
            "-md rough.gguf -td 1 -tbd 2",
            "MiB, 1 threads, 2 for prompts)",
        ),
        (
            "-md rough.gguf -ngld 1",
            "note: no GPU backend is built in; the draft model",
        ),
        (
            "-md rough.gguf -devd CUDA0",
            "note: no GPU backend is built in; the draft model",
        ),
        (
            "--spec-draft-n-max 2",
            "note: --spec-draft-n-max changes nothing without a draft",
        ),
        (
            "-ngld 0",
            "note: --spec-draft-ngl changes nothing without a draft",
        ),
        (
            "-devd none",
            "note: --spec-draft-device changes nothing without a draft",
        ),
        (
            "-md nothing.gguf --spec-type none",
            "note: --spec-draft-model changes nothing with --spec-type none",
        ),
        (
            "-md rough.gguf -b 1",
            "note: --batch-size 1 leaves no room for drafts",
        ),
        (
            "--spec-default -ub 1",
            "note: --ubatch-size 1 leaves no room for drafts",
        ),
        (
            "--spec-default -c 72",
            "note: ngram-mod finds nothing in a context of 72 tokens: with its sizes it takes 73",
        ),
        (
            "--spec-ngram-mod-n-min 2",
            "note: --spec-ngram-mod-n-min changes nothing without --spec-type",
        ),
    ] {
        let (_, told) = answer(&place, flags);
        assert!(told.contains(words), "{flags}: {told}");
    }
    let cache = |flags: &str| {
        let (_, told) = answer(&place, &format!("-md rough.gguf {flags}"));
        let line = told.lines().find(|line| line.starts_with("drafts: "));
        line.expect("it is told").to_owned()
    };
    let [both, keys, values] = ["", "-ctkd f32", "-ctvd f32"].map(cache);
    assert!(both != keys && both != values, "{both} {keys} {values}");
}

/// The shortest draft was longer than the longest one, or than a batch has room for, and nothing was ever drafted.
#[test]
fn lengths_of_drafts_that_contradict_are_told() {
    let place = with_draft();
    let model = "-md rough.gguf";
    let mod_1 = "--spec-type ngram-mod --spec-ngram-mod-n-match 1";
    for (flags, words) in [
        (
            format!("{mod_1} --spec-ngram-mod-n-max 4"),
            "note: --spec-ngram-mod-n-max 4 makes --spec-ngram-mod-n-min 4, in place of 48\n",
        ),
        (
            format!("{mod_1} -ub 5"),
            "note: --ubatch-size 5 makes --spec-ngram-mod-n-min 4, in place of 48\n",
        ),
        (
            format!("{model} --spec-draft-n-min 5"),
            "note: --spec-draft-n-min 5 makes --spec-draft-n-max 5, in place of 3\n",
        ),
    ] {
        let (drafted, told) = answer(&place, &format!("--temp 0 {flags}"));
        assert_eq!(told.matches(words).count(), 1, "{flags}: {told}");
        let n_drafted = drafted["timings"]["draft_n"].as_u64();
        assert!(n_drafted > Some(0), "{flags}: {drafted}");
    }
    let (_, told) = answer(&place, "--spec-default --spec-ngram-mod-n-min 70");
    let words = "note: --spec-ngram-mod-n-min 70 makes --spec-ngram-mod-n-max 70, in place of 64\n";
    assert!(told.contains(words), "{told}");
    for (flags, words) in [
        (
            format!("{model} --spec-draft-n-min 5 --spec-draft-n-max 2"),
            "error: --spec-draft-n-min 5 is more than --spec-draft-n-max 2, so no draft would do",
        ),
        (
            "--spec-default --spec-ngram-mod-n-min 9 --spec-ngram-mod-n-max 8".to_owned(),
            "error: --spec-ngram-mod-n-min 9 is more than --spec-ngram-mod-n-max 8, so no draft would do",
        ),
        (
            format!("{model} --spec-draft-n-min 8 -ub 8"),
            "error: --spec-draft-n-min 8 is more than the 7 tokens of a draft that --ubatch-size 8 leaves room for",
        ),
        (
            "--spec-default --spec-type none".to_owned(),
            "error: --spec-type none and --spec-default contradict each other",
        ),
        (
            "--spec-type none,ngram-simple".to_owned(),
            "error: --spec-type none and the other kinds of --spec-type contradict each other",
        ),
    ] {
        let shown = place.run(&format!("gristmill run -m a.gguf -no-cnv -p x {flags}"));
        let mut lines = shown.lines().skip(2);
        let first = [lines.next(), lines.next()].map(Option::unwrap_or_default);
        assert!(shown.starts_with("exit: 1"), "{shown}");
        assert!(
            first[0] == words && first[1].starts_with("hint: "),
            "{shown}"
        );
    }
}

/// Every logit of the draft model is NaN: the answer is the one without it, and one warning names the file.
#[test]
fn a_draft_model_that_gives_no_numbers_drafts_no_more() {
    let place = with_draft();
    let change = Change {
        data: Some(("output_norm.weight", |data| {
            data[..4].copy_from_slice(&f32::NAN.to_le_bytes());
        })),
        ..Change::default()
    };
    changed(&small_model(), &place.path("nan.gguf"), &change);
    let lookup = "--spec-type ngram-simple --spec-ngram-simple-size-n 1";
    let (plain, _) = answer(&place, "--temp 0");
    for flags in ["-md nan.gguf", &format!("-md nan.gguf {lookup}")] {
        let (drafted, told) = answer(&place, &format!("--temp 0 {flags}"));
        assert_eq!(drafted["ids"], plain["ids"], "{flags}");
        let n_drafted = drafted["timings"]["draft_n"].as_u64();
        assert_eq!(n_drafted > Some(0), flags.contains(lookup), "{drafted}");
        let words =
            "warning: nan.gguf drafts no more: the model gave invalid logits: 1024 not a number";
        assert_eq!(told.matches(words).count(), 1, "{told}");
        assert!(told.contains("hint: leave the draft model out"), "{told}");
    }
}

#[test]
fn drafters_that_cannot_draft_are_named() {
    let place = with_draft();
    let file = File::open(&small_model()).expect("it opens");
    let tokens = file.metadata().strings("tokenizer.ggml.tokens");
    let tokens = tokens.expect("they are read").expect("it has tokens");
    let mut tokens: Vec<String> = tokens
        .iter()
        .map(|text| String::from_utf8_lossy(text).into_owned())
        .collect();
    tokens.swap(300, 301);
    let change = Change {
        set: vec![("tokenizer.ggml.tokens", Value::from(tokens))],
        ..Change::default()
    };
    changed(&small_model(), &place.path("other.gguf"), &change);
    let line = "gristmill run -m a.gguf -no-cnv -p x -n 1 --log-disable";
    let shown = |flags: &str| place.run(&format!("{line} {flags}"));
    for (flags, words) in [
        (
            "-md other.gguf",
            "error: other.gguf cannot draft for a.gguf, since its vocabulary differs: token 300 is",
        ),
        ("-md nothing.gguf", "error: nothing.gguf: "),
        (
            "--spec-type draft-simple",
            "error: --spec-type draft-simple asks for a draft model, and none is named",
        ),
        (
            "-md rough.gguf --arithmetic llama.cpp",
            "error: no drafts with --arithmetic llama.cpp",
        ),
    ] {
        let shown = shown(flags);
        assert!(
            shown.starts_with("exit: 1") && shown.contains(words),
            "{shown}"
        );
    }
    for (flags, words) in [
        (
            "--spec-type draft-mtp",
            "a head trained on the model's hidden states",
        ),
        (
            "--spec-type ngram-cache",
            "statistics are not read from files",
        ),
        ("--spec-type ngram", "known are ngram-simple, ngram-map-k"),
        (
            "--spec-draft-sampling probabilistic",
            "would change what a seed answers",
        ),
        (
            "--draft-max 4",
            "the reference removed it; --spec-draft-n-max",
        ),
    ] {
        let shown = shown(flags);
        assert!(
            shown.starts_with("exit: 2") && shown.contains(words),
            "{shown}"
        );
    }
    let Some(bert) = gristmill_golden::folder("convert/bert") else {
        return;
    };
    let bert = bert.join("bert-f32.gguf").display().to_string();
    let encoder = shown(&format!("-md {bert}"));
    assert!(
        encoder.starts_with("exit: 1") && encoder.contains(&bert),
        "{encoder}"
    );
}
