//! Drafts: whatever they say, answers are the same.

use super::past::windowed;
use super::*;
use crate::constraint::{ConstraintCompiler, ConstraintSource};
use crate::sampling::{LogitBias, SamplingOptions, parameter};
use std::ops::Range;

/// Knows the answer, and tells some of it before something else.
struct Guesser {
    answer: Vec<u32>,
    n_prompt: usize,
    n_removed: usize,
    turn: usize,
}

impl Drafter for Guesser {
    fn draft(&mut self, ids: &[u32], n_max: usize) -> Result<Vec<u32>, EngineError> {
        self.turn += 1;
        let (n_right, n_wrong) = (self.turn * 5 % 7, self.turn % 3);
        let at = ids.len() + self.n_removed - self.n_prompt;
        let rest = self.answer.get(at..).unwrap_or(&[]).iter();
        let right = rest.clone().take(n_right).copied();
        let wrong = rest.skip(n_right).take(n_wrong).map(|id| id ^ 1);
        Ok(right.chain(wrong).take(n_max).collect())
    }

    fn remove(&mut self, positions: Range<usize>) -> Result<(), EngineError> {
        self.n_removed += positions.len();
        Ok(())
    }
}

/// What is left of an answer: itself, the tokens of the session, and its state.
type Left = (Answer, Vec<u32>, Vec<u8>);

fn answer(
    model: &Arc<Model>,
    load: &LoadOptions,
    prompt: &[u32],
    options: &GenerateOptions,
    drafters: Vec<Box<dyn Drafter>>,
) -> Left {
    let mut session = Session::new(model.clone(), load).unwrap();
    if !drafters.is_empty() {
        let speculation = Speculation::new(drafters);
        session.set_speculation(Some(speculation)).unwrap();
    }
    let mut listener = Listener {
        on_step: &mut |_| {},
        on_prompt: &mut |_, _| {},
        on_text: &mut |_| (),
        interrupted: &|| false,
    };
    let answer = session.generate(prompt, options, &mut listener).unwrap();
    let mut state = Vec::new();
    session.save(&mut state).unwrap();
    (answer, session.tokens().to_vec(), state)
}

/// Asserts that an answer with drafts is the one without, down to the bits that stay in the cache.
fn assert_same(name: &str, found: &Left, expected: &Left) {
    let ((found, tokens, state), (answer, all, bytes)) = (found, expected);
    assert_eq!(found.ids, answer.ids, "{name}");
    assert_eq!(found.steps, answer.steps, "{name}");
    let of = |answer: &Answer| (answer.text.clone(), answer.reason.clone(), answer.seed);
    assert_eq!(of(found), of(answer), "{name}");
    let n_computed = |answer: &Answer| (answer.timings.n_prompt, answer.timings.n_decoded);
    assert_eq!(n_computed(found), n_computed(answer), "{name}");
    assert_eq!(tokens, all, "{name}");
    assert!(state == bytes, "{name}: another state");
}

fn guessed(
    name: &str,
    model: &Arc<Model>,
    load: &LoadOptions,
    prompt: &[u32],
    options: &GenerateOptions,
) -> DraftCounts {
    let expected = answer(model, load, prompt, options, Vec::new());
    let guesser = Guesser {
        answer: expected.0.ids.clone(),
        n_prompt: prompt.len(),
        n_removed: 0,
        turn: 0,
    };
    let found = answer(model, load, prompt, options, vec![Box::new(guesser)]);
    assert_same(name, &found, &expected);
    found.0.timings.drafts.unwrap()
}

fn greedy(n: usize) -> GenerateOptions {
    GenerateOptions {
        limit: Limit::Tokens(n),
        sampling: SamplingOptions {
            seed: 11,
            ..SamplingOptions::greedy()
        },
        ignore_eos: true,
        n_probabilities: 3,
        ..GenerateOptions::default()
    }
}

/// Sampled with everything that looks back at the answer, from one seed.
fn sampled(n: usize) -> GenerateOptions {
    let mut sampling = SamplingOptions {
        seed: 12,
        logit_bias: vec![LogitBias::of_token(7, 2.0)],
        ..SamplingOptions::default()
    };
    for (name, number) in [
        ("repeat_penalty", 1.3),
        ("presence_penalty", 0.2),
        ("dry_multiplier", 0.8),
        ("temp", 1.5),
    ] {
        let parameter = parameter(name).unwrap();
        sampling.values.set(parameter, number).unwrap();
    }
    GenerateOptions {
        sampling,
        post_sampling: true,
        ..greedy(n)
    }
}

#[test]
fn drafts_change_no_answer_of_any_family() {
    let Some(checkpoints) = checkpoints() else {
        return;
    };
    let mut counts = DraftCounts::default();
    let quantized = CacheTypes {
        k: gristmill_quant::Q8_0,
        v: gristmill_quant::Q4_0,
    };
    let n_compared = checkpoints.len();
    for checkpoint in checkpoints {
        let model = load(&checkpoint.converted("f32"));
        let prompt = &checkpoint.token_ids[..20];
        let name = &checkpoint.name;
        for cache in [CacheTypes::F16, quantized] {
            if cache.check(&model.network().layer_shapes()).is_err() {
                continue;
            }
            let load = options(cache, 128, 16);
            counts += guessed(name, &model, &load, prompt, &greedy(60));
            counts += guessed(name, &model, &load, prompt, &sampled(60));
        }
        // Full, with a draft for each place; and shifted.
        let small = options(CacheTypes::F16, 48, 4);
        let full = GenerateOptions {
            limit: Limit::Context,
            ..greedy(0)
        };
        counts += guessed(name, &model, &small, prompt, &full);
        let shifted = GenerateOptions {
            context_shift: Some(Keep::Tokens(4)),
            ..greedy(70)
        };
        if model.hyperparameters().max_positions().is_none() {
            counts += guessed(name, &model, &small, prompt, &shifted);
        }
    }
    assert!(counts.n_accepted > 20 * n_compared, "{counts:?}");
    assert!(counts.n_accepted < counts.n_drafted, "{counts:?}");
    compared(n_compared, "models with drafts");
}

#[test]
fn drafts_change_no_answer_held_to_a_form_or_stopped() {
    let Some(folder) = golden("convert/qwen2") else {
        return;
    };
    let model = load(&folder.join("qwen2-f32.gguf"));
    let prompt = &fed_ids(&folder)[..20];
    let load = options(CacheTypes::F16, 256, 64);
    let (plain, ..) = answer(&model, &load, prompt, &sampled(40), Vec::new());
    let mut stopped = sampled(40);
    let cut = plain
        .text
        .char_indices()
        .nth(plain.text.chars().count() / 2);
    stopped.stops = vec![plain.text[cut.unwrap().0..].chars().take(3).collect()];
    let counts = guessed("stopped", &model, &load, prompt, &stopped);
    assert!(counts.n_accepted > 0, "{counts:?}");
    let compiler = ConstraintCompiler::new(model.tokenizer()).unwrap();
    let form = ConstraintSource::JsonSchema(
        r#"{"type":"array","items":{"type":"integer"},"minItems":4,"maxItems":9}"#.into(),
    );
    for options in [greedy(60), sampled(60)] {
        let held = GenerateOptions {
            constraint: Some(compiler.compile(&form).unwrap()),
            ignore_eos: false,
            ..options
        };
        let counts = guessed("held", &model, &load, prompt, &held);
        assert!(counts.n_accepted > 0, "{counts:?}");
    }
}

/// A window's pages are not lost by a draft that is taken back: nothing is computed twice, as the figures compared tell.
#[test]
fn drafts_change_no_answer_behind_windows() {
    for (name, model, ids) in windowed() {
        let load = options(CacheTypes::F16, 420, 16);
        let counts = guessed(&name, &model, &load, &ids[..ids.len() - 150], &greedy(140));
        assert!(counts.n_accepted > 50, "{name}: {counts:?}");
    }
}

/// What a model drafts token by token is taken back from behind its windows too.
#[test]
fn a_sequence_is_taken_back_as_far_as_asked_for() {
    let mut n_lost = 0;
    for (name, model, ids) in windowed() {
        for n_taken_back in [0, 60] {
            let load = LoadOptions {
                n_taken_back,
                ..options(CacheTypes::F16, ids.len() + 60, 16)
            };
            let mut context = Context::new(model.clone(), &load).unwrap();
            let token = |&id| BatchToken {
                id,
                sequence: SequenceId(0),
                output: false,
            };
            for end in (70..ids.len()).step_by(70) {
                let n_past = context.past().n_past(SequenceId(0));
                for id in ids[n_past..end].iter().chain(&[3; 60]) {
                    context.decode(&[token(id)]).unwrap();
                }
                let reached = context.past_mut().truncate(SequenceId(0), end);
                n_lost += usize::from(reached < end);
                assert!(
                    reached == end || n_taken_back == 0,
                    "{name}: {reached} of {end}"
                );
            }
        }
    }
    assert!(
        n_lost > 0 || windowed().is_empty(),
        "pages are lost unless asked for"
    );
}

#[test]
fn models_and_look_up_draft_what_comes_true() {
    let Some(folder) = golden("convert/llama") else {
        return;
    };
    let model = load(&folder.join("llama-f32.gguf"));
    let prompt = [
        fed_ids(&folder)[..20].to_vec(),
        fed_ids(&folder)[..20].to_vec(),
    ]
    .concat();
    let load_options = options(CacheTypes::F16, 160, 64);
    let expected = answer(&model, &load_options, &prompt, &greedy(90), Vec::new());
    let drafted = |drafters| {
        let found = answer(&model, &load_options, &prompt, &greedy(90), drafters);
        assert_same("drafted", &found, &expected);
        found.0.timings.drafts.unwrap()
    };
    let own = |model: &Arc<Model>, n_ctx, p_min| -> Box<dyn Drafter> {
        let load = options(CacheTypes::F16, n_ctx, 64);
        let options = DraftModelOptions {
            p_min,
            ..DraftModelOptions::default()
        };
        Box::new(DraftModel::new(model.clone(), &load, options).unwrap())
    };
    // Itself is always right, as long as its context lasts.
    let counts = drafted(vec![own(&model, 160, 0.0)]);
    assert!(
        counts.n_accepted >= counts.n_drafted - 3 && counts.n_drafts >= 22,
        "{counts:?}"
    );
    let short = drafted(vec![own(&model, 100, 0.0)]);
    assert!((1..counts.n_drafts).contains(&short.n_drafts), "{short:?}");
    assert_eq!(drafted(vec![own(&model, 160, 1.0)]).n_drafts, 0);
    let rough = load(&folder.join("llama-q8_0.gguf"));
    let counts = drafted(vec![own(&rough, 160, 0.0)]);
    assert!(
        (1..=counts.n_drafted).contains(&counts.n_accepted),
        "{counts:?}"
    );
    for rule in [
        LookupRule::Newest,
        LookupRule::NewestLearning,
        LookupRule::MostFrequent,
        LookupRule::TokenByToken,
    ] {
        let lookup = Lookup::new(LookupOptions {
            rule,
            n_key: 1,
            n_max: 2,
            n_min: 1,
            min_hits: 1,
        });
        // Where it has no idea, the model has.
        let counts = drafted(vec![Box::new(lookup), own(&rough, 160, 0.0)]);
        assert!(counts.n_drafts > 0, "{rule:?}: {counts:?}");
    }
}

#[test]
fn drafts_of_other_words_and_of_other_arithmetic_are_refused() {
    let (Some(qwen), Some(llama)) = (golden("convert/qwen2"), golden("convert/llama")) else {
        return;
    };
    let files = [qwen.join("qwen2-f32.gguf"), llama.join("llama-f32.gguf")];
    let [target, other] = files.each_ref().map(|path| load(path));
    let options = options(CacheTypes::F16, 64, 64);
    let drafter = DraftModel::new(other, &options, DraftModelOptions::default()).unwrap();
    let mut session = Session::new(target, &options).unwrap();
    let speculation = Speculation::new(vec![Box::new(drafter)]);
    let error = session.set_speculation(Some(speculation)).unwrap_err();
    let text = error.to_string();
    for path in &files {
        assert!(text.contains(&path.display().to_string()), "{text}");
    }
    assert!(error.hint().unwrap().contains("same family"));

    let exact = LoadOptions {
        arithmetic: Arithmetic::LlamaCpp,
        ..options
    };
    let model = Model::load(gguf::Model::open(&files[0]).unwrap(), &exact).unwrap();
    let mut session = Session::new(model, &exact).unwrap();
    let error = session.set_speculation(Some(Speculation::new(Vec::new())));
    assert!(matches!(error, Err(EngineError::DraftArithmetic)));
}
