//! The context of `run`: what happens when it is full, and what layers with a window keep.

use crate::fixtures::with_model;
use crate::harness::{Workplace, piped, tiny};

/// What a run with these words says, as JSON, and on standard error.
fn answer(place: &Workplace, words: &str) -> (serde_json::Value, String) {
    let mut command = place.command("gristmill");
    let fixed = "run -m a.gguf -no-cnv -t 1 --temp 0 --ignore-eos --output-format json";
    command.args(fixed.split(' ')).args(words.split(' '));
    let output = piped(&mut command, b"").1;
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{words}: {told}");
    let answer = serde_json::from_slice(&output.stdout).expect("the output is JSON");
    (answer, told)
}

fn n_ids(answer: &serde_json::Value) -> usize {
    answer["ids"].as_array().expect("a list").len()
}

#[test]
fn case_b69_a_full_context_ends_the_answer_unless_it_may_be_shifted() {
    let place = with_model();
    let (ended, told) = answer(&place, "-p hello -c 64 -n 100");
    assert_eq!(ended["stop"], "context");
    assert!(told.contains("ended by the full context"), "{told}");
    let (shifted, _) = answer(&place, "-p hello -c 64 -n 100 --context-shift --keep 2");
    assert_eq!((&shifted["stop"], n_ids(&shifted)), (&"length".into(), 100));
    assert_eq!(
        ended["ids"].as_array(),
        shifted["ids"]
            .as_array()
            .map(|ids| ids[..n_ids(&ended)].to_vec())
            .as_ref()
    );
    // -1 goes on without end where the context is shifted, so that only -2 can be waited for.
    let (full, _) = answer(&place, "-p hello -c 64 -n -2 --context-shift");
    assert_eq!(full["ids"], ended["ids"]);
    let (last, _) = answer(
        &place,
        "-p hello -c 64 -n 100 --context-shift --no-context-shift",
    );
    assert_eq!(last["ids"], ended["ids"]);

    // Of a shorter prompt all is kept.
    let kept = |n| {
        answer(
            &place,
            &format!("-p hello -c 64 -n 100 --context-shift --keep {n}"),
        )
        .0
    };
    assert_eq!(kept(70)["ids"], kept(-1)["ids"]);
    // The whole of a long one leaves nothing that could go, however that is asked for.
    let long = "hello-".repeat(20);
    let (said, _) = answer(&place, &format!("-p {long} -n 1"));
    let n = said["prompt_ids"].as_array().expect("a list").len();
    let refused = format!(
        "gristmill run -m a.gguf -no-cnv -p {long} -c {} --log-disable --context-shift --keep",
        n + 2
    );
    for keep in [-1, n as i64, 1000] {
        let shown = place.run(&format!("{refused} {keep}"));
        assert_eq!(
            shown,
            format!(
                "exit: 1\n--- stderr\nerror: {n} tokens to keep leave no room to shift a context of {}\nhint: keep fewer \
                 than {n} tokens with --keep, BOS included, or give a longer context with -c",
                n + 2
            )
        );
    }
    let wrong = place.run(&format!("{refused} -2"));
    let expected = "invalid value '-2' for '--keep <N>': it must be a whole number from -1";
    assert!(
        wrong.starts_with("exit: 2") && wrong.contains(expected),
        "{wrong}"
    );
}

#[test]
fn a_window_takes_less_memory_and_says_the_same() {
    let Some(folder) = gristmill_golden::folder("convert/gemma3_text") else {
        return;
    };
    let place = Workplace::new();
    std::fs::copy(folder.join("gemma3_text-f32.gguf"), place.path("a.gguf"))
        .expect("the model can be copied");
    let (windowed, told) = answer(&place, "-p hello -c 512 -n 40 -ub 32");
    let (whole, told_of_whole) = answer(&place, "-p hello -c 512 -n 40 -ub 32 --swa-full");
    assert_eq!(windowed["ids"], whole["ids"]);
    let cache = |told: &str| {
        let line = told.lines().find(|line| line.contains("KV cache"));
        line.map(str::to_owned).expect("the report has the cache")
    };
    assert_ne!(cache(&told), cache(&told_of_whole));
}

#[test]
fn case_b88_a_prompt_cache_spares_the_prompt_and_fits_its_model_only() {
    let place = with_model();
    let prompt = "-p hello-hello-hello -n 8";
    let n_prompt = |answer: &serde_json::Value| answer["timings"]["prompt_n"].as_u64();
    let (plain, _) = answer(&place, prompt);
    let cached = format!("{prompt} --prompt-cache s.bin");
    let (first, told) = answer(&place, &cached);
    assert!(told.contains("saved session: s.bin is new"), "{told}");
    let kept = std::fs::read(place.path("s.bin")).expect("the session is there");
    let (second, told) = answer(&place, &cached);
    assert!(told.contains("tokens from s.bin"), "{told}");
    assert_eq!(
        (&first["ids"], &second["ids"]),
        (&plain["ids"], &plain["ids"])
    );
    assert_eq!(
        (n_prompt(&first), n_prompt(&second)),
        (n_prompt(&plain), Some(1))
    );
    // Read only, and what there was to say is known: the file stays.
    answer(
        &place,
        "-p other-words -n 2 --prompt-cache s.bin --prompt-cache-ro",
    );
    assert_eq!(
        std::fs::read(place.path("s.bin")).expect("it is there"),
        kept
    );
    // With the answer, which a run without a prompt goes on with.
    let (_, told) = answer(&place, &format!("{cached} --prompt-cache-all"));
    assert!(!told.contains("note: "), "{told}");
    assert_ne!(
        std::fs::read(place.path("s.bin")).expect("it is there"),
        kept
    );
    let (on, _) = answer(&place, "-n 3 --prompt-cache s.bin --prompt-cache-ro");
    let known = [plain["prompt_ids"].clone(), plain["ids"].clone()];
    let known: Vec<_> = known
        .iter()
        .filter_map(|ids| ids.as_array())
        .flatten()
        .collect();
    let before = on["prompt_ids"].as_array().expect("a list");
    assert_eq!(before.iter().collect::<Vec<_>>(), known[..known.len() - 1]);
    assert_eq!(&on["ids"][0], known[known.len() - 1]);

    // As with the reference, another prompt takes the place of what the file holds; what goes is told.
    let n_known = known.len() - 1;
    let (_, told) = answer(&place, "-p hello-other -n 1 --prompt-cache s.bin");
    let expected = format!("note: s.bin has {n_known} tokens, of which the first ");
    assert!(
        told.contains(&expected)
            && told.contains("; the others are replaced (--prompt-cache-ro keeps them)"),
        "{told}"
    );
    let other = std::fs::read(place.path("s.bin")).expect("it is there");
    // All of this one is known, so that there is nothing to replace.
    let (_, told) = answer(&place, "-p hello -n 1 --prompt-cache s.bin");
    assert!(!told.contains("note: "), "{told}");
    assert_eq!(
        std::fs::read(place.path("s.bin")).expect("it is there"),
        other
    );
    let (_, told) = answer(
        &place,
        "-p hello -n 1 --prompt-cache s.bin --prompt-cache-all",
    );
    assert!(told.contains("the others are replaced"), "{told}");

    let refused = |words: &str| {
        let line = "gristmill run -m a.gguf -no-cnv -p hi -n 1 --log-disable";
        place.run(&format!("{line} {words}"))
    };
    place.write("theirs.bin", b"nsgg\x09\0\0\0\0\0\0\0");
    insta::assert_snapshot!(refused("--prompt-cache theirs.bin"), @r"
    exit: 1
    --- stderr
    error: theirs.bin: is a session file of llama.cpp
    hint: give another name, or remove the file: it is then written anew
    ");
    insta::assert_snapshot!(refused("--prompt-cache s.bin -ctk f32"), @r"
    exit: 1
    --- stderr
    error: s.bin: the saved session has a cache of f16/f16, but this one is of f32/f16
    hint: give these types with -ctk and -ctv, or another name
    ");
    let message = refused("--prompt-cache a.gguf");
    assert!(
        message.starts_with("exit: 1") && message.contains("a.gguf"),
        "{message}"
    );
    let message = refused("--prompt-cache nowhere/s.bin");
    assert!(
        message.starts_with("exit: 1") && message.contains("nowhere"),
        "{message}"
    );
    assert_eq!(place.files(), ["a.gguf", "s.bin", "theirs.bin"]);
}

/// Case B69: with context shift, turns go on behind a full context, typed ones and those of a chat.
#[test]
fn case_b69_turns_go_on_behind_a_full_context() {
    let place = with_model();
    let input = "and some more words, please\n".repeat(8);
    let talk = |words: &str| {
        let fixed = "run -m a.gguf -n 24 --ignore-eos --temp 0";
        let mut command = place.command("gristmill");
        command.args(fixed.split(' ')).args(words.split(' '));
        let (_, output) = piped(&mut command, input.as_bytes());
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        (
            output.status.code(),
            told.matches("Generation:").count(),
            told,
        )
    };
    // A prompt, and eight lines: each has its answer.
    for shift in ["--context-shift --keep 2", "--context-shift --keep -1"] {
        let (code, n, told) = talk(&format!("-i -no-cnv -p one -c 96 {shift}"));
        assert_eq!((code, n), (Some(0), 9), "{shift}: {told}");
        assert!(!told.contains("is full"), "{told}");
    }
    let (_, n, told) = talk("-i -no-cnv -p one -c 96");
    assert!(n < 9 && told.contains("96"), "{told}");

    let (code, n, told) = talk("-cnv -c 192 --context-shift");
    assert_eq!((code, n), (Some(0), 8), "{told}");
    let note = "note: the context of 192 tokens is full; the model no longer sees the oldest";
    assert!(told.contains(note), "{told}");
    let (code, n, told) = talk("-cnv -c 192");
    assert!(code == Some(1) && n < 8 && told.contains("192"), "{told}");
    // Each line that does not fit is told, by its number.
    assert_eq!(told.matches("\nerror: message ").count(), 8 - n, "{told}");
    assert!(
        told.contains("\nerror: message 8: the prompt has "),
        "{told}"
    );
    let remedy = "hint: give a longer context with -c; or --context-shift, which leaves the oldest messages out";
    assert!(told.contains(remedy), "{told}");
}

#[test]
fn what_is_written_is_nothing_that_is_read() {
    let place = with_model();
    std::fs::hard_link(place.path("a.gguf"), place.path("b.gguf")).expect("it has a second name");
    place.write("prompt.txt", "hello");
    let before = place.files();
    let run = "gristmill run -m a.gguf -no-cnv -n 1";
    insta::assert_snapshot!(place.run(&format!("{run} -p hello --log-file a.gguf")), @r"
    exit: 1
    --- stderr
    error: a.gguf: 2 arguments name this file, and one of them has it written
    hint: write to another file
    ");
    insta::assert_snapshot!(place.run(&format!("gristmill run -m {} -p hello --log-file b.gguf", tiny().display())), @r"
    exit: 1
    --- stderr
    error: b.gguf: is a GGUF file, and messages would replace it
    hint: write them to another file
    ");
    for words in [
        "-p hello --log-file b.gguf",
        "-f prompt.txt --log-file ./prompt.txt",
        "-p hello --lora-scaled prompt.txt:1,a.gguf:0.5 --log-file prompt.txt",
        "-p hello -o new.txt --prompt-cache new.txt",
        "-p hello --history new.txt --prompt-cache new.txt",
        "-p hello --log-file=new.txt -o new.txt",
    ] {
        let shown = place.run(&format!("{run} {words}"));
        let expected = "2 arguments name this file, and one of them has it written";
        assert!(
            shown.starts_with("exit: 1") && shown.contains(expected),
            "{words}: {shown}"
        );
        assert_eq!(place.files(), before, "{words}");
    }
    // A failure leaves no file of answers.
    let failed = place.run(&format!(
        "{run} -f prompt.txt -c 4 -n 9 --keep 9 --context-shift -o new.txt"
    ));
    assert!(failed.starts_with("exit: 1"), "{failed}");
    assert_eq!(place.files(), before);
}
