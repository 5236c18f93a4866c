//! What a run says where a flag changes nothing, and where it leads on from an error.

use crate::fixtures::with_model;
use crate::harness::Workplace;

const RUN: &str = "gristmill run -m a.gguf -n 1 -t 1 --temp 0";

/// The embedded model without its chat template.
fn without_template() -> Workplace {
    let place = with_model();
    let edited = place.run("gristmill edit a.gguf --remove tokenizer.chat_template");
    assert!(edited.starts_with("exit: 0"), "{edited}");
    place
}

/// What a command without a terminal and a pipe says on standard error.
fn told(place: &Workplace, line: &str, code: i32) -> String {
    let shown = place.run(line);
    assert!(shown.starts_with(&format!("exit: {code}\n")), "{shown}");
    shown
}

#[test]
fn what_belongs_to_a_chat_is_told_where_there_is_none() {
    let place = without_template();
    place.write(
        "tools.json",
        r#"[{"function": {"name": "f", "parameters": {}}}]"#,
    );
    let flags = "-p Hi -sys Terse --tools tools.json --history talk.json -rea on --reasoning-effort low --reasoning-budget 3";
    let names = [
        "the system prompt",
        "--tools",
        "--history",
        "--reasoning",
        "--reasoning-effort",
        "--reasoning-budget",
    ];
    for (more, cause) in [
        ("", "a model without a chat template"),
        (" -no-cnv", "--no-conversation"),
    ] {
        let shown = told(&place, &format!("{RUN} {flags}{more}"), 0);
        for name in names {
            let note = format!("note: {name} belongs to a chat; with {cause} it changes nothing\n");
            assert_eq!(shown.matches(&note).count(), 1, "{note}{shown}");
        }
    }
    assert!(!place.path("talk.json").exists());
    let chat = told(&place, &format!("{RUN} {flags} --chat-template chatml"), 0);
    assert!(!chat.contains("belongs to a chat"), "{chat}");
    assert!(place.path("talk.json").exists());
}

#[test]
fn a_run_with_nothing_to_continue_says_what_would_be() {
    let place = without_template();
    let hint = |flags: &str| {
        let shown = told(&place, &format!("{RUN} --log-disable{flags}"), 1);
        let (_, error) = shown.split_once("error: ").expect("an error");
        error.to_owned()
    };
    insta::assert_snapshot!(hint(""), @"
    there is no prompt to continue, and the model has no chat template to chat by
    hint: give a prompt with -p or -f, or through a pipe; -i lets you type between answers, and --chat-template names a template to chat by
    ");
    insta::assert_snapshot!(hint(" -no-cnv"), @"
    there is no prompt to continue
    hint: give one with -p or -f, or through a pipe; -i lets you type it
    ");
}

#[test]
fn a_missing_model_and_commands_of_others_are_led_on() {
    let place = Workplace::new();
    let missing = told(&place, "gristmill run -p x", 2);
    let ways = "\n  <MODEL>, or -m FILE, -hf USER/REPO[:QUANT] or -mu URL\n";
    assert!(missing.contains(ways), "{missing}");
    for (name, meant) in [("chat", "run"), ("download", "pull"), ("show", "inspect")] {
        let shown = told(&place, &format!("gristmill {name}"), 2);
        assert!(shown.contains(&format!("'{meant}'")), "{shown}");
    }
    let last_n = told(&place, &format!("{RUN} --dry-penalty-last-n -1"), 2);
    assert!(
        last_n.contains("2147483647; for the whole context give its length"),
        "{last_n}"
    );
    let other = told(&place, &format!("{RUN} --dry-penalty-last-n -2"), 2);
    assert!(!other.contains("for the whole context"), "{other}");
}

#[test]
fn sizes_of_memory_may_have_a_fraction() {
    let place = with_model();
    let json = |memory: &str| {
        let line = format!("gristmill estimate a.gguf --json --memory {memory}");
        let shown = told(&place, &line, 0);
        let (_, json) = shown
            .split_once("--- stdout\n")
            .expect("it tells something");
        let told: serde_json::Value = serde_json::from_str(json).expect("it is JSON");
        told
    };
    assert_eq!(json("1.5GiB"), json("1536MiB"));
    assert_ne!(json("1.5GiB"), json("1GiB"));
    let wrong = told(&place, "gristmill estimate a.gguf --memory foo", 2);
    assert!(
        wrong.contains("there is no number in front, as in 7.5GiB"),
        "{wrong}"
    );
}

#[test]
fn files_of_json_are_asked_for_as_such() {
    let place = with_model();
    place.write("f.txt", "functions");
    for flag in ["--tools", "--history"] {
        let wrong = told(&place, &format!("{RUN} -p Hi {flag} f.txt"), 1);
        assert!(wrong.contains("f.txt: is no JSON: "), "{wrong}");
        assert!(wrong.contains("\nhint: name a file of JSON; "), "{wrong}");
    }
    let inline = told(&place, &format!("{RUN} -p Hi --tools []"), 1);
    assert!(
        inline.ends_with("hint: write the JSON to a file, and name that"),
        "{inline}"
    );
}

#[test]
fn a_role_and_a_budget_that_the_template_does_not_know_are_told() {
    let place = with_model();
    let talk = |role: &str| {
        place.write(
            "talk.json",
            format!(
                r#"[{{"role": "user", "content": "a"}}, {{"role": "{role}", "content": "b"}}]"#
            ),
        );
        told(
            &place,
            &format!("{RUN} -p Hi --history talk.json --chat-template chatml"),
            0,
        )
    };
    let note = "note: message 1 has the role \"bogus\", which the chat template does not name\n";
    assert!(talk("bogus").contains(note));
    assert!(!talk("assistant").contains("which the chat template does not name"));
    let budget = |template: &str| {
        place.write(
            "own.jinja",
            format!("{template}{{{{ messages[0].content }}}}"),
        );
        let flags = "-p Hi --reasoning-budget 3 --chat-template-file own.jinja";
        let shown = told(&place, &format!("{RUN} {flags}"), 0);
        shown.contains("note: the chat template shows no reasoning; --reasoning-budget counts only")
    };
    assert!(budget("") && !budget("<think></think>") && !budget("{#</think>#}"));
}

#[test]
fn a_saved_session_tells_how_much_of_it_is_used() {
    let place = with_model();
    let say = |prompt: &str| {
        let flags = format!("-no-cnv -p {prompt} --prompt-cache s.bin --prompt-cache-ro");
        told(&place, &format!("{RUN} {flags}"), 0)
    };
    let line = format!("{RUN} -no-cnv -p hello-hello --prompt-cache s.bin");
    let kept = told(&place, &line, 0);
    assert!(!kept.contains("tokens used"), "{kept}");
    let same = say("hello-hello");
    let loaded = same.split_once("saved session: ").expect("it is loaded").1;
    let n = loaded.split(' ').next().expect("a count");
    assert!(
        same.contains(&format!("saved session: {n} of {n} tokens used\n")),
        "{same}"
    );
    // The token at the beginning is the same for every text.
    let other = say("XYZ");
    let used = other
        .lines()
        .find(|line| line.ends_with("tokens used"))
        .expect("it is told");
    assert!(
        ["0", "1"].contains(&used.split(' ').nth(2).expect("a count")),
        "{other}"
    );
}

/// As in the reference, which ends behind a reverse prompt that it has shown.
#[test]
fn llama_completion_shows_a_reverse_prompt() {
    let place = with_model();
    let flags = "-no-cnv -p hello-hello -n 8 -t 1 --temp 0 --log-disable --no-display-prompt";
    let out = |program: &str, more: &[&str]| {
        let words: Vec<&str> = flags.split(' ').chain(more.iter().copied()).collect();
        let output = place
            .command(program)
            .args((program == "gristmill").then_some("run"))
            .args(["-m", "a.gguf"])
            .args(words)
            .output()
            .expect("it starts");
        String::from_utf8(output.stdout).expect("it is text")
    };
    let whole = out("gristmill", &[]);
    let stop: String = whole.trim_end().chars().skip(2).take(2).collect();
    assert_eq!(stop.chars().count(), 2, "{whole:?}");
    let at = whole.find(&stop).expect("it is a part");
    let own = out("gristmill", &["-r", &stop]);
    assert_eq!(own, format!("{}\n", &whole[..at]));
    let reference = out("llama-completion", &["--no-escape", "-r", &stop]);
    assert_eq!(reference, format!("{}\n", &whole[..at + stop.len()]));
}

#[test]
fn timings_count_every_token_and_probabilities_can_be_left_out() {
    let place = with_model();
    let json = |flags: &str| {
        let line = "gristmill run -m a.gguf -no-cnv -p Hi -t 1 --temp 0 --log-disable --json";
        let shown = told(&place, &format!("{line} {flags}"), 0);
        let (_, json) = shown.split_once("--- stdout\n").expect("it answers");
        let answer: serde_json::Value = serde_json::from_str(json).expect("it is JSON");
        answer
    };
    for n in [0, 1, 5] {
        let answer = json(&format!("-n {n} --ignore-eos"));
        assert_eq!(answer["timings"]["predicted_n"], n);
        let steps = answer["completion_probabilities"].as_array();
        assert_eq!(steps.map(Vec::len), Some(n));
    }
    let without = json("-n 2 --n-probs 0");
    assert!(without.get("completion_probabilities").is_none());
    assert_eq!(without["ids"], json("-n 2")["ids"]);
}
