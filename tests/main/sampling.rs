//! `general.sampling.*`: what a model recommends counts where no flag is given.

use gristmill_engine::sampling::parameters;
use gristmill_gguf::Value;

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
