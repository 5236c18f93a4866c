//! From logits to one token id.
//!
//! Stages run in the order of the reference, [`default_order`], unless another one is asked for; then one draw.
//! The order matters: the cuts see the logits before the temperature, so that `min_p` means the same at
//! every temperature. Each stage is one file, which declares its parameters, and one line in [`SAMPLERS`].
//!
//! Ties are decided by the lowest id everywhere. A temperature of zero or below takes the best token and draws nothing,
//! also where the order asked for has no temperature; stages that keep the best token are left out of a greedy chain.

mod adaptive_p;
mod candidates;
mod defaults;
mod draw;
mod dry;
mod greedy;
mod log_probabilities;
mod logit_bias;
mod min_p;
mod mirostat;
mod parameter;
mod penalties;
mod temperature;
mod top_k;
mod top_n_sigma;
mod top_p;
mod typical;
mod vocabulary;
mod xtc;

pub use candidates::{Candidate, Candidates};
pub use defaults::{ModelSampling, SamplingWishes};
pub use draw::Rng;
pub use greedy::best;
pub use log_probabilities::{TokenProbability, log_probability, top_log_probabilities};
pub use logit_bias::{BiasedTokens, LogitBias};
pub use parameter::{Domain, Parameter, ParameterValues, parameter, parameters};
pub use vocabulary::Vocabulary;

use crate::error::EngineError;

/// The seed value that asks for a fresh random seed, as on the reference's command line (-1).
pub const RANDOM_SEED: u32 = u32::MAX;

/// Temperatures below this are greedy: dividing by them overflows and no other token can be drawn.
pub const TEMPERATURE_MIN: f32 = 1e-6;

/// What to sample with; the defaults are the reference's.
#[derive(Clone, Debug)]
pub struct SamplingOptions {
    /// Seed of the draws; [`RANDOM_SEED`] takes a fresh one, which [`Chain::seed`] reports.
    pub seed: u32,
    /// Numbers of the stages' parameters; those that are not there have their defaults.
    pub values: ParameterValues,
    /// Added to the logits before all stages.
    pub logit_bias: Vec<LogitBias>,
    /// Stage names in order, from [`SAMPLERS`].
    pub samplers: Vec<String>,
    /// Texts behind which no repetition goes on, for the stage `dry`.
    pub sequence_breakers: Vec<Vec<u8>>,
}

impl Default for SamplingOptions {
    fn default() -> Self {
        SamplingOptions {
            seed: RANDOM_SEED,
            values: ParameterValues::default(),
            logit_bias: Vec::new(),
            samplers: default_order().into_iter().map(str::to_owned).collect(),
            sequence_breakers: ["\n", ":", "\"", "*"].map(|text| text.into()).into(),
        }
    }
}

impl SamplingOptions {
    /// The best token at every step.
    pub fn greedy() -> Self {
        let mut options = SamplingOptions::default();
        options.values.put(&temperature::TEMPERATURE, 0.0);
        options
    }

    /// The number of a parameter.
    pub fn float(&self, parameter: &Parameter) -> f32 {
        self.number(parameter) as f32
    }

    /// The number of a parameter that takes whole numbers.
    pub fn whole(&self, parameter: &Parameter) -> i32 {
        self.number(parameter) as i32
    }

    fn number(&self, parameter: &Parameter) -> f64 {
        self.values.get(parameter).unwrap_or(parameter.default())
    }
}

/// One stage of the chain.
pub trait Sampler: Send {
    /// Changes or removes candidates; leaves at least one.
    fn apply(&mut self, candidates: &mut Candidates);
    /// Takes note of a token of the sequence.
    fn accept(&mut self, _id: u32) {}
    /// Forgets the sequence.
    fn reset(&mut self) {}
}

/// Where a stage stands in a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Where its name stands in `--samplers`, or this letter in `--sampler-seq`.
    Named(char),
    /// Behind all others where it is named so: it decides what the draw sees, and a greedy chain has no draw.
    Last(char),
    /// Behind the temperature and in place of all others, as soon as its parameters switch it on; it cannot be named.
    Alone,
}

/// A stage.
pub struct SamplerKind {
    /// Name in `--samplers`.
    pub name: &'static str,
    /// Where it stands.
    pub place: Place,
    /// What the stage does, for help texts.
    pub help: &'static str,
    /// Whether the best token always survives with its rank, so that greedy chains can do without it.
    pub keeps_best: bool,
    /// The numbers that steer it.
    pub parameters: &'static [&'static Parameter],
    /// Makes the stage, or nothing when the options turn it off.
    pub build: fn(&SamplingOptions, &dyn Vocabulary) -> Option<Box<dyn Sampler>>,
}

impl SamplerKind {
    /// Its letter in `--sampler-seq`; none for one that cannot be named.
    pub fn letter(&self) -> Option<char> {
        match self.place {
            Place::Named(letter) | Place::Last(letter) => Some(letter),
            Place::Alone => None,
        }
    }
}

/// Every stage, in the order of help texts.
pub static SAMPLERS: &[&SamplerKind] = &[
    &top_k::KIND,
    &top_p::KIND,
    &min_p::KIND,
    &temperature::KIND,
    &top_n_sigma::KIND,
    &typical::KIND,
    &xtc::KIND,
    &penalties::KIND,
    &dry::KIND,
    &mirostat::KIND,
    &adaptive_p::KIND,
];

/// Those that can be named, with their letters.
fn named() -> impl Iterator<Item = (&'static SamplerKind, char)> {
    let kinds = SAMPLERS.iter().copied();
    kinds.filter_map(|kind| Some((kind, kind.letter()?)))
}

/// The stages in the reference's default order.
const DEFAULT_ORDER: &[&SamplerKind] = &[
    &penalties::KIND,
    &dry::KIND,
    &top_n_sigma::KIND,
    &top_k::KIND,
    &typical::KIND,
    &top_p::KIND,
    &min_p::KIND,
    &xtc::KIND,
    &temperature::KIND,
];

/// The reference's stages that cannot be had here, by name and letter.
const MISSING: &[(&str, char)] = &[("infill", 'i')];

/// The stages that run when none is asked for, in order.
pub fn default_order() -> Vec<&'static str> {
    DEFAULT_ORDER.iter().map(|kind| kind.name).collect()
}

/// The name of the stage with this letter, here or in the reference.
pub fn sampler_name(letter: char) -> Option<&'static str> {
    let kinds = named().map(|(kind, letter)| (kind.name, letter));
    let mut known = kinds.chain(MISSING.iter().copied());
    known
        .find(|(_, known)| *known == letter)
        .map(|(name, _)| name)
}

/// What there is and what there is not yet, for messages: names and letters, as in "supported are top_k (k), …".
pub fn supported_samplers() -> String {
    let list = |mut stages: Vec<(&str, char)>| {
        stages.sort_unstable();
        let words = stages
            .iter()
            .map(|(name, letter)| format!("{name} ({letter})"));
        words.collect::<Vec<_>>().join(", ")
    };
    let supported = list(named().map(|(kind, letter)| (kind.name, letter)).collect());
    let missing = list(MISSING.to_vec());
    format!("supported are {supported}; not supported yet are {missing}")
}

/// Finds a stage by its name; letter case, `-` and `_` do not count.
pub fn sampler(name: &str) -> Option<&'static SamplerKind> {
    let name = plain_name(name);
    let mut kinds = named().map(|(kind, _)| kind);
    kinds.find(|kind| plain_name(kind.name) == name)
}

/// The stage that a name asks for.
///
/// # Errors
/// A name that the reference does not have either, or one of a stage that only the reference has.
pub fn asked_sampler(name: &str) -> Result<&'static SamplerKind, EngineError> {
    let plain = plain_name(name);
    sampler(name).ok_or_else(|| {
        let name = name.trim().to_owned();
        match MISSING.iter().any(|(known, _)| plain_name(known) == plain) {
            true => EngineError::UnsupportedSampler { name },
            false => EngineError::UnknownSampler { name },
        }
    })
}

/// A name as it is compared: the reference takes `top_k`, `top-k` and `topk`, and short names for some.
fn plain_name(name: &str) -> String {
    let plain = name.trim().to_ascii_lowercase().replace(['-', '_'], "");
    match plain.as_str() {
        "nucleus" => "topp".into(),
        "temp" => "temperature".into(),
        "typ" => "typp".into(),
        _ => plain,
    }
}

/// The stages in order, and the draw at their end.
pub struct Chain {
    bias: Vec<(u32, f32)>,
    stages: Vec<Box<dyn Sampler>>,
    candidates: Candidates,
    rng: Rng,
    seed: u32,
    greedy: bool,
}

impl Chain {
    /// Builds the chain for the tokens of a vocabulary.
    ///
    /// Errors: an unknown stage name, a bias that is not a number or for an id outside the vocabulary.
    pub fn new(
        options: &SamplingOptions,
        vocabulary: &dyn Vocabulary,
    ) -> Result<Self, EngineError> {
        let bias = bias(options, vocabulary)?;
        // Chosen first: a stage that draws begins with the seed that is told.
        let seed = match options.seed {
            RANDOM_SEED => draw::fresh_seed(),
            seed => seed,
        };
        let options = SamplingOptions {
            seed,
            ..options.clone()
        };
        let (stages, greedy) = stages(options, vocabulary)?;
        Ok(Chain {
            bias,
            stages,
            candidates: Candidates::default(),
            rng: Rng::new(seed),
            seed,
            greedy,
        })
    }

    /// The seed in use, also where a fresh one was asked for.
    pub fn seed(&self) -> u32 {
        self.seed
    }

    /// Whether the chain takes the best token at every step.
    pub fn is_greedy(&self) -> bool {
        self.greedy
    }

    /// Picks a token from the logits (`[n_vocab]`) and does not accept it yet.
    ///
    /// Errors: a logit that is not a number or positive infinity, or no token left to choose.
    pub fn sample(&mut self, logits: &[f32]) -> Result<u32, EngineError> {
        if self.greedy && self.stages.is_empty() && self.bias.is_empty() {
            return greedy::best(logits);
        }
        self.start(logits)?;
        self.pick()
    }

    /// Picks a token as [`Chain::sample`] does, among those that are allowed: the stages see the others as forbidden.
    pub(crate) fn sample_where(
        &mut self,
        logits: &[f32],
        is_allowed: &dyn Fn(u32) -> bool,
    ) -> Result<u32, EngineError> {
        self.start(logits)?;
        self.candidates.forbid(|id| !is_allowed(id));
        self.pick()
    }

    /// All tokens, before anything is forbidden or changed.
    fn start(&mut self, logits: &[f32]) -> Result<(), EngineError> {
        greedy::best(logits)?;
        self.candidates.fill(logits);
        Ok(())
    }

    fn pick(&mut self) -> Result<u32, EngineError> {
        for &(id, bias) in &self.bias {
            self.candidates.shift(id, bias);
        }
        for stage in &mut self.stages {
            stage.apply(&mut self.candidates);
        }
        if self.greedy {
            return self
                .candidates
                .best()
                .map(|candidate| candidate.id)
                .ok_or(EngineError::NoCandidates);
        }
        draw::draw(&mut self.candidates, &mut self.rng)
    }

    /// What the stages left of the last logits: the log probability of the token that was picked, and the `n` most
    /// probable ones, best first. A greedy chain leaves one.
    pub fn left(&mut self, id: u32, n: usize) -> (f32, Vec<TokenProbability>) {
        if self.greedy {
            let log_probability = 0.0;
            let only = TokenProbability {
                id,
                log_probability,
            };
            return (log_probability, [only].into_iter().take(n).collect());
        }
        self.candidates.sort_best(n);
        let all = self.candidates.log_probabilities();
        let mut all = all.map(|(id, log_probability)| TokenProbability {
            id,
            log_probability: log_probability as f32,
        });
        let top: Vec<TokenProbability> = all.by_ref().take(n).collect();
        let found = top.iter().copied().chain(all).find(|token| token.id == id);
        let log_probability = found.map_or(f32::NEG_INFINITY, |token| token.log_probability);
        (log_probability, top)
    }

    /// Takes note of a token of the sequence, sampled or given.
    pub fn accept(&mut self, id: u32) {
        for stage in &mut self.stages {
            stage.accept(id);
        }
    }

    /// Forgets the sequence and starts the draws again from the seed.
    pub fn reset(&mut self) {
        self.rng = Rng::new(self.seed);
        for stage in &mut self.stages {
            stage.reset();
        }
    }
}

/// The stages in order, and whether the chain is greedy: then it has those alone that can change which token is the best
/// one.
fn stages(
    mut options: SamplingOptions,
    vocabulary: &dyn Vocabulary,
) -> Result<(Vec<Box<dyn Sampler>>, bool), EngineError> {
    let asked: Result<Vec<_>, _> = options
        .samplers
        .iter()
        .map(|name| asked_sampler(name))
        .collect();
    let mut asked = asked?;
    let alone = SAMPLERS.iter().filter(|kind| kind.place == Place::Alone);
    let switched_on = |kind: &&&SamplerKind| (kind.build)(&options, vocabulary).is_some();
    if let Some(alone) = alone.copied().find(|kind| switched_on(&kind)) {
        // The reference has one fixed temperature there.
        options.values.put(&temperature::RANGE, 0.0);
        asked = vec![&temperature::KIND, alone];
    }
    let greedy = temperature::highest(&options) < TEMPERATURE_MIN;
    asked.sort_by_key(|kind| matches!(kind.place, Place::Last(_)));
    let stays = |kind: &&&SamplerKind| {
        !greedy || (matches!(kind.place, Place::Named(_)) && !kind.keeps_best)
    };
    let kinds = asked.iter().filter(stays);
    let stages = kinds.filter_map(|kind| (kind.build)(&options, vocabulary));
    Ok((stages.collect(), greedy))
}

/// What is added to the logit of each id.
fn bias(
    options: &SamplingOptions,
    vocabulary: &dyn Vocabulary,
) -> Result<Vec<(u32, f32)>, EngineError> {
    let mut biases = Vec::new();
    for wish in &options.logit_bias {
        let bias = wish.bias;
        if bias.is_nan() || bias == f32::INFINITY {
            return Err(EngineError::BadSamplingValue {
                name: "logit_bias".into(),
                value: f64::from(bias),
                expected: "a number or negative infinity".into(),
            });
        }
        let ids = wish.ids(vocabulary)?;
        biases.extend(ids.into_iter().map(|id| (id, bias)));
    }
    Ok(biases)
}

#[cfg(test)]
mod tests;
