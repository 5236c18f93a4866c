//! What a chat does with templates, reasoning, tools, saved conversations and typed lines: on the tiny model of the golden
//! data, whose random weights say anything.

use std::path::PathBuf;
use std::process::Output;

use serde_json::{Value, json};

use crate::harness::{Workplace, piped};

fn model() -> Option<PathBuf> {
    let folder = gristmill_golden::folder("convert/llama")?;
    folder.join("llama-f32.gguf").canonicalize().ok()
}

/// Runs `run` in a place on the model with these words and this standard input.
fn run_in(place: &Workplace, words: &[&str], input: &str) -> Option<Output> {
    let model = model()?;
    let mut command = place.command("gristmill");
    command.args(["run", "-m"]).arg(&model);
    command.args(["-t", "1", "-c", "512", "--temp", "0", "--ignore-eos"]);
    command.args(words);
    let (written, output) = piped(&mut command, input.as_bytes());
    // A prompt that is given leaves standard input unread.
    drop(written);
    Some(output)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The objects that a run prints, one per line.
fn objects(output: &Output) -> Vec<Value> {
    assert!(output.status.success(), "{}", text(&output.stderr));
    let shown = text(&output.stdout);
    let lines = shown
        .lines()
        .map(|line| serde_json::from_str(line).expect("each line is JSON"));
    lines.collect()
}

/// The indexes of the tokens that end the reasoning in an answer; all others have a probability.
fn forced(answer: &Value) -> Vec<usize> {
    let steps = answer["completion_probabilities"].as_array();
    let steps = steps.expect("a list");
    let ids: Vec<Value> = steps.iter().map(|step| step["id"].clone()).collect();
    assert_eq!(answer["ids"], Value::from(ids));
    let is_forced = |index: &usize| match &steps[*index]["logprob"] {
        Value::Null => steps[*index]["top_logprobs"] == json!([]),
        logprob => !logprob.is_f64(),
    };
    (0..steps.len()).filter(is_forced).collect()
}

/// A template that shows what it is given, and opens the reasoning.
const THINKS: &str = "{{ messages[-1].content }}<think>";

#[test]
fn case_b63_reasoning_is_told_apart_limited_or_left() {
    let place = Workplace::new();
    let answer = |words: &[&str]| {
        let all = [
            &["-p", "Hi", "-n", "10", "--json", "--chat-template", THINKS],
            words,
        ]
        .concat();
        Some(objects(&run_in(&place, &all, "")?).remove(0))
    };
    let Some(apart) = answer(&[]) else { return };
    assert_eq!(
        (
            &apart["content"],
            apart["ids"].as_array().expect("a list").len()
        ),
        (&json!(""), 10)
    );
    assert_eq!(
        apart["reasoning"].as_str().expect("a text").trim(),
        apart["text"].as_str().expect("a text").trim()
    );
    for words in [
        &["--reasoning-format", "none"][..],
        &["--skip-chat-parsing"],
    ] {
        let left = answer(words).expect("it ran before");
        assert_eq!(
            (&left["reasoning"], &left["content"]),
            (&json!(""), &apart["text"]),
            "{words:?}"
        );
    }
    let both = answer(&["--reasoning-format", "deepseek-legacy"]).expect("it ran before");
    assert_eq!(both["reasoning"], apart["reasoning"]);
    assert!(
        both["content"]
            .as_str()
            .expect("a text")
            .starts_with("<think>"),
        "{both}"
    );
    // three tokens of it, then the mark that ends it, and the answer for what is left of ten tokens
    let cut = answer(&[
        "--reasoning-budget",
        "3",
        "--reasoning-budget-message",
        " Stop.",
    ])
    .expect("it ran before");
    let whole = cut["text"].as_str().expect("a text");
    assert!(whole.contains(" Stop.</think>"), "{whole}");
    let first = |answer: &Value| answer["ids"].as_array().expect("a list")[..3].to_vec();
    assert_eq!(first(&cut), first(&apart));
    // Each token has its step; nothing was picked where the reasoning is ended.
    let n_ids = cut["ids"].as_array().expect("a list").len();
    assert_eq!(forced(&cut), Vec::from_iter(3..n_ids - 7));
    let none = answer(&["--reasoning-budget", "0", "-n", "20"]).expect("it ran before");
    assert_eq!(none["reasoning"], "");
    assert_ne!(none["content"], "");
}

/// What ends the reasoning stands behind what is left of it; where no place is left, the context is full.
#[test]
fn case_b63_a_reasoning_budget_holds_in_a_full_context() {
    let place = Workplace::new();
    let answer = |words: &str| {
        let fixed = ["-p", "Hi", "--json", "--chat-template", THINKS, "-c", "64"];
        let words: Vec<&str> = words.split(' ').collect();
        let output = run_in(&place, &[&fixed[..], &words].concat(), "")?;
        Some(objects(&output).remove(0))
    };
    let len = |answer: &Value, key: &str| answer[key].as_array().expect("a list").len();
    for shift in ["--context-shift", "--context-shift --keep -1"] {
        let words = format!("-n 200 --reasoning-budget 100 {shift}");
        let Some(shifted) = answer(&words) else {
            return;
        };
        let forced = forced(&shifted);
        assert_eq!(shifted["stop"], "length");
        assert_eq!(len(&shifted, "ids"), 200 + forced.len());
        assert_eq!(forced, Vec::from_iter(100..100 + forced.len()));
        let parts = (&shifted["reasoning"], &shifted["content"]);
        assert!(parts.0 != "" && parts.1 != "", "{shifted}");
    }
    let prompt = answer("-n 0").expect("it ran before");
    // One place is left, which is too few for a mark and what follows it.
    let n_budget = 63 - len(&prompt, "prompt_ids");
    let full = answer(&format!("-n 200 --reasoning-budget {n_budget}")).expect("it ran before");
    assert_eq!(full["stop"], "context");
    let n_forced = len(&full, "ids") - n_budget;
    assert_eq!(forced(&full), Vec::from_iter(n_budget..n_budget + n_forced));
    // A prompt that does not fit is still refused, also where nothing is thought.
    let words = [
        "-p",
        &"long ".repeat(80),
        "-c",
        "64",
        "--chat-template",
        THINKS,
    ];
    let none = [&words[..], &["--reasoning-budget", "0"]].concat();
    let refused = run_in(&place, &none, "").expect("it ran before");
    assert_eq!(refused.status.code(), Some(1));
    let told = text(&refused.stderr);
    assert!(told.contains("but the context holds 64"), "{told}");
}

/// `none` is no effort but the other name of `-rea off`, unless the template has no switch and may know the word.
#[test]
fn case_b63_no_effort_is_no_thinking() {
    let place = Workplace::new();
    let told = |template: &str, words: &[&str]| {
        let fixed = [
            "-p",
            "Hi",
            "-n",
            "1",
            "--verbose-prompt",
            "--chat-template",
            template,
        ];
        let none = ["--reasoning-effort", "none"];
        let output = run_in(&place, &[&fixed[..], &none, words].concat(), "")?;
        Some(text(&output.stderr))
    };
    let both = "{{ enable_thinking }}|{{ thinking }}|{{ reasoning_effort }}";
    let kwargs = ["--chat-template-kwargs", "{\"enable_thinking\": true}"];
    for words in [&[][..], &["-rea", "on"], &kwargs] {
        let Some(told) = told(both, words) else {
            return;
        };
        assert!(told.contains("prompt: \"False|False|\""), "{told}");
        assert!(!told.contains("changes nothing"), "{told}");
    }
    let effort = told("{{ reasoning_effort }}", &[]).expect("it ran before");
    assert!(effort.contains("prompt: \"none\""), "{effort}");
    let neither = told("chatml", &[]).expect("it ran before");
    let note =
        "note: the template has no switch for reasoning; --reasoning-effort none changes nothing";
    assert_eq!(neither.matches("changes nothing").count(), 1, "{neither}");
    assert!(neither.contains(note), "{neither}");
}

/// A line that does not fit is told and left out; those behind it are answered, and the exit code tells.
#[test]
fn a_pipe_goes_on_behind_a_message_that_does_not_fit() {
    let place = Workplace::new();
    let input = format!("One\n{}\nThree\n", "word ".repeat(200));
    let words = ["-c", "192", "-n", "3", "--chat-template", "chatml"];
    let kept = ["--history", "talk.json", "--log-disable"];
    let Some(output) = run_in(&place, &[&words[..], &kept].concat(), &input) else {
        return;
    };
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert_eq!(told.matches("error: ").count(), 1, "{told}");
    assert!(told.starts_with("error: message 2: "), "{told}");
    let kept = std::fs::read(place.path("talk.json")).expect("it is written");
    let kept: Value = serde_json::from_slice(&kept).expect("JSON");
    let asked = kept["messages"].as_array().expect("a list").iter();
    let asked = asked.filter(|message| message["role"] == "user");
    let asked: Vec<&Value> = asked.map(|message| &message["content"]).collect();
    assert_eq!(asked, ["One", "Three"]);
    // What no other message can mend ends the chat.
    let refuses = "{% if messages[-1].content == 'b' %}{{ raise_exception('no b') }}{% endif %}Q";
    let wrong = [
        "-n",
        "1",
        "--log-disable",
        "--json",
        "--chat-template",
        refuses,
    ];
    let ended = run_in(&place, &wrong, "a\nb\nc\n").expect("it ran before");
    assert_eq!(ended.status.code(), Some(1));
    assert_eq!(text(&ended.stdout).lines().count(), 1);
}

/// Standard output is for the answer alone where it is no terminal.
#[test]
fn reasoning_goes_to_standard_error_of_a_pipe() {
    let place = Workplace::new();
    let words = [
        "-p",
        "Hi",
        "-n",
        "12",
        "--reasoning-budget",
        "4",
        "--chat-template",
        THINKS,
    ];
    let Some(plain) = run_in(&place, &[&words[..], &["--no-show-timings"]].concat(), "") else {
        return;
    };
    let faint =
        run_in(&place, &[&words[..], &["--color", "on"]].concat(), "").expect("it ran before");
    let quiet = run_in(&place, &[&words[..], &["-lv", "1"]].concat(), "").expect("it ran before");
    let answer = text(&plain.stdout);
    assert_eq!(
        (text(&quiet.stdout), text(&quiet.stderr)),
        (answer.clone(), String::new())
    );
    let shown = text(&faint.stdout);
    let thought = shown
        .strip_prefix("\u{1b}[2m")
        .and_then(|shown| shown.split_once("\u{1b}[0m\n\n"));
    let (thought, said) = thought.expect("the reasoning is faint");
    assert_eq!(said, answer);
    assert!(
        text(&plain.stderr).contains(thought),
        "{}",
        text(&plain.stderr)
    );
    assert!(
        !text(&plain.stderr).contains("Generation:") && text(&faint.stderr).contains("Generation:")
    );
}

#[test]
fn templates_are_given_tools_and_switches() {
    let place = Workplace::new();
    let tool = json!([{"type": "function", "function": {"name": "get_weather", "parameters": {}}}]);
    place.write("tools.json", tool.to_string());
    let template = "{{ tools | tojson }}|{{ enable_thinking }}|{{ reasoning_effort }}|{{ preserve_reasoning }}|{{ x }}";
    let words = [
        "-p",
        "Hi",
        "-n",
        "1",
        "--verbose-prompt",
        "--chat-template",
        template,
        "--tools",
        "tools.json",
        "--reasoning",
        "off",
        "--reasoning-effort",
        "low",
        "--no-reasoning-preserve",
        "--chat-template-kwargs",
        "{\"x\": 5, \"enable_thinking\": true}",
    ];
    let Some(output) = run_in(&place, &words, "") else {
        return;
    };
    let expected = format!(
        "{}|False|low|False|5",
        tool.to_string()
            .replace("\":", "\": ")
            .replace(",\"", ", \"")
    );
    let told = text(&output.stderr);
    assert!(
        told.contains(&format!("prompt: {expected:?}")),
        "{told}\n{expected:?}"
    );
    assert!(
        told.contains("note: how this template has functions called is not known"),
        "{told}"
    );
    let unknown = [
        "-p",
        "Hi",
        "-n",
        "1",
        "--chat-template",
        "chatml",
        "--tools",
        "tools.json",
        "--reasoning",
        "on",
    ];
    let told = text(&run_in(&place, &unknown, "").expect("it ran before").stderr);
    assert!(
        told.contains("note: the chat template shows no tools")
            && told.contains("note: the template has no switch"),
        "{told}"
    );
    place.write("wrong.json", "{\"name\": \"f\"}");
    let wrong = run_in(&place, &["-p", "Hi", "--tools", "wrong.json"], "").expect("it ran before");
    assert!(
        text(&wrong.stderr).starts_with("error: wrong.json: is no list of tools\nhint: "),
        "{}",
        text(&wrong.stderr)
    );
    let quoted = run_in(
        &place,
        &[
            "-p",
            "Hi",
            "--chat-template-kwargs",
            "{\"enable_thinking\": \"false\"}",
        ],
        "",
    );
    let quoted = quoted.expect("it ran before");
    assert_eq!(quoted.status.code(), Some(2));
    assert!(text(&quoted.stderr).contains("enable_thinking must be true or false, without quotes"));
}

#[test]
fn a_conversation_is_kept_in_a_file() {
    let place = Workplace::new();
    let say = |words: &[&str]| {
        let all = [
            &[
                "-n",
                "3",
                "--json",
                "--history",
                "talk.json",
                "--chat-template",
                "chatml",
            ],
            words,
        ]
        .concat();
        run_in(&place, &all, "")
    };
    let Some(first) = say(&["-p", "One", "-sys", "Be brief."]) else {
        return;
    };
    let first = objects(&first).remove(0);
    let second = objects(&say(&["-p", "Two"]).expect("it ran before")).remove(0);
    let kept: Value =
        serde_json::from_slice(&std::fs::read(place.path("talk.json")).expect("it is written"))
            .expect("JSON");
    let expected = json!({"messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "One"},
        {"role": "assistant", "content": first["content"]},
        {"role": "user", "content": "Two"},
        {"role": "assistant", "content": second["content"]},
    ]});
    assert_eq!(kept, expected);
    let prompt = |answer: &Value| answer["prompt_ids"].as_array().expect("a list").len();
    assert!(prompt(&second) > prompt(&first));
    let calls = json!([{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{\"x\": 1}"}}]);
    let with_calls = json!([{"role": "user", "content": [{"type": "text", "text": "Q"}]}, {"role": "assistant", "content": null, "tool_calls": calls}]);
    place.write("talk.json", with_calls.to_string());
    let template = "{% for m in messages %}{{ m.content }};{% for c in m.tool_calls %}{{ c.function.arguments.x + 1 }}{% endfor %}{% endfor %}";
    let read =
        say(&["-p", "P", "--verbose-prompt", "--chat-template", template]).expect("it ran before");
    assert!(
        text(&read.stderr).contains("prompt: \"Q;;2P;\""),
        "{}",
        text(&read.stderr)
    );
    place.write("talk.json", "{\"messages\": [{\"content\": \"x\"}]}");
    let wrong = say(&["-p", "P"]).expect("it ran before");
    assert_eq!(
        text(&wrong.stderr),
        "error: talk.json: message 0: a message must have a `role`, which is text\n"
    );
}

/// What a file has beside roles and texts is still there behind an answer, to the letter.
#[test]
fn a_conversation_of_the_users_own_is_given_back_whole() {
    let place = Workplace::new();
    let first = r#"{"id": 12345678901234567890123, "content": [{"type": "text", "text": "\u0051", "cache": {"n": 1.10}}], "role": "user"}"#;
    let second = r#"{"role": "assistant", "content": null, "id": "b"}"#;
    let (before, after) = (
        "{\"title\": \"Mine\",\n \"messages\": ",
        ", \"tags\": [1,  2]}",
    );
    let say = |words: &[&str]| {
        let words = [
            &["-p", "P", "-n", "3", "--json", "--history", "talk.json"],
            words,
        ]
        .concat();
        run_in(&place, &words, "")
    };
    for (before, after) in [(before, after), ("", "\n")] {
        place.write("talk.json", format!("{before}[{first},{second}]{after}"));
        let Some(answer) = say(&["--chat-template", "chatml"]) else {
            return;
        };
        let answer = objects(&answer).remove(0);
        let pretty = |role, text: &Value| {
            format!("{{\n      \"role\": \"{role}\",\n      \"content\": {text}\n    }}")
        };
        let messages = [
            first.to_owned(),
            second.to_owned(),
            pretty("user", &json!("P")),
            pretty("assistant", &answer["content"]),
        ];
        let expected = format!("{before}[\n    {}\n  ]{after}", messages.join(",\n    "));
        let kept = std::fs::read_to_string(place.path("talk.json")).expect("it is there");
        assert_eq!(kept, expected);
        // Other instructions take the place of those that it has, and nothing else goes.
        say(&["--chat-template", "chatml", "-sys", "Be brief."]).expect("it ran before");
        let kept = std::fs::read_to_string(place.path("talk.json")).expect("it is there");
        let rest = format!(",\n    {}", messages.join(",\n    "));
        assert!(kept.contains(&rest) && kept.ends_with(after), "{kept}");
        assert!(
            kept.starts_with(before) && kept.contains("Be brief."),
            "{kept}"
        );
    }
}

/// What is typed stands between the frames, and each turn goes on behind all that was said.
#[test]
fn typed_lines_go_on_by_turns_without_a_template() {
    let place = Workplace::new();
    let words = [
        "-no-cnv",
        "-p",
        "Once",
        "-n",
        "2",
        "--json",
        "-i",
        "-e",
        "--in-prefix",
        "\\nQ: ",
        "--in-suffix",
        "\\nA:",
    ];
    let Some(output) = run_in(&place, &words, "a\\n\nb\n") else {
        return;
    };
    let answers = objects(&output);
    let ids = |answer: &Value, key: &str| answer[key].as_array().expect("a list").clone();
    assert_eq!(answers.len(), 3);
    for pair in answers.windows(2) {
        let before = [ids(&pair[0], "prompt_ids"), ids(&pair[0], "ids")].concat();
        assert_eq!(ids(&pair[1], "prompt_ids")[..before.len()], before[..]);
    }
    // typed text is never unescaped: it is as many bytes longer as it has
    let typed = |input: &str| {
        let answers = objects(&run_in(&place, &words, input).expect("it ran before"));
        ids(&answers[1], "prompt_ids")
    };
    assert_ne!(typed("a\\n\n"), typed("a\n"));
    let first = ["-no-cnv", "-n", "2", "--json", "-if", "--in-prefix-bos"];
    let answers = objects(&run_in(&place, &first, "Hi\n").expect("it ran before"));
    assert_eq!(answers.len(), 1);
}

/// With `-mli` a line that ends with a backslash ends the message; a pipe is otherwise taken line by line, backslashes and all.
#[test]
fn several_lines_make_one_message() {
    let place = Workplace::new();
    let n = |words: &[&str]| {
        let all = [&["-n", "1", "--json", "--chat-template", "chatml"], words].concat();
        Some(objects(&run_in(&place, &all, "a\nb\\\nc\n")?).len())
    };
    let Some(lines) = n(&[]) else { return };
    assert_eq!(
        (lines, n(&["-mli"]), n(&["-st"]), n(&["--simple-io"])),
        (3, Some(2), Some(1), Some(3))
    );
}

#[test]
fn answers_and_messages_go_to_files_too() {
    let place = Workplace::new();
    let words = [
        "-p",
        "Hi",
        "-n",
        "4",
        "-o",
        "answer.txt",
        "--log-file",
        "log.txt",
        "--chat-template",
        "chatml",
    ];
    let Some(output) = run_in(&place, &words, "") else {
        return;
    };
    let read = |name| std::fs::read_to_string(place.path(name)).expect("it is written");
    assert_eq!(read("answer.txt"), text(&output.stdout));
    assert_eq!(read("log.txt"), text(&output.stderr));
    let again = run_in(&place, &words, "").expect("it ran before");
    assert!(
        text(&again.stderr).contains("answer.txt: already exists"),
        "{}",
        text(&again.stderr)
    );
}

/// A file may hold a template of its own for tools.
#[test]
fn the_template_for_tools_is_taken_where_there_are_tools() {
    let Some(model) = model() else { return };
    let place = Workplace::new();
    std::fs::copy(model, place.path("a.gguf")).expect("the model can be copied");
    let set = "tokenizer.chat_template.tool_use=str:FOR TOOLS {{ tools is none }}";
    let edit = [
        "gristmill",
        "edit",
        "a.gguf",
        "--set",
        set,
        "--output",
        "b.gguf",
    ];
    let edited = place.run_words(&edit);
    assert!(edited.starts_with("exit: 0"), "{edited}");
    place.write("tools.json", "[{\"name\": \"f\"}]");
    let run = |words: &[&str]| {
        let fixed = [
            "gristmill",
            "run",
            "b.gguf",
            "-c",
            "256",
            "-n",
            "1",
            "-p",
            "Hi",
            "--verbose-prompt",
        ];
        place.run_words(&[&fixed[..], words].concat())
    };
    assert!(run(&["--tools", "tools.json"]).contains("prompt: \"FOR TOOLS False\""));
    assert!(run(&["--chat-template", "tool_use"]).contains("prompt: \"FOR TOOLS True\""));
    assert!(!run(&[]).contains("FOR TOOLS"));
}
