use super::min_p::MIN_P;
use super::temperature::TEMPERATURE;
use super::top_k::TOP_K;
use super::top_p::TOP_P;
use super::*;

/// So many tokens without a text.
pub(super) struct Plain(pub(super) usize);

impl Vocabulary for Plain {
    fn n_tokens(&self) -> usize {
        self.0
    }

    fn piece(&self, _id: u32) -> &[u8] {
        &[]
    }

    fn encode(&self, _text: &[u8]) -> Vec<u32> {
        Vec::new()
    }
}

/// The ids that a stage leaves of these logits, under options that make it.
pub(super) fn kept(kind: &SamplerKind, options: &SamplingOptions, logits: &[f32]) -> Vec<u32> {
    let mut candidates = Candidates::default();
    candidates.fill(logits);
    let stage = (kind.build)(options, &Plain(logits.len()));
    let mut stage = stage.expect("the options do not turn it off");
    stage.apply(&mut candidates);
    let ids = candidates.items().iter().map(|candidate| candidate.id);
    ids.collect()
}

impl SamplingOptions {
    /// These with another number for a parameter, which takes it.
    pub(super) fn with(mut self, parameter: &Parameter, number: impl Into<f64>) -> Self {
        self.values.set(parameter, number.into()).unwrap();
        self
    }
}

fn chain(options: SamplingOptions) -> Chain {
    Chain::new(&options, &Plain(4)).unwrap()
}

/// The share of each id in many draws.
fn shares(options: SamplingOptions, logits: &[f32]) -> Vec<f64> {
    let mut chain = Chain::new(&options, &Plain(logits.len())).unwrap();
    let mut counts = vec![0.0; logits.len()];
    for _ in 0..20_000 {
        counts[chain.sample(logits).unwrap() as usize] += 1.0 / 20_000.0;
    }
    counts
}

fn neutral() -> SamplingOptions {
    let options = SamplingOptions {
        seed: 7,
        ..SamplingOptions::default()
    };
    options
        .with(&TEMPERATURE, 1.0)
        .with(&TOP_K, 0)
        .with(&TOP_P, 1.0)
        .with(&MIN_P, 0.0)
}

#[track_caller]
fn assert_shares(options: SamplingOptions, logits: &[f32], expected: &[f64]) {
    for (share, expected) in shares(options, logits).iter().zip(expected) {
        assert!(
            (share - expected).abs() < 0.015,
            "{share} is not {expected}"
        );
    }
}

#[test]
fn case_b64_greedy_takes_the_lowest_id_of_a_tie() {
    let orders = [default_order(), vec!["top_k"], vec![]];
    for (temperature, order) in [0.0, -1.0, 1e-30].into_iter().zip(orders) {
        for repeat_penalty in [1.0, 1.1] {
            let options = SamplingOptions {
                samplers: order.iter().map(|name| (*name).to_owned()).collect(),
                ..SamplingOptions::default()
            };
            let options = options
                .with(&TEMPERATURE, temperature)
                .with(&penalties::REPEAT, repeat_penalty);
            let mut chain = chain(options);
            assert!(chain.is_greedy());
            assert_eq!(
                chain.sample(&[1.0, 3.0, 3.0, 2.0]).unwrap(),
                1,
                "temperature {temperature}"
            );
        }
    }
    assert_eq!(best(&[-0.0, 0.0]).unwrap(), 0);
}

#[test]
fn case_b64_top_probabilities_are_the_models_own() {
    let top = top_log_probabilities(&[1.0, 3.0, 3.0, 2.0], 3);
    assert_eq!(
        top.iter().map(|token| token.id).collect::<Vec<_>>(),
        [1, 2, 3]
    );
    // e^3 / (e + 2 e^3 + e^2)
    assert!(
        (top[0].log_probability - -0.917_576).abs() < 1e-5,
        "{:?}",
        top[0]
    );
    assert_eq!(
        top[0].log_probability,
        log_probability(&[1.0, 3.0, 3.0, 2.0], 1)
    );
}

#[test]
fn case_b68_bad_logits_are_an_error_that_names_them() {
    for options in [SamplingOptions::greedy(), SamplingOptions::default()] {
        let mut chain = chain(options);
        let sample =
            |chain: &mut Chain, logits: &[f32]| chain.sample(logits).unwrap_err().to_string();
        assert!(sample(&mut chain, &[f32::NAN; 4]).contains("4 not a number"));
        assert!(
            sample(&mut chain, &[0.0, f32::INFINITY, 0.0, f32::NAN])
                .contains("1 not a number and 1 infinite")
        );
        assert!(sample(&mut chain, &[f32::NEG_INFINITY; 4]).contains("negative infinity"));
        assert_eq!(
            chain
                .sample(&[f32::NEG_INFINITY, f32::NEG_INFINITY, 0.0, f32::NEG_INFINITY])
                .unwrap(),
            2
        );
    }
    let bias = (0..4)
        .map(|id| LogitBias::of_token(id, f32::NEG_INFINITY))
        .collect();
    let mut forbidden = chain(SamplingOptions {
        logit_bias: bias,
        ..SamplingOptions::default()
    });
    assert!(matches!(
        forbidden.sample(&[0.0; 4]),
        Err(EngineError::NoCandidates)
    ));
}

#[test]
fn case_b72_a_seed_gives_the_same_tokens() {
    let run = |seed| {
        let mut chain = chain(SamplingOptions { seed, ..neutral() });
        (0..50)
            .map(|_| chain.sample(&[1.0, 1.1, 0.9, 1.0]).unwrap())
            .collect::<Vec<_>>()
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
    let fresh = chain(SamplingOptions {
        seed: RANDOM_SEED,
        ..neutral()
    });
    assert_ne!(fresh.seed(), RANDOM_SEED);
    assert_eq!(Rng::new(0).next_u64(), 5_987_356_902_031_041_503); // pins the generator
    // A stage has a sequence of its own.
    let first = |stage| Rng::of_stage(0, stage).next_u64();
    assert!(first("a") != first("b") && first("a") != Rng::new(0).next_u64());
}

#[test]
fn shares_follow_the_probabilities() {
    let logits = [0.1f32, 0.2, 0.3, 0.4].map(f32::ln);
    assert_shares(neutral(), &logits, &[0.1, 0.2, 0.3, 0.4]);
    // squares of the probabilities, normalized
    assert_shares(
        neutral().with(&TEMPERATURE, 0.5),
        &logits,
        &[0.0333, 0.1333, 0.3, 0.5333],
    );
    assert_shares(
        neutral().with(&TOP_K, 2),
        &logits,
        &[0.0, 0.0, 3.0 / 7.0, 4.0 / 7.0],
    );
    assert_shares(
        neutral().with(&TOP_P, 0.75),
        &logits,
        &[0.0, 2.0 / 9.0, 3.0 / 9.0, 4.0 / 9.0],
    );
    assert_shares(
        neutral().with(&MIN_P, 0.45),
        &logits,
        &[0.0, 2.0 / 9.0, 3.0 / 9.0, 4.0 / 9.0],
    );
}

#[test]
fn penalties_see_the_last_tokens() {
    let options = SamplingOptions::greedy()
        .with(&penalties::REPEAT, 2.0)
        .with(&penalties::LAST_N, 2);
    let mut chain = chain(options);
    let logits = [1.0, 3.0, 2.0, -1.0];
    assert_eq!(chain.sample(&logits).unwrap(), 1);
    chain.accept(1);
    assert_eq!(chain.sample(&logits).unwrap(), 2); // 1.5 against 2
    chain.accept(2);
    assert_eq!(chain.sample(&logits).unwrap(), 1); // 1.5, 1, 1
    chain.accept(3);
    assert_eq!(chain.sample(&logits).unwrap(), 1); // token 1 has left the window
}

#[test]
fn what_replaces_the_draw_stands_behind_the_others_or_alone() {
    // Surprises of 0.32 and 2.32 bits, which mirostat cuts at 2, top_k would not.
    let logits = [0.8f32, 0.2].map(f32::ln);
    let mirostat = neutral()
        .with(&mirostat::VERSION, 2)
        .with(&mirostat::ENTROPY, 1.0);
    assert_shares(mirostat.clone(), &logits, &[1.0, 0.0]);
    // The temperature comes before it, and flattens these to 0.67 and 0.33: 1.58 bits.
    let flat = mirostat.clone().with(&TEMPERATURE, 2.0);
    assert_shares(flat, &logits, &[0.667, 0.333]);
    // That is one number: a range around none is none.
    let none = mirostat.with(&TEMPERATURE, 0.0);
    assert!(chain(none.with(&temperature::RANGE, 0.5)).is_greedy());
    // First in the order, it still sees the one token that top_k leaves, and prefers none.
    let adaptive = SamplingOptions {
        samplers: ["adaptive_p", "top_k"].map(str::to_owned).into(),
        ..neutral()
    };
    let adaptive = adaptive.with(&adaptive_p::TARGET, 0.2);
    assert_shares(adaptive.clone().with(&TOP_K, 1), &logits, &[1.0, 0.0]);
    assert!(shares(adaptive.clone(), &logits)[1] > 0.9);
    // Greedy is greedy.
    let greedy = adaptive.with(&TEMPERATURE, 0.0).with(&TOP_K, 2);
    assert_shares(greedy, &logits, &[1.0, 0.0]);
}

#[test]
fn case_b64_what_changes_the_order_changes_the_best_token() {
    // 0.42, 0.38 and 0.2: of the two from 0.3 on the second stays, and is the best.
    let options = SamplingOptions::greedy()
        .with(&xtc::PROBABILITY, 1.0)
        .with(&xtc::THRESHOLD, 0.3);
    assert_shares(options, &[0.1, 0.0, -0.64], &[0.0, 1.0, 0.0]);
    // A dynamic temperature of 0 to 0 is none; of 0 to 0.5 it is one.
    for (range, is_greedy) in [(0.0, true), (-0.5, true), (0.5, false)] {
        let options = SamplingOptions::greedy().with(&temperature::RANGE, range);
        assert_eq!(chain(options).is_greedy(), is_greedy, "{range}");
    }
}

#[test]
fn selection_agrees_with_a_full_sort() {
    let mut rng = Rng::new(3);
    for n in [1, 2, 5, 100, 1000] {
        // few distinct values, so that ties are common
        let logits: Vec<f32> = (0..n).map(|_| (rng.next_u64() % 17) as f32).collect();
        let mut sorted: Vec<u32> = (0..n as u32).collect();
        sorted.sort_by(|&a, &b| {
            logits[b as usize]
                .total_cmp(&logits[a as usize])
                .then(a.cmp(&b))
        });
        for k in [1, 2, 3, 40, 99, 100, 2000] {
            let mut candidates = Candidates::default();
            candidates.fill(&logits);
            candidates.keep_best(k);
            let ids: Vec<u32> = candidates
                .items()
                .iter()
                .map(|candidate| candidate.id)
                .collect();
            assert_eq!(ids, sorted[..k.min(n)], "{k} of {n}");
        }
    }
}

#[test]
fn the_default_order_is_the_references() {
    let order = "penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature";
    assert_eq!(default_order().join(";"), order);
    let letters = DEFAULT_ORDER.iter().filter_map(|kind| kind.letter());
    assert_eq!(letters.collect::<String>(), "edskypmxt");
}

#[test]
fn names_are_understood_as_the_reference_writes_them() {
    let name = |name: &str| asked_sampler(name).ok().map(|kind| kind.name);
    for (canonical, others) in [
        ("top_k", ["top-k", "topk", "TOP_K"]),
        ("top_p", ["top-p", "topp", "nucleus"]),
        ("min_p", ["min-p", "minp", " min_p "]),
        ("temperature", ["temp", "Temperature", "TEMP"]),
        ("typ_p", ["typ", "typ-p", "TYPP"]),
    ] {
        assert_eq!(name(canonical), Some(canonical));
        for other in others {
            assert_eq!(name(other), Some(canonical), "{other}");
        }
    }
    for (kind, letter) in named() {
        assert_eq!(name(kind.name), Some(kind.name));
        assert_eq!(sampler_name(letter), Some(kind.name));
    }
    assert_eq!(name("mirostat"), None, "it comes by its parameter");
    for (known, letter) in MISSING {
        assert_eq!(sampler_name(*letter), Some(*known));
        let error = asked_sampler(known).err().expect("it cannot be had");
        let expected = format!("sampler '{known}' is not supported yet");
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn what_is_supported_and_what_is_not_is_told() {
    let text = supported_samplers();
    let (supported, rest) = text.split_once("; not supported yet are ").unwrap();
    for (kind, letter) in named() {
        let word = format!("{} ({letter})", kind.name);
        assert!(supported.contains(&word), "{text}");
    }
    for (name, letter) in MISSING {
        assert!(rest.contains(&format!("{name} ({letter})")), "{text}");
    }
}

#[test]
fn bad_options_are_refused() {
    let refusal = |options| {
        Chain::new(&options, &Plain(4))
            .err()
            .expect("it is refused")
            .to_string()
    };
    let samplers = vec!["frob".into()];
    assert_eq!(
        refusal(SamplingOptions {
            samplers,
            ..neutral()
        }),
        "there is no sampler 'frob'"
    );
    for bias in [(4, 1.0), (0, f32::NAN), (0, f32::INFINITY)] {
        refusal(SamplingOptions {
            logit_bias: vec![LogitBias::of_token(bias.0, bias.1)],
            ..neutral()
        });
    }
}

#[test]
fn a_parameter_is_found_by_name_and_takes_no_number_outside() {
    for parameter in parameters() {
        let spellings = parameter.aliases.iter().chain([&parameter.flag]);
        for spelling in spellings.flat_map(|flag| [(*flag).to_owned(), flag.replace('-', "_")]) {
            let found = super::parameter(&spelling).map(|found| found.flag);
            assert_eq!(found, Some(parameter.flag), "{spelling}");
        }
        let mut values = ParameterValues::default();
        assert!(values.set(parameter, f64::NAN).is_err());
        assert_eq!(values.get(parameter), None, "{}", parameter.flag);
    }
    assert!(parameter("frob").is_none() && parameter("").is_none());
    for penalty in [0.0, -1.0, 1e-39] {
        let error = neutral()
            .values
            .set(&penalties::REPEAT, penalty)
            .unwrap_err();
        let text = error.to_string();
        assert!(
            text.starts_with("sampling parameter repeat_penalty"),
            "{text}"
        );
        assert_eq!(error.hint().unwrap(), "give a number above 0; 1 is off");
    }
}

/// Asserts that no two are equal.
#[track_caller]
fn assert_distinct<T: Ord + std::fmt::Debug>(items: impl Iterator<Item = T>) {
    let mut items: Vec<T> = items.collect();
    items.sort();
    let twice = items.windows(2).find(|pair| pair[0] == pair[1]);
    assert_eq!(twice, None);
}

#[test]
fn names_letters_flags_and_keys_mean_one_thing() {
    let all = || {
        let own = named().map(|(kind, letter)| (kind.name, letter));
        own.chain(MISSING.iter().copied())
    };
    assert_distinct(all().map(|(name, _)| plain_name(name)));
    assert_distinct(all().map(|(_, letter)| letter));
    assert_distinct(parameters().flat_map(|parameter| {
        let aliases = parameter.aliases.iter().copied();
        aliases.chain([parameter.flag])
    }));
    assert_distinct(parameters().filter_map(|parameter| parameter.key));
}

#[test]
fn every_default_is_a_number_its_parameter_takes() {
    for parameter in parameters() {
        let default = parameter.default();
        assert_eq!(
            parameter.accept(default),
            Some(default),
            "{}",
            parameter.flag
        );
        for number in [f64::NAN, f64::INFINITY, -f64::INFINITY] {
            assert_eq!(parameter.accept(number), None, "{}", parameter.flag);
        }
    }
}

/// Options with every choice of these numbers that the parameters of a kind take.
fn choices(kind: &SamplerKind) -> Vec<SamplingOptions> {
    let mut choices = vec![neutral()];
    for parameter in kind.parameters {
        let numbers = [0.0, 0.5, 1.0, 2.0, -1.0];
        let numbers = numbers
            .into_iter()
            .filter(|&number| parameter.accept(number) == Some(number));
        let with = |number| {
            choices
                .iter()
                .map(move |options| options.clone().with(parameter, number))
        };
        choices = numbers.flat_map(with).collect();
    }
    choices
}

/// A stage that has seen some tokens.
fn seen(mut stage: Box<dyn Sampler>) -> Box<dyn Sampler> {
    [1, 1, 0].iter().for_each(|&id| stage.accept(id));
    stage
}

/// What a stage leaves of these logits, whose tokens are sorted before it or not.
fn left(stage: &mut dyn Sampler, logits: &[f32], sorted: bool) -> Candidates {
    let mut candidates = Candidates::default();
    candidates.fill(logits);
    if sorted {
        candidates.sort_best(logits.len());
    }
    stage.apply(&mut candidates);
    candidates
}

/// The law that a stage breaks, if it does.
fn broken_law(
    kind: &SamplerKind,
    options: &SamplingOptions,
    logits: &[f32],
) -> Option<&'static str> {
    let build = || (kind.build)(options, &Plain(logits.len()));
    let mut stage = seen(build()?);
    let is_allowed = |id: u32| logits[id as usize] > f32::NEG_INFINITY;
    let best = (0..logits.len() as u32)
        .rev()
        .max_by(|&a, &b| logits[a as usize].total_cmp(&logits[b as usize]));
    for sorted in [false, true] {
        let left = left(&mut *stage, logits, sorted);
        let is_possible = |candidate: &&Candidate| candidate.logit > f32::NEG_INFINITY;
        let mut possible: Vec<u32> = left
            .items()
            .iter()
            .filter(is_possible)
            .map(|candidate| candidate.id)
            .collect();
        possible.sort_unstable();
        if !possible.iter().all(|&id| is_allowed(id))
            || possible.windows(2).any(|pair| pair[0] == pair[1])
        {
            return Some("what was forbidden stays forbidden");
        }
        if possible.is_empty() {
            return Some("one token is left");
        }
        if left
            .items()
            .iter()
            .any(|candidate| candidate.logit.is_nan() || candidate.logit == f32::INFINITY)
        {
            return Some("logits are numbers");
        }
        if kind.keeps_best && left.best().map(|candidate| candidate.id) != best {
            return Some("the best token stays, of equal ones that with the lowest id");
        }
    }
    stage.reset();
    let [again, fresh] =
        [stage, build()?].map(|mut stage| left(&mut *stage, logits, false).items().to_vec());
    (again != fresh).then_some("a reset stage is as a fresh one")
}

/// Logits with a tie, with forbidden tokens, with both, below zero and of one token; one may always be chosen.
const TRIED: &[&[f32]] = &[
    &[1.0, 3.0, 3.0, 2.0],
    &[f32::NEG_INFINITY, 0.5, -2.0, f32::NEG_INFINITY, 0.25],
    &[2.0, f32::NEG_INFINITY, 2.0],
    &[-1.0, -9.0, -1.5],
    &[f32::NEG_INFINITY, -1.0, f32::NEG_INFINITY],
    &[0.5],
];

fn broken_laws(kind: &SamplerKind) -> Vec<&'static str> {
    let choices = choices(kind);
    let tries = choices
        .iter()
        .flat_map(|options| TRIED.iter().map(move |logits| (options, logits)));
    let mut broken: Vec<_> = tries
        .filter_map(|(options, logits)| broken_law(kind, options, logits))
        .collect();
    broken.sort_unstable();
    broken.dedup();
    broken
}

#[test]
fn every_stage_keeps_the_laws() {
    for kind in SAMPLERS {
        assert_eq!(broken_laws(kind), [""; 0], "{}", kind.name);
        let makes_a_stage = |options: &SamplingOptions| (kind.build)(options, &Plain(4)).is_some();
        assert!(
            choices(kind).iter().any(makes_a_stage),
            "{} is never tried",
            kind.name
        );
    }
}

/// A stage that breaks a law: it does this, told whether a token was accepted.
struct Planted(fn(&mut Candidates, bool), bool);

impl Sampler for Planted {
    fn apply(&mut self, candidates: &mut Candidates) {
        (self.0)(candidates, self.1);
    }

    fn accept(&mut self, _id: u32) {
        self.1 = true;
    }
}

#[test]
fn every_law_can_be_broken() {
    /// A kind that claims to keep the best token and never forgets what it accepted.
    macro_rules! broken {
        ($apply:expr) => {
            broken_laws(&SamplerKind {
                name: "planted",
                place: Place::Named('-'),
                help: "",
                keeps_best: true,
                parameters: &[],
                build: |_, _| Some(Box::new(Planted($apply, false))),
            })
        };
    }
    assert_eq!(broken!(|_, _| ()), [""; 0]);
    assert_eq!(
        broken!(|candidates, _| candidates.truncate(0)),
        ["one token is left"]
    );
    assert_eq!(
        broken!(|candidates, _| candidates.map_rising(|logit| logit.max(-20.0))),
        ["what was forbidden stays forbidden"]
    );
    assert_eq!(
        broken!(|candidates, _| candidates.map_rising(|logit| logit + f32::INFINITY)),
        ["logits are numbers"]
    );
    // The last of equal ones is kept in place of the first.
    assert_eq!(
        broken!(|candidates, _| {
            let best = candidates.best().unwrap().logit;
            let same = candidates
                .items()
                .iter()
                .filter(|candidate| candidate.logit == best);
            let last = same.map(|candidate| candidate.id).max();
            candidates.retain(|candidate| Some(candidate.id) == last);
        }),
        ["the best token stays, of equal ones that with the lowest id"]
    );
    assert_eq!(
        broken!(|candidates, seen| if seen {
            candidates.map_rising(|logit| logit - 1.0)
        }),
        ["a reset stage is as a fresh one"]
    );
}
