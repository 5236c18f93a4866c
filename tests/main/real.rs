//! Downloaded models; these tests are ignored unless asked for, since the models are not in the repository:
//! `GRISTMILL_REAL_MODELS=DIR cargo test --release --test main -- --ignored real`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gristmill_engine::sampling::SamplingOptions;
use gristmill_engine::{
    Arithmetic, GenerateOptions, Limit, Listener, LoadOptions, Model, Session, raw_prompt,
};

/// Where the reference's own two best log probabilities are closer than this, either id counts as right: both engines
/// round activations, each in its way, and the sums of that rounding reach this size.
const GAP: f64 = 0.5;

/// The ids before this one are reported on by themselves: what parts early parts for the rest.
const EARLY: usize = 24;

/// How many of the runs do, as measured: own arithmetic has the same bits on every machine, so more of them is a change for
/// the worse. In the reference's arithmetic none may.
const PARTED_EARLY: usize = 6;

/// A prompt and what the reference says (see `fixtures/real/README.md`).
#[derive(serde::Deserialize)]
pub struct Case {
    prompt: String,
    ids: Vec<u32>,
    gaps: Vec<f64>,
}

pub fn models() -> Vec<(PathBuf, Vec<Case>)> {
    let folder = std::env::var_os("GRISTMILL_REAL_MODELS")
        .expect("GRISTMILL_REAL_MODELS names the folder of models");
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/real");
    let names = ["SmolLM2-135M-Instruct.Q4_1", "gemma-3-270m-q4_k_m"];
    let read = |name: &str| {
        let text = std::fs::read_to_string(fixtures.join(format!("{name}.json")))
            .expect("the fixture can be read");
        let cases = serde_json::from_str(&text).expect("the fixture is valid");
        (Path::new(&folder).join(format!("{name}.gguf")), cases)
    };
    names.into_iter().map(read).collect()
}

/// What the model says greedily, with tokens per second of prompt and answer.
fn answer(model: &Arc<Model>, prompt: &str, n: usize) -> (Vec<u32>, f64, f64) {
    let options = LoadOptions {
        n_ctx: Some(256),
        ..Default::default()
    };
    let mut session = Session::new(model.clone(), &options).expect("a session can be made");
    let ids = raw_prompt(model.tokenizer(), prompt.as_bytes());
    let generate = GenerateOptions {
        limit: Limit::Tokens(n),
        sampling: SamplingOptions::greedy(),
        ..Default::default()
    };
    let mut listener = Listener {
        on_step: &mut |_| {},
        on_prompt: &mut |_, _| {},
        on_text: &mut |_| (),
        interrupted: &|| false,
    };
    let answer = session
        .generate(&ids, &generate, &mut listener)
        .expect("the model answers");
    (
        answer.ids,
        answer.timings.prompt_per_second(),
        answer.timings.decode_per_second(),
    )
}

#[test]
#[ignore = "needs the models that .ci/run downloads"]
fn real_models_agree_with_the_reference() {
    let (mut parted_early, mut n_runs) = (0, 0);
    for (path, cases) in models() {
        let file = gristmill_gguf::Model::open(&path).expect("the model can be opened");
        let model = Model::load(file, &LoadOptions::default()).expect("the model can be loaded");
        for case in cases {
            let (ids, prompt_rate, answer_rate) = answer(&model, &case.prompt, case.ids.len());
            let same = ids
                .iter()
                .zip(&case.ids)
                .take_while(|(ours, theirs)| ours == theirs)
                .count();
            n_runs += 1;
            println!(
                "{}: {same} of {} ids as the reference; prompt {prompt_rate:.1} t/s, answer {answer_rate:.1} t/s; {:?}",
                path.file_stem().unwrap_or_default().to_string_lossy(),
                case.ids.len(),
                case.prompt,
            );
            if same < case.ids.len() {
                assert!(
                    case.gaps[same] < GAP,
                    "parted at step {same}, where the gap is {}",
                    case.gaps[same]
                );
                parted_early += usize::from(same < EARLY);
            }
        }
    }
    println!("real models: {parted_early} of {n_runs} runs part before id {EARLY}");
    assert_eq!(n_runs, 10);
    assert!(parted_early <= PARTED_EARLY, "{parted_early}");
}

/// Only the model without windows: of the other, the reference's server computes the end of a prompt apart.
#[test]
#[ignore = "needs the models that .ci/run downloads"]
fn real_ids_are_those_of_the_reference_in_its_arithmetic() {
    let options = LoadOptions {
        n_threads: Some(2),
        arithmetic: Arithmetic::LlamaCpp,
        ..Default::default()
    };
    let (path, cases) = models().swap_remove(0);
    let file = gristmill_gguf::Model::open(&path).expect("the model can be opened");
    let model = Model::load(file, &options).expect("the model can be loaded");
    for case in cases {
        let (ids, prompt_rate, answer_rate) = answer(&model, &case.prompt, case.ids.len());
        println!(
            "prompt {prompt_rate:.1} t/s, answer {answer_rate:.1} t/s; {:?}",
            case.prompt
        );
        assert_eq!(ids, case.ids, "{:?}", case.prompt);
    }
}

#[test]
#[ignore = "needs the models that .ci/run downloads"]
fn real_models_are_sound() {
    use gristmill_measure::check::{Loads, Options, Severity, check};

    for (path, _) in models() {
        let options = Options {
            quick: false,
            checksums: None,
            n_threads: 2,
            progress: &|_| (),
        };
        let report = check(&path, &options).expect("nothing is given beside the model");
        for finding in &report.findings {
            println!("{}: {} {}", path.display(), finding.code, finding.text);
        }
        assert!(
            report.worst() <= Some(Severity::Note),
            "{:#?}",
            report.findings
        );
        assert_eq!(report.verdicts[0].loads, Loads::Yes);
    }
}
