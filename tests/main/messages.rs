//! Messages: what they name, and that nobody's words in them look like ours.

use gristmill_gguf::Value;

use crate::fixtures::{Change, changed, small_model};
use crate::harness::{Workplace, tiny};

/// The small model with a change, as `a.gguf`.
fn with(change: Change) -> Workplace {
    let place = Workplace::new();
    changed(&small_model(), &place.path("a.gguf"), &change);
    place
}

fn with_entry(key: &'static str, value: impl Into<Value>) -> Workplace {
    with(Change {
        set: vec![(key, value.into())],
        ..Change::default()
    })
}

/// No line begins as a message of ours would.
fn assert_not_forged(shown: &str, case: &str) {
    let forged = ["error: forged", "hint: forged", "warning: forged"];
    assert!(shown.contains("forged"), "{case}\n{shown}");
    let line = shown
        .lines()
        .find(|line| forged.iter().any(|start| line.trim().starts_with(start)));
    assert!(line.is_none(), "{case}\n{shown}");
    assert!(
        !shown.contains(['\u{1b}', '\u{202e}', '\r']),
        "{case}\n{shown}"
    );
}

const FORGED: &str = "x\nerror: forged\r\nhint: forged\u{1b}[2J\u{202e}";

#[test]
fn words_of_the_command_line_forge_no_message() {
    let place = with(Change::default());
    let flag = format!("--{FORGED}");
    let raised = format!("{{{{ raise_exception('{FORGED}') }}}}");
    let samplers = format!("--samplers={FORGED}");
    let cases: &[&[&str]] = &[
        &["inspect", FORGED],
        &["run", FORGED],
        &["run", "-m", "a.gguf", "--temp", FORGED],
        &["run", "-m", "a.gguf", &samplers],
        &["run", "-m", "a.gguf", &flag],
        &["run", "-m", "a.gguf", "--reasoning", FORGED],
        &["run", "-m", "a.gguf", "-p", "x", "--chat-template", FORGED],
        &["run", "-m", "a.gguf", "-p", "x", "--chat-template", &raised],
        &["quantize", "a.gguf", "b.gguf", FORGED],
        &["convert", FORGED],
        &[FORGED],
    ];
    for words in cases {
        let words = [&["gristmill"], *words].concat();
        let shown = place.run_words(&words);
        assert!(!shown.starts_with("exit: 0"), "{words:?}\n{shown}");
        assert_not_forged(&shown, &words.join(" "));
    }
}

#[test]
fn words_of_a_file_forge_no_message() {
    for key in [
        "general.architecture",
        "general.name",
        "tokenizer.ggml.pre",
        "tokenizer.ggml.model",
        "tokenizer.chat_template",
    ] {
        // As a template it cannot be parsed, so that its words are in the error.
        let value = format!("{{{{ {FORGED}");
        let place = with_entry(key, value.as_str());
        let shown = place.run("gristmill run -m a.gguf -p x -st -n 1");
        if key != "tokenizer.chat_template" {
            assert_not_forged(&shown, key);
        }
    }
    let place = Workplace::new();
    for entry in std::fs::read_dir(tiny()).expect("it can be read").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let bytes = std::fs::read(entry.path()).expect("it can be read");
        place.write(&format!("source/{name}"), bytes);
    }
    let config = std::fs::read_to_string(place.path("source/config.json")).expect("it is there");
    let word = serde_json::Value::from(FORGED).to_string();
    place.write(
        "source/config.json",
        config.replace("\"LlamaForCausalLM\"", &word),
    );
    let shown = place.run("gristmill convert source --outfile b.gguf");
    assert_not_forged(&shown, "config.json");
}

#[test]
fn a_long_refusal_of_a_template_is_cut_with_what_is_left_out() {
    let place = with_entry(
        "tokenizer.chat_template",
        "{{ raise_exception('x' * 5000) }}",
    );
    let shown = place.run("gristmill run -m a.gguf -p Hi -st -n 1 --log-disable");
    let start = "error: a.gguf: the chat template refuses this conversation: ";
    let line = shown.lines().find(|line| line.starts_with(start));
    let words = line
        .and_then(|line| line.strip_prefix(start))
        .expect(&shown);
    assert_eq!(
        words,
        format!("{}… (4000 more characters)", "x".repeat(1000))
    );
}

#[test]
fn errors_of_a_template_name_where_it_comes_from() {
    let place = with_entry("tokenizer.chat_template", "a\n{% frob %}");
    place.write("t.jinja", "a\nb\n{{ nothing.at.all }}");
    for (flags, start) in [
        ("", "error: a.gguf: chat template, line 2: "),
        (
            " --chat-template-file t.jinja",
            "error: t.jinja: chat template, line 3: ",
        ),
        (
            " --chat-template {%frob%}",
            "error: --chat-template: chat template, line 1: ",
        ),
    ] {
        let shown = place.run(&format!(
            "gristmill run -m a.gguf -p Hi -st --log-disable{flags}"
        ));
        assert!(shown.starts_with("exit: 1"), "{flags}\n{shown}");
        assert!(shown.lines().any(|line| line.starts_with(start)), "{shown}");
        assert!(shown.contains("\nhint: "), "{shown}");
    }
}

#[test]
fn a_tensor_that_cannot_be_computed_with_is_named_with_the_file() {
    for (tensor, ty) in [
        ("blk.0.attn_q.weight", gristmill_quant::I16),
        ("token_embd.weight", gristmill_quant::I16),
        ("output_norm.weight", gristmill_quant::I32),
        ("blk.1.ffn_norm.weight", gristmill_quant::BF16),
    ] {
        let place = with(Change {
            retyped: Some((tensor, ty)),
            ..Change::default()
        });
        for line in [
            "gristmill run -m a.gguf -no-cnv -p x -n 1",
            "gristmill logits a.gguf --tokens 1 --output o.npy",
        ] {
            let shown = place.run(line);
            let named = format!("error: a.gguf: cannot load it: tensor `{tensor}` has type {ty}, ");
            assert!(
                shown.contains(&named) && shown.contains("\nhint: "),
                "{shown}"
            );
        }
    }
}

#[test]
fn a_scaling_that_divides_by_nothing_is_refused_by_key() {
    let place = with_entry("llama.rope.scaling.factor", 1e-45f32);
    let shown = place.run("gristmill run -m a.gguf -no-cnv -p x -n 1");
    let named = "error: a.gguf: cannot load it: metadata key `llama.rope.scaling.factor` is ";
    assert!(
        shown.contains(named) && shown.contains("\nhint: "),
        "{shown}"
    );
}

/// The first weight of a norm becomes NaN, so every logit does.
#[test]
fn logits_that_are_no_numbers_are_refused_and_not_written() {
    let place = with(Change {
        data: Some(("output_norm.weight", |data| {
            data[..4].copy_from_slice(&f32::NAN.to_le_bytes());
        })),
        ..Change::default()
    });
    insta::assert_snapshot!(place.run("gristmill logits a.gguf --tokens 1,2 --output o.npy"), @"
    exit: 1
    --- stderr
    error: a.gguf: position 0: the logit of token 0 is NaN
    hint: the weights are damaged or hold values out of range: `gristmill check FILE` names the tensors; or compare the file's hash with its source
    ");
    let shown = place.run("gristmill run -m a.gguf -no-cnv -p x -n 1 --log-disable");
    assert!(
        shown.contains("error: a.gguf: the model gave invalid logits: 1024 not a number"),
        "{shown}"
    );
    assert_eq!(place.files(), ["a.gguf"]);
}
