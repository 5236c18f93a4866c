//! From logits to one token id.
//!
//! Stages run in the order of the reference, [`REFERENCE_ORDER`], unless another one is asked for; then one draw.
//! The order matters: the cuts see the logits before the temperature, so that `min_p` means the same at
//! every temperature. Each stage is one file, which declares its parameters, and one line in [`SAMPLERS`].
//!
//! Ties are decided by the lowest id everywhere. A temperature of zero or below takes the best token and
//! draws nothing; the cuts never remove the best token, so they are left out of a greedy chain.

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
pub use parameter::{Domain, Parameter, ParameterValues};

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
        SamplingOptions::default().with(&temperature::TEMPERATURE, 0.0)
    }

    /// These with another number for a parameter.
    pub fn with(mut self, parameter: &Parameter, number: impl Into<f64>) -> Self {
        self.values.set(parameter, number.into());
        self
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

/// The parameters of all stages, in the order of help texts.
pub fn parameters() -> impl Iterator<Item = &'static Parameter> {
    SAMPLERS
        .iter()
        .flat_map(|kind| kind.parameters.iter().copied())
}

/// The stages by name, for messages.
pub fn sorted_samplers() -> Vec<&'static SamplerKind> {
    let mut kinds = SAMPLERS.to_vec();
    kinds.sort_by_key(|kind| kind.name);
    kinds
}

/// Finds a stage by its name; letter case, `-` and `_` do not count.
pub fn sampler(name: &str) -> Option<&'static SamplerKind> {
    let name = plain_name(name);
    let same = |kind: &&SamplerKind| plain_name(kind.name) == name;
    SAMPLERS.iter().copied().find(same)
}

/// Whether this is a stage of the reference that cannot be had here, see [`REFERENCE_ORDER`].
pub fn is_dormant(name: &str) -> bool {
    let plain = plain_name(name);
    let mut known = REFERENCE_ORDER.iter();
    known.any(|(known, _)| plain_name(known) == plain) && sampler(name).is_none()
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
    /// Errors: an unknown stage name, a value that is not a number, a bias for an id outside the vocabulary.
    pub fn new(options: &SamplingOptions, n_vocab: usize) -> Result<Self, EngineError> {
        check(options, n_vocab)?;
        let mut kinds = Vec::new();
        for name in options.samplers.iter().filter(|name| !is_dormant(name)) {
            kinds.push(
                sampler(name).ok_or_else(|| EngineError::UnknownSampler { name: name.clone() })?,
            );
        }
        let has_temperature = kinds.iter().any(|kind| kind.name == temperature::KIND.name);
        let greedy = has_temperature && options.float(&temperature::TEMPERATURE) < TEMPERATURE_MIN;
        let stages: Vec<_> = kinds
            .iter()
            .filter(|kind| !(greedy && kind.keeps_best))
            .filter_map(|kind| (kind.build)(options))
            .collect();
        let seed = if options.seed == RANDOM_SEED {
            draw::fresh_seed()
        } else {
            options.seed
        };
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
    for parameter in parameters() {
        let number = options.number(parameter);
        if parameter.accept(number).is_none() {
            return Err(EngineError::BadSamplingValue {
                name: parameter.name(),
                value: number as f32,
            });
        }
    }
    for &(id, bias) in &options.logit_bias {
        if id as usize >= n_vocab {
            return Err(EngineError::BiasOutOfRange { id, n_vocab });
        }
        if bias.is_nan() || bias == f32::INFINITY {
            return Err(EngineError::BadSamplingValue {
                name: "logit_bias".into(),
                value: bias,
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
