//! `general.sampling.*`: what a model recommends counts where no flag is given.

use gristmill_engine::sampling::parameters;
use gristmill_gguf::Value;
use insta::assert_snapshot;

use crate::fixtures::{Change, changed, small_model};
use crate::harness::Workplace;

/// A folder with the small model, which recommends these values, as `a.gguf`.
fn recommending(entries: Vec<(&'static str, Value)>) -> Workplace {
    let place = Workplace::new();
    let change = Change {
        set: entries,
        ..Change::default()
    };
    changed(&small_model(), &place.path("a.gguf"), &change);
    place
}

/// The ids that follow a prompt under these flags.
fn ids(place: &Workplace, flags: &str) -> serde_json::Value {
    let line = "gristmill run -m a.gguf -no-cnv -p ROMEO: -n 60 --ignore-eos --output-format json --log-disable";
    let words: Vec<&str> = line.split(' ').chain(flags.split_whitespace()).collect();
    let output = place
        .command(words[0])
        .args(&words[1..])
        .output()
        .expect("the binary starts");
    assert!(output.status.success(), "{}", place.show(&output));
    let answer: serde_json::Value =
        serde_json::from_slice(&output.stdout).expect("the output is JSON");
    answer["ids"].clone()
}

#[test]
fn every_recommended_value_counts_and_a_flag_goes_before_it() {
    let plain = recommending(Vec::new());
    let greedy = ids(&plain, "--temp 0");
    let hot = ids(&plain, "--temp 5 --top-k 0 --top-p 1 --min-p 0 --seed 3");
    assert_ne!(greedy, hot, "at this seed the draws differ from the best");
    // Each of these alone leaves only the best token, whatever the seed.
    let cases: [(&str, Value, &str); 6] = [
        ("general.sampling.temp", 0.0f32.into(), "--temp 5"),
        ("general.sampling.temp", "0".into(), "--temp 5"),
        ("general.sampling.top_k", 1i32.into(), "--top-k 0"),
        ("general.sampling.top_p", 0.0f32.into(), "--top-p 1"),
        ("general.sampling.min_p", 1.0f32.into(), "--min-p 0"),
        (
            "general.sampling.sequence",
            "top_k".into(),
            "--samplers top_p;min_p;temperature",
        ),
    ];
    for (key, value, flag) in cases {
        let place = recommending(vec![(key, value)]);
        let open = "--temp 5 --top-k 0 --top-p 1 --min-p 0 --seed 3";
        // All flags but the one that the model speaks about; its order of stages leaves `top_k` alone.
        let others: Vec<&str> = open
            .split(" --")
            .filter(|other| !flag.contains(&other[..5]))
            .collect();
        let mut others = format!("--{}", others.join(" --")).replace("----", "--");
        if key.ends_with("sequence") {
            others = "--top-k 1 --seed 3".into();
        }
        assert_eq!(ids(&place, &others), greedy, "{key} under {others}");
        assert_ne!(
            ids(&place, &format!("{open} {flag}")),
            greedy,
            "{key} and {flag}"
        );
    }
}

#[test]
fn recommended_penalties_count() {
    let plain = recommending(Vec::new());
    let without = ids(&plain, "--temp 0");
    let with = ids(&plain, "--temp 0 --repeat-penalty 9");
    assert_ne!(without, with);
    let penalty = recommending(vec![("general.sampling.penalty_repeat", 9.0f32.into())]);
    assert_eq!(ids(&penalty, "--temp 0"), with);
    assert_eq!(ids(&penalty, "--temp 0 --repeat-penalty 1"), without);
    let length = recommending(vec![("general.sampling.penalty_last_n", 0i32.into())]);
    assert_eq!(ids(&length, "--temp 0 --repeat-penalty 9"), without);
    assert_eq!(
        ids(&length, "--temp 0 --repeat-penalty 9 --repeat-last-n 64"),
        with
    );
}

/// What stages do beyond what a value of theirs says is for the engine's tests; here each is told apart from none.
#[test]
fn every_stage_changes_the_answer_and_is_off_without_its_flag() {
    let plain = recommending(Vec::new());
    let draw = "--seed 3 --top-k 0 --top-p 1 --min-p 0";
    let drawn = ids(&plain, &format!("{draw} --temp 1"));
    let greedy = ids(&plain, "--temp 0");
    for flags in [
        "--temp 1 --top-nsigma 0.5",
        "--temp 1 --typical 0.2",
        "--temp 1 --xtc-probability 1 --xtc-threshold 0.05",
        "--temp 1 --dry-multiplier 5 --dry-allowed-length 0",
        "--temp 0.5 --dynatemp-range 2 --dynatemp-exp 0.5",
        "--temp 1 --mirostat 1 --mirostat-ent 1 --mirostat-lr 0.5",
        "--temp 1 --mirostat 2 --mirostat-ent 1 --mirostat-lr 0.5",
        "--temp 1 --sampler-seq at --adaptive-target 0.5 --adaptive-decay 0.5",
        "--temp 1 --logit-bias 199-inf",
    ] {
        assert_ne!(ids(&plain, &format!("{draw} {flags}")), drawn, "{flags}");
    }
    // The value that each stage turns off by, beside others of its flags.
    for flags in [
        "--top-nsigma 0",
        "--typical 1",
        "--xtc-probability 0 --xtc-threshold 0.01",
        "--xtc-probability 1 --xtc-threshold 0.6",
        "--dry-multiplier 0 --dry-base 9",
        "--dry-multiplier 9 --dry-penalty-last-n 0",
        "--dynatemp-range 0 --dynatemp-exp 5",
        "--mirostat 0 --mirostat-ent 1",
        "--adaptive-target 0.5",
    ] {
        assert_eq!(
            ids(&plain, &format!("{draw} --temp 1 {flags}")),
            drawn,
            "{flags}"
        );
    }
    // What repeats is the best token of each step, so that a breaker tells.
    let dry = "--temp 0 --dry-multiplier 9 --dry-allowed-length 1";
    let broken = format!("{dry} --dry-sequence-breaker none --dry-sequence-breaker e");
    assert_ne!(ids(&plain, dry), greedy);
    assert_ne!(ids(&plain, dry), ids(&plain, &broken));
    // A model recommends them too.
    let mirostat = recommending(vec![
        ("general.sampling.mirostat", 2i32.into()),
        ("general.sampling.mirostat_tau", 1f32.into()),
        ("general.sampling.mirostat_eta", 0.5f32.into()),
    ]);
    let asked = "--seed 3 --mirostat 2 --mirostat-ent 1 --mirostat-lr 0.5";
    assert_eq!(ids(&mirostat, "--seed 3"), ids(&plain, asked));
    let xtc = recommending(vec![
        ("general.sampling.xtc_probability", 1f32.into()),
        ("general.sampling.xtc_threshold", 0.05f32.into()),
    ]);
    let asked = "--temp 0 --xtc-probability 1 --xtc-threshold 0.05";
    assert_eq!(ids(&xtc, "--temp 0"), ids(&plain, asked));
    assert_ne!(ids(&xtc, "--temp 0"), greedy);
}

#[test]
fn a_recommendation_that_cannot_be_followed_is_said_and_left_out() {
    let cases: [(&str, Value, &str); 3] = [
        ("general.sampling.temp", f32::NAN.into(), "is NaN"),
        ("general.sampling.penalty_repeat", (-1.0f32).into(), "is -1"),
        (
            "general.sampling.sequence",
            "top_k\nerror: forged;temperature".into(),
            r#""top_k\nerror: forged""#,
        ),
    ];
    for (key, value, found) in cases {
        let place = recommending(vec![(key, value)]);
        let shown = place.run("gristmill run -m a.gguf -no-cnv -p ROMEO: -n 1 --seed 1");
        assert!(shown.starts_with("exit: 0"), "{shown}");
        let warning = format!("warning: metadata key `{key}`");
        let line = shown.lines().find(|line| line.starts_with(&warning));
        assert!(line.is_some_and(|line| line.contains(found)), "{shown}");
    }
}

#[test]
fn the_default_order_of_the_reference_is_understood() {
    let place = recommending(Vec::new());
    let greedy = ids(&place, "--temp 0");
    for flags in [
        "--temp 0 --sampler-seq edskypmxt",
        "--temp 0 --samplers penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature",
        "--temp 0 --samplers top_k;typ_p;temp",
    ] {
        assert_eq!(ids(&place, flags), greedy, "{flags}");
    }
}

#[test]
fn every_parameter_has_a_flag_that_takes_its_numbers_and_nothing_else() {
    let place = recommending(Vec::new());
    let plain = ids(&place, "--seed 3");
    for parameter in parameters() {
        let default = parameter.show(parameter.default());
        for flag in parameter.aliases.iter().chain([&parameter.flag]) {
            assert_eq!(
                ids(&place, &format!("--seed 3 --{flag} {default}")),
                plain,
                "--{flag}"
            );
            let shown = place.run(&format!("gristmill run -m a.gguf --{flag} x"));
            assert!(shown.starts_with("exit: 2"), "--{flag}: {shown}");
            assert!(shown.contains(&parameter.expected()), "--{flag}: {shown}");
        }
    }
}

#[test]
fn case_b71_every_form_of_a_logit_bias_counts() {
    let place = recommending(Vec::new());
    let greedy = ids(&place, "--temp 0");
    let first = greedy[0].as_u64().unwrap();
    let forbidden = ids(&place, &format!("--temp 0 -l {first}-inf"));
    assert_ne!(forbidden[0], greedy[0]);
    for form in [
        format!("{{\"{first}\":false}}"),
        format!("[[{first},false]]"),
    ] {
        assert_eq!(
            ids(&place, &format!("--temp 0 -l {form}")),
            forbidden,
            "{form}"
        );
    }
    // A text of several tokens: each of them is preferred.
    let text = ids(&place, r#"--temp 0 -l [["zq",100]] --repeat-penalty 9"#);
    let [z, q] = [0, 1].map(|index| text[index].as_u64().unwrap());
    let both = format!("--temp 0 -l {z}+100 -l {q}+100 --repeat-penalty 9");
    assert!(z != q && ids(&place, &both) == text, "{text}");
    let shown = place.run("gristmill run -m a.gguf -no-cnv -p A -n 1 -l 99999+1 --log-disable");
    assert_snapshot!(shown, @r"
    exit: 1
    --- stderr
    error: logit bias for token 99999, but the vocabulary has 1024 tokens
    hint: --logit-bias takes ids from 0 to 1023; `gristmill tokenize` shows those of a text
    ");
}

#[test]
fn temperature_0_takes_the_best_token_whatever_the_stages() {
    let place = recommending(Vec::new());
    let greedy = ids(&place, "--temp 0");
    for flags in [
        "--samplers top_k",
        "--samplers top_p;min_p",
        "--sampler-seq e",
    ] {
        assert_eq!(
            ids(&place, &format!("--temp 0 {flags} --seed 3")),
            greedy,
            "{flags}"
        );
        assert_ne!(
            ids(&place, &format!("--temp 5 {flags} --seed 3")),
            greedy,
            "{flags}"
        );
    }
}
