use gristmill_gguf::Metadata;

use super::*;
use crate::constraint::{ConstraintCompiler, ConstraintSource};
use crate::sampling::parameter;

pub(crate) const EOS: u32 = 2;
pub(crate) const FIRST_BYTE: u32 = 3;
pub(crate) const FIRST_PIECE: u32 = FIRST_BYTE + 256;

/// A SentencePiece vocabulary of control tokens, all bytes, and the pieces.
pub(crate) fn tokenizer(pieces: &[&str]) -> Arc<Tokenizer> {
    let bytes = (0..256).map(|byte| format!("<0x{byte:02X}>"));
    let controls = ["<unk>", "<s>", "</s>"].map(str::to_owned);
    let pieces = pieces.iter().map(|piece| piece.replace(' ', "\u{2581}"));
    let texts: Vec<String> = controls.into_iter().chain(bytes).chain(pieces).collect();
    let n = texts.len();
    let types: Vec<i32> = (0..n)
        .map(|id| match id {
            0 => 2,
            1..FIRST_BYTE_USIZE => 3,
            id if id < FIRST_PIECE as usize => 6,
            _ => 1,
        })
        .collect();
    let mut metadata = Metadata::new();
    metadata.set("tokenizer.ggml.model", "llama");
    metadata.set("tokenizer.ggml.tokens", texts);
    metadata.set("tokenizer.ggml.scores", vec![0f32; n]);
    metadata.set("tokenizer.ggml.token_type", types);
    Arc::new(Tokenizer::from_metadata(&metadata).unwrap())
}

const FIRST_BYTE_USIZE: usize = FIRST_BYTE as usize;

/// Says a script, whatever it is asked.
struct Script {
    ids: Vec<u32>,
    n_prompt: usize,
    n_ctx: usize,
    n_vocab: usize,
    logits: Vec<f32>,
    n_calls: usize,
}

impl Script {
    fn new(ids: &[u32], n_prompt: usize, n_ctx: usize, tokenizer: &Tokenizer) -> Self {
        let n_vocab = tokenizer.n_tokens();
        Script {
            ids: ids.to_vec(),
            n_prompt,
            n_ctx,
            n_vocab,
            logits: Vec::new(),
            n_calls: 0,
        }
    }
}

impl Predictor for Script {
    fn n_ctx(&self) -> usize {
        self.n_ctx
    }

    fn predict(
        &mut self,
        ids: &[u32],
        watch: &mut Watch<'_>,
    ) -> Result<Option<Prediction<'_>>, EngineError> {
        assert!(
            ids.len() <= self.n_ctx,
            "asked for more than the context holds"
        );
        self.n_calls += 1;
        for n_computed in [0, ids.len()] {
            watch(n_computed, ids.len());
        }
        self.logits = vec![0.0; self.n_vocab];
        let next = self
            .ids
            .get(ids.len() - self.n_prompt)
            .copied()
            .unwrap_or(EOS);
        self.logits[next as usize] = 9.0;
        Ok(Some(Prediction {
            logits: &self.logits,
            n_computed: 1,
        }))
    }
}

fn greedy(limit: Limit) -> GenerateOptions {
    GenerateOptions {
        limit,
        sampling: SamplingOptions::greedy(),
        ..GenerateOptions::default()
    }
}

/// Runs a script after a prompt of one token; checks that the stream is the text.
fn run(pieces: &[&str], ids: &[u32], options: &GenerateOptions) -> Answer {
    let tokenizer = tokenizer(pieces);
    let mut streamed = String::new();
    let mut listener = Listener {
        on_text: &mut |text| streamed.push_str(text),
        on_step: &mut |_| {},
        on_prompt: &mut |_, _| {},
        interrupted: &|| false,
    };
    let mut script = Script::new(ids, 1, 64, &tokenizer);
    let answer = generate(&mut script, &tokenizer, &[1], options, &mut listener).unwrap();
    assert_eq!(streamed, answer.text);
    answer
}

fn pieces(n: u32) -> Vec<u32> {
    (FIRST_PIECE..FIRST_PIECE + n).collect()
}

fn bytes(bytes: &[u8]) -> Vec<u32> {
    bytes
        .iter()
        .map(|&byte| FIRST_BYTE + u32::from(byte))
        .collect()
}

#[test]
fn case_b66_stop_strings_across_tokens() {
    let said = ["ab", "c\nUs", "er", ":x", " more"];
    let mut options = greedy(Limit::Context);
    options.stops = vec!["\nUser:".into()];
    let answer = run(&said, &pieces(5), &options);
    assert_eq!((answer.text.as_str(), answer.ids.len()), ("abc", 4));
    assert_eq!(answer.reason, StopReason::StopString("\nUser:".into()));
    // a partial match is held back and comes out at the end, whatever the end is
    for (limit, reason) in [
        (Limit::Tokens(3), StopReason::Limit),
        (Limit::Context, StopReason::EndOfGeneration(EOS)),
    ] {
        let answer = run(
            &said,
            &pieces(3),
            &GenerateOptions {
                limit,
                ..options.clone()
            },
        );
        assert_eq!((answer.text.as_str(), answer.reason), ("abc\nUser", reason));
    }
}

#[test]
fn case_b67_characters_come_out_whole() {
    let options = greedy(Limit::Context);
    let answer = run(&[], &bytes("😸 次".as_bytes()), &options);
    assert_eq!(answer.text, "😸 次");
    let answer = run(
        &[" \u{e9}"],
        &[FIRST_PIECE, FIRST_BYTE + 0xf0, FIRST_BYTE + 0x9f],
        &options,
    );
    assert_eq!(answer.text, " é\u{fffd}");
    let limited = GenerateOptions {
        limit: Limit::Tokens(2),
        ..options
    };
    let answer = run(&[], &bytes("😸".as_bytes()), &limited);
    assert_eq!(
        (answer.text.as_str(), answer.reason),
        ("\u{fffd}", StopReason::Limit)
    );
}

#[test]
fn case_b69_prompts_and_answers_larger_than_the_context() {
    let tokenizer = tokenizer(&["a"]);
    let ids = vec![FIRST_PIECE; 100];
    let run = |n_prompt: usize, limit| {
        let mut listener = Listener {
            on_text: &mut |_| {},
            on_step: &mut |_| {},
            on_prompt: &mut |_, _| {},
            interrupted: &|| false,
        };
        let mut script = Script::new(&ids, n_prompt, 64, &tokenizer);
        generate(
            &mut script,
            &tokenizer,
            &vec![5; n_prompt],
            &greedy(limit),
            &mut listener,
        )
    };
    let answer = run(63, Limit::Context).unwrap();
    assert_eq!(
        (answer.ids.len(), answer.reason),
        (1, StopReason::ContextFull)
    );
    let answer = run(60, Limit::Tokens(9)).unwrap();
    assert_eq!(
        (answer.ids.len(), answer.reason),
        (4, StopReason::ContextFull)
    );
    let answer = run(60, Limit::Tokens(4)).unwrap();
    assert_eq!((answer.ids.len(), answer.reason), (4, StopReason::Limit));
    for n in [64, 65, 1000] {
        let error = run(n, Limit::Context).unwrap_err().to_string();
        assert!(
            error.contains(&format!("{n} tokens")) && error.contains("64"),
            "{error}"
        );
    }
    assert!(run(64, Limit::Tokens(0)).unwrap().ids.is_empty());
    assert!(matches!(
        run(0, Limit::Context),
        Err(EngineError::EmptyPrompt)
    ));
}

#[test]
fn case_b73_limits_count_exactly() {
    for (n, expected) in [(0, 0), (1, 1), (2, 2), (-1, 4), (-2, 4)] {
        let limit = Limit::from_number(n).unwrap();
        let tokenizer = tokenizer(&["a", "b", "c"]);
        let mut listener = Listener {
            on_text: &mut |_| {},
            on_step: &mut |_| {},
            on_prompt: &mut |_, _| {},
            interrupted: &|| false,
        };
        let mut script = Script::new(&pieces(3), 1, 64, &tokenizer);
        let answer =
            generate(&mut script, &tokenizer, &[1], &greedy(limit), &mut listener).unwrap();
        assert_eq!(answer.ids.len(), expected, "limit {n}");
        // the last token is never computed
        assert_eq!(script.n_calls, expected.max(1), "limit {n}");
    }
    assert!(Limit::from_number(-3).is_err());
}

#[test]
fn case_b73_an_interrupt_stops_the_answer() {
    let tokenizer = tokenizer(&["a"]);
    let n = std::cell::Cell::new(0);
    let (mut text, mut computed) = (String::new(), Vec::new());
    let mut listener = Listener {
        on_text: &mut |piece| {
            text.push_str(piece);
            n.set(n.get() + 1);
        },
        // The answer's tokens are no part of the prompt.
        on_step: &mut |_| {},
        on_prompt: &mut |n_computed, n| computed.push((n_computed, n)),
        interrupted: &|| n.get() == 3,
    };
    let mut script = Script::new(&[FIRST_PIECE; 50], 1, 64, &tokenizer);
    let answer = generate(
        &mut script,
        &tokenizer,
        &[1],
        &greedy(Limit::Context),
        &mut listener,
    )
    .unwrap();
    assert_eq!(
        (answer.text.as_str(), answer.reason),
        ("aaa", StopReason::Interrupted)
    );
    assert_eq!(computed, [(0, 1), (1, 1)]);
}

/// Stops in the middle of a prompt.
struct Stopped;

impl Predictor for Stopped {
    fn n_ctx(&self) -> usize {
        64
    }

    fn predict(
        &mut self,
        ids: &[u32],
        watch: &mut Watch<'_>,
    ) -> Result<Option<Prediction<'_>>, EngineError> {
        watch(0, ids.len());
        watch(3, ids.len());
        // A drafter that has only begun.
        watch(0, ids.len());
        Ok(None)
    }
}

#[test]
fn what_an_interrupt_leaves_of_a_prompt_is_counted() {
    let tokenizer = tokenizer(&["a"]);
    let mut listener = Listener {
        on_text: &mut |_| {},
        on_step: &mut |_| {},
        on_prompt: &mut |_, _| {},
        interrupted: &|| true,
    };
    let options = greedy(Limit::Context);
    let answer = generate(&mut Stopped, &tokenizer, &[1; 9], &options, &mut listener).unwrap();
    assert_eq!(answer.reason, StopReason::Interrupted);
    assert_eq!((answer.timings.n_prompt, answer.timings.n_decoded), (3, 0));
}

#[test]
fn steps_are_told_as_they_come_and_by_the_side_asked_for() {
    let tokenizer = tokenizer(&["a", "b"]);
    let run = |post_sampling, sampling: SamplingOptions| {
        let mut told = Vec::new();
        let mut listener = Listener {
            on_text: &mut |_| {},
            on_step: &mut |step| told.push(step.clone()),
            on_prompt: &mut |_, _| {},
            interrupted: &|| false,
        };
        let options = GenerateOptions {
            n_probabilities: 2,
            post_sampling,
            sampling,
            ..greedy(Limit::Tokens(2))
        };
        let mut script = Script::new(&pieces(2), 1, 64, &tokenizer);
        let answer = generate(&mut script, &tokenizer, &[1], &options, &mut listener).unwrap();
        assert_eq!(answer.steps, told);
        told
    };
    let near = |found: f32, expected: f32| assert!((found - expected).abs() < 1e-4, "{found}");
    // One logit of 9 and 260 of 0: -ln(1 + 260 / e^9).
    let own = run(false, SamplingOptions::greedy());
    near(own[0].log_probability, -0.031_580);
    assert_eq!((own[0].top.len(), own[0].top[0].id), (2, FIRST_PIECE));
    let greedy = run(true, SamplingOptions::greedy());
    assert_eq!((greedy[1].log_probability, greedy[1].top.len()), (0.0, 1));
    // top_k leaves two, of which the temperature makes logits of 4.5 and 0: -ln(1 + e^-4.5).
    let mut two = SamplingOptions::default();
    for (name, number) in [
        ("top_k", 2.0),
        ("top_p", 1.0),
        ("min_p", 0.0),
        ("temp", 2.0),
    ] {
        two.values.set(parameter(name).unwrap(), number).unwrap();
    }
    for seed in 0..20 {
        let sampling = SamplingOptions {
            seed,
            ..two.clone()
        };
        let step = &run(true, sampling)[0];
        assert_eq!((step.top.len(), step.top[0].id), (2, FIRST_PIECE));
        near(step.top[0].log_probability, -0.011_048);
        near(step.top[1].log_probability, -4.511_048);
        let taken = step.top.iter().find(|token| token.id == step.id).unwrap();
        assert_eq!(step.log_probability, taken.log_probability);
    }
}

#[test]
fn case_b63_the_constraint_starts_behind_the_thinking() {
    let said = ["hm", "</think>", "{", "}", "</th", "ink>[", "ink> \n{"];
    let vocabulary = tokenizer(&said);
    let compiler = ConstraintCompiler::new(&vocabulary).unwrap();
    let object = ConstraintSource::JsonSchema(r#"{"type":"object"}"#.into());
    let options = GenerateOptions {
        constraint: Some(compiler.compile(&object).unwrap()),
        ..greedy(Limit::Tokens(9))
    };
    let think = GenerateOptions {
        constraint_after: Some(Thinking {
            start: None,
            end: "</think>".into(),
        }),
        ..options.clone()
    };
    let ids = |ids: &[u32]| ids.iter().map(|id| FIRST_PIECE + id).collect::<Vec<u32>>();
    // The end is not allowed before the thinking has one, nor anything but an object behind it.
    let answer = run(
        &said,
        &[
            FIRST_PIECE,
            EOS,
            FIRST_PIECE + 1,
            FIRST_PIECE,
            FIRST_PIECE + 3,
        ],
        &think,
    );
    assert_eq!(answer.ids[0], FIRST_PIECE);
    assert_ne!(answer.ids[1], EOS);
    assert_eq!(answer.text.matches("</think>").count(), 1);
    let (_, object) = answer.text.split_once("</think>").unwrap();
    assert!(object.starts_with('{'), "{}", answer.text);
    let answer = run(&said, &ids(&[0, 1, 2, 3]), &think);
    assert_eq!(answer.text, "hm</think>{}");
    assert_eq!(answer.reason, StopReason::ConstraintComplete);
    // A token across the marker's end keeps to the constraint too.
    let answer = run(&said, &ids(&[4, 6, 3]), &think);
    assert_eq!(answer.text, "</think> \n{}");
    let answer = run(&said, &ids(&[4, 5, 1, 3]), &think);
    assert!(!answer.text.contains('['), "{}", answer.text);
    // Without thinking it starts at once.
    let answer = run(&said, &ids(&[0, 3]), &options);
    assert_eq!(answer.text.chars().next(), Some('{'));
}

#[test]
fn case_b63_a_model_may_think_first_or_begin_the_form_at_once() {
    let said = ["<", "think>", "<think>hm", "hm", "</think>", "{", "}", "a"];
    let vocabulary = tokenizer(&said);
    let compiler = ConstraintCompiler::new(&vocabulary).unwrap();
    let options = |source| GenerateOptions {
        constraint: Some(compiler.compile(&source).unwrap()),
        constraint_after: Some(Thinking {
            start: Some("<think>".into()),
            end: "</think>".into(),
        }),
        ..greedy(Limit::Tokens(9))
    };
    let object = options(ConstraintSource::JsonSchema(r#"{"type":"object"}"#.into()));
    let ids = |ids: &[u32]| ids.iter().map(|id| FIRST_PIECE + id).collect::<Vec<u32>>();
    for (script, text) in [
        (&[5, 6][..], "{}"),
        (&[0, 1, 3, 4, 5, 6], "<think>hm</think>{}"),
        (&[2, 3, 4, 5, 6], "<think>hmhm</think>{}"),
        // What is neither the mark nor the form is not allowed, at the beginning and behind the mark.
        (&[3, 6], "<think>"),
        (&[2, 4, 3, 6], "<think>hm</think>{}"),
    ] {
        let answer = run(&said, &ids(script), &object);
        assert!(
            answer.text.starts_with(text.trim_end_matches('}')),
            "{script:?}: {}",
            answer.text
        );
        if script.ends_with(&[5, 6]) {
            assert_eq!(
                (answer.text.as_str(), &answer.reason),
                (text, &StopReason::ConstraintComplete)
            );
        }
    }
    // The end is not allowed inside the mark.
    let answer = run(&said, &[FIRST_PIECE, EOS], &object);
    assert!(answer.text.starts_with("<t"), "{}", answer.text);
    // As long as a text may be both, either way is open.
    let tag = options(ConstraintSource::Regex("<a>?".into()));
    assert!(run(&said, &ids(&[0, 7]), &tag).text.starts_with("<a"));
    assert_eq!(
        run(&said, &ids(&[0, 1, 3, 4, 0, 7]), &tag).text,
        "<think>hm</think><a"
    );
}

#[test]
fn a_constraint_ends_the_answer_and_forbidden_tokens_are_an_error() {
    let said = ["{", "}"];
    let vocabulary = tokenizer(&said);
    let compiler = ConstraintCompiler::new(&vocabulary).unwrap();
    let grammar = ConstraintSource::Gbnf("root ::= \"{\" \"}\"+".into());
    let options = GenerateOptions {
        constraint: Some(compiler.compile(&grammar).unwrap()),
        ..greedy(Limit::Tokens(4))
    };
    // The script's end comes at once, and is allowed behind the first brace that closes.
    let answer = run(&said, &[FIRST_PIECE], &options);
    assert_eq!(answer.text, "{}");
    assert_eq!(answer.reason, StopReason::EndOfGeneration(EOS));
    let endless = GenerateOptions {
        ignore_eos: true,
        ..options.clone()
    };
    assert_eq!(run(&said, &[FIRST_PIECE], &endless).text, "{}}}");
    // case_b68: the two spellings of a brace, as a piece and as a byte.
    let braces = [FIRST_PIECE, FIRST_BYTE + u32::from(b'{')];
    let mut forbidden = options.clone();
    forbidden.sampling.logit_bias = braces
        .map(|id| LogitBias::of_token(id, f32::NEG_INFINITY))
        .into();
    let mut script = Script::new(&[FIRST_PIECE], 1, 64, &vocabulary);
    let mut listener = Listener {
        on_text: &mut |_| {},
        on_step: &mut |_| {},
        on_prompt: &mut |_, _| {},
        interrupted: &|| false,
    };
    let error = generate(&mut script, &vocabulary, &[1], &forbidden, &mut listener).unwrap_err();
    assert!(
        matches!(error, EngineError::ConstraintForbidden { n_allowed: 2 }),
        "{error}"
    );
}

#[test]
fn ignoring_the_end_and_showing_it() {
    let options = greedy(Limit::Tokens(4));
    let answer = run(&["a"], &[FIRST_PIECE, EOS], &options);
    assert_eq!((answer.text.as_str(), answer.ids.len()), ("a", 2));
    let shown = GenerateOptions {
        special: true,
        ..options.clone()
    };
    assert_eq!(run(&["a"], &[FIRST_PIECE, EOS], &shown).text, "a</s>");
    let endless = GenerateOptions {
        ignore_eos: true,
        n_probabilities: 2,
        ..options
    };
    let answer = run(&["a"], &[FIRST_PIECE, EOS], &endless);
    assert_eq!((answer.ids.len(), answer.reason), (4, StopReason::Limit));
    // the probabilities are the model's own, which would have ended
    assert_eq!(answer.steps[1].top[0].id, EOS);
    assert_eq!(answer.ids[1], 0);
}
