//! From logits to one token id.
//!
//! Stages run in the order of the reference, [`REFERENCE_ORDER`], unless another one is asked for; then one draw.
//! The order matters: the cuts see the logits before the temperature, so that `min_p` means the same at
//! every temperature. Each stage is one file, which declares its parameters, and one line in [`SAMPLERS`].
//!
//! Ties are decided by the lowest id everywhere. A temperature of zero or below takes the best token and draws nothing,
//! also where the order asked for has no temperature; stages that keep the best token are left out of a greedy chain.

mod candidates;
mod defaults;
mod draw;
mod greedy;
mod log_probabilities;
mod min_p;
mod parameter;
mod penalties;
mod temperature;
mod top_k;
mod top_p;

pub use candidates::{Candidate, Candidates};
pub use defaults::{ModelSampling, SamplingWishes};
pub use draw::Rng;
pub use greedy::best;
pub use log_probabilities::{TokenProbability, log_probability, top_log_probabilities};
pub use parameter::{Domain, Parameter, ParameterValues, parameter, parameters};

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
    /// Added to the logits of these ids before all stages; negative infinity forbids a token.
    pub logit_bias: Vec<(u32, f32)>,
    /// Stage names in order, from [`SAMPLERS`].
    pub samplers: Vec<String>,
}

impl Default for SamplingOptions {
    fn default() -> Self {
        SamplingOptions {
            seed: RANDOM_SEED,
            values: ParameterValues::default(),
            logit_bias: Vec::new(),
            samplers: default_order().into_iter().map(str::to_owned).collect(),
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

/// A stage that can be asked for by name.
pub struct SamplerKind {
    /// Name in `--samplers`.
    pub name: &'static str,
    /// Letter in `--sampler-seq`.
    pub letter: char,
    /// What the stage does, for help texts.
    pub help: &'static str,
    /// Whether the best token always survives with its rank, so that greedy chains can do without it.
    pub keeps_best: bool,
    /// The numbers that steer it.
    pub parameters: &'static [&'static Parameter],
    /// Makes the stage, or nothing when the options turn it off.
    pub build: fn(&SamplingOptions) -> Option<Box<dyn Sampler>>,
}

/// Every stage, in the order of help texts.
pub static SAMPLERS: &[&SamplerKind] = &[
    &top_k::KIND,
    &top_p::KIND,
    &min_p::KIND,
    &temperature::KIND,
    &penalties::KIND,
];

/// The stages of the reference in its default order, by name and letter.
///
/// Those that are not in [`SAMPLERS`] do nothing there until a parameter switches them on. No parameter here does, so
/// they may be named and make no stage: the reference's own default order is understood.
pub const REFERENCE_ORDER: &[(&str, char)] = &[
    ("penalties", 'e'),
    ("dry", 'd'),
    ("top_n_sigma", 's'),
    ("top_k", 'k'),
    ("typ_p", 'y'),
    ("top_p", 'p'),
    ("min_p", 'm'),
    ("xtc", 'x'),
    ("temperature", 't'),
];

/// The reference's stages outside of its default order, by name and letter. They do something wherever they are named, so
/// the name of one that is not in [`SAMPLERS`] is refused.
const REFERENCE_OTHERS: &[(&str, char)] = &[("adaptive_p", 'a'), ("infill", 'i')];

/// Keys below `general.sampling.` that switch a stage on, and the number that does not.
const SWITCHES: &[(&str, f64)] = &[("xtc_probability", 0.0), ("mirostat", 0.0)];

/// The stages that run when none is asked for, in order.
pub fn default_order() -> Vec<&'static str> {
    let names = REFERENCE_ORDER.iter().map(|(name, _)| *name);
    names.filter(|name| sampler(name).is_some()).collect()
}

/// Switches of stages that cannot be had.
fn foreign_switches() -> impl Iterator<Item = (&'static str, f64)> {
    let own = |key: &str| parameters().any(|parameter| parameter.key == Some(key));
    SWITCHES.iter().copied().filter(move |(key, _)| !own(key))
}

/// The reference's stages that cannot be had here, by name and letter.
fn missing() -> impl Iterator<Item = (&'static str, char)> {
    let known = REFERENCE_ORDER.iter().chain(REFERENCE_OTHERS).copied();
    known.filter(|(name, _)| sampler(name).is_none())
}

/// The name of the stage with this letter, here or in the reference.
pub fn sampler_name(letter: char) -> Option<&'static str> {
    let kinds = SAMPLERS.iter().map(|kind| (kind.name, kind.letter));
    let mut known = kinds.chain(missing());
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
    let kinds = SAMPLERS.iter().map(|kind| (kind.name, kind.letter));
    let (supported, missing) = (list(kinds.collect()), list(missing().collect()));
    match missing.is_empty() {
        true => format!("supported are {supported}"),
        false => format!("supported are {supported}; not supported yet are {missing}"),
    }
}

/// Finds a stage by its name; letter case, `-` and `_` do not count.
pub fn sampler(name: &str) -> Option<&'static SamplerKind> {
    let name = plain_name(name);
    let same = |kind: &&SamplerKind| plain_name(kind.name) == name;
    SAMPLERS.iter().copied().find(same)
}

/// The stage that a name asks for; nothing for one of the reference that cannot be had and does nothing, see
/// [`REFERENCE_ORDER`].
///
/// # Errors
/// A name that the reference does not have either, or one of a stage that would do something there.
pub fn asked_sampler(name: &str) -> Result<Option<&'static SamplerKind>, EngineError> {
    if let Some(kind) = sampler(name) {
        return Ok(Some(kind));
    }
    let plain = plain_name(name);
    let has = |names: &[(&str, char)]| names.iter().any(|(known, _)| plain_name(known) == plain);
    let name = || name.trim().to_owned();
    match (has(REFERENCE_ORDER), has(REFERENCE_OTHERS)) {
        (true, _) => Ok(None),
        (_, true) => Err(EngineError::UnsupportedSampler { name: name() }),
        _ => Err(EngineError::UnknownSampler { name: name() }),
    }
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
    /// Builds the chain; `n_vocab` bounds the ids of the logit bias.
    ///
    /// Errors: an unknown stage name, a bias that is not a number or for an id outside the vocabulary.
    pub fn new(options: &SamplingOptions, n_vocab: usize) -> Result<Self, EngineError> {
        check(options, n_vocab)?;
        // Chosen first: a stage that draws begins with the seed that is told.
        let seed = match options.seed {
            RANDOM_SEED => draw::fresh_seed(),
            seed => seed,
        };
        let options = &SamplingOptions {
            seed,
            ..options.clone()
        };
        let mut kinds = Vec::new();
        for name in &options.samplers {
            kinds.extend(asked_sampler(name)?);
        }
        let greedy = options.float(&temperature::TEMPERATURE) < TEMPERATURE_MIN;
        let stages: Vec<_> = kinds
            .iter()
            .filter(|kind| !(greedy && kind.keeps_best))
            .filter_map(|kind| (kind.build)(options))
            .collect();
        Ok(Chain {
            bias: options.logit_bias.clone(),
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
        greedy::best(logits)?;
        self.candidates.fill(logits);
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

fn check(options: &SamplingOptions, n_vocab: usize) -> Result<(), EngineError> {
    for &(id, bias) in &options.logit_bias {
        if id as usize >= n_vocab {
            return Err(EngineError::BiasOutOfRange { id, n_vocab });
        }
        if bias.is_nan() || bias == f32::INFINITY {
            return Err(EngineError::BadSamplingValue {
                name: "logit_bias".into(),
                value: f64::from(bias),
                expected: "a number or negative infinity".into(),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
