//! Mirostat 1 and 2 (Basu et al. 2021): cuts so that the surprise of what is drawn stays near a target.

use std::f64::consts::LN_2;

use super::{
    Candidate, Candidates, Domain, Parameter, Place, Sampler, SamplerKind, SamplingOptions,
    Vocabulary,
};

pub(super) static KIND: SamplerKind = SamplerKind {
    name: "mirostat",
    place: Place::Alone,
    help: "cuts so that the surprise of what is drawn stays near a target",
    keeps_best: true,
    parameters: &[&VERSION, &ENTROPY, &LEARNING_RATE],
    build,
};

pub(super) static VERSION: Parameter = Parameter {
    flag: "mirostat",
    aliases: &[],
    value_name: "N",
    help: "Mirostat 1 or 2 in place of all stages but the temperature; 0 is off",
    key: Some("mirostat"),
    domain: Domain::Whole {
        default: 0,
        range: 0..=2,
    },
};

pub(super) static ENTROPY: Parameter = Parameter {
    flag: "mirostat-ent",
    aliases: &[],
    value_name: "N",
    help: "Mirostat's target surprise in bits (tau)",
    key: Some("mirostat_tau"),
    domain: Domain::Float {
        default: 5.0,
        rule: "of at least 0",
        holds: |tau| tau >= 0.0,
    },
};

pub(super) static LEARNING_RATE: Parameter = Parameter {
    flag: "mirostat-lr",
    aliases: &[],
    value_name: "N",
    help: "Mirostat's learning rate (eta): how fast the cut follows the surprise",
    key: Some("mirostat_eta"),
    domain: Domain::Float {
        default: 0.1,
        rule: "of at least 0",
        holds: |eta| eta >= 0.0,
    },
};

/// How many of the best tokens the first version estimates the distribution from.
const N_ESTIMATED: usize = 100;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Version {
    /// Estimates how many of the best tokens to keep, from the exponent of Zipf's law.
    Estimated,
    /// Drops what surprises more than the largest surprise.
    Direct,
}

struct Mirostat {
    version: Version,
    tau: f64,
    eta: f64,
    n_vocab: f64,
    /// The largest surprise in bits.
    mu: f64,
    /// The log probabilities that the draw saw, until its token is accepted.
    kept: Vec<(u32, f64)>,
}

fn build(options: &SamplingOptions, vocabulary: &dyn Vocabulary) -> Option<Box<dyn Sampler>> {
    let version = match options.whole(&VERSION) {
        0 => return None,
        1 => Version::Estimated,
        _ => Version::Direct,
    };
    let tau = f64::from(options.float(&ENTROPY));
    Some(Box::new(Mirostat {
        version,
        tau,
        eta: f64::from(options.float(&LEARNING_RATE)),
        n_vocab: vocabulary.n_tokens() as f64,
        mu: 2.0 * tau,
        kept: Vec::new(),
    }))
}

impl Mirostat {
    /// How many tokens to keep, from the best ones.
    fn n_kept(&self, best: &[Candidate]) -> usize {
        // Least squares of the logarithm of the probability over that of the rank.
        let possible = best
            .iter()
            .map(|candidate| f64::from(candidate.logit))
            .take_while(|&logit| logit > f64::NEG_INFINITY);
        let logits: Vec<f64> = possible.collect();
        let (mut products, mut squares) = (0.0, 0.0);
        for (index, pair) in logits.windows(2).enumerate() {
            let rank = ((index + 2) as f64 / (index + 1) as f64).ln();
            products += rank * (pair[0] - pair[1]);
            squares += rank * rank;
        }
        let exponent = products / squares;
        let excess = exponent - 1.0;
        let power = excess * self.mu.exp2() / (1.0 - self.n_vocab.powf(-excess));
        // What is not a number becomes 0 here.
        (power.powf(exponent.recip()) as usize).max(1)
    }
}

impl Sampler for Mirostat {
    fn apply(&mut self, candidates: &mut Candidates) {
        let (Some(best), Some(log_sum)) = (candidates.best(), candidates.log_sum()) else {
            return;
        };
        match self.version {
            Version::Estimated => {
                candidates.sort_best(N_ESTIMATED);
                let n_best = N_ESTIMATED.min(candidates.len());
                candidates.keep_best(self.n_kept(&candidates.items()[..n_best]));
            }
            Version::Direct => {
                let logit_min = (log_sum - self.mu * LN_2) as f32;
                candidates.keep_at_least(logit_min.min(best.logit));
            }
        }
        self.kept.clear();
        self.kept.extend(candidates.log_probabilities());
    }

    fn accept(&mut self, id: u32) {
        if let Some((_, log_probability)) = self.kept.iter().find(|(kept, _)| *kept == id) {
            let surprise = -log_probability / LN_2;
            self.mu -= self.eta * (surprise - self.tau);
        }
        // A token that was not drawn here says nothing.
        self.kept.clear();
    }

    fn reset(&mut self) {
        self.mu = 2.0 * self.tau;
        self.kept.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Plain;
    use super::*;

    fn stage(version: i32, tau: f64, eta: f64) -> Box<dyn Sampler> {
        let options = SamplingOptions::default()
            .with(&VERSION, version)
            .with(&ENTROPY, tau)
            .with(&LEARNING_RATE, eta);
        build(&options, &Plain(4)).unwrap()
    }

    fn kept(stage: &mut dyn Sampler, logits: &[f32]) -> Vec<u32> {
        let mut candidates = Candidates::default();
        candidates.fill(logits);
        stage.apply(&mut candidates);
        let ids = candidates.items().iter().map(|candidate| candidate.id);
        ids.collect()
    }

    #[test]
    fn the_second_version_cuts_at_its_surprise_and_follows_what_is_drawn() {
        // Surprises of 1, 2, 3 and 3 bits.
        let logits = [0.5f32, 0.25, 0.125, 0.125].map(f32::ln);
        let mut stage = stage(2, 1.25, 0.5);
        // At most 2.5 bits.
        assert_eq!(kept(&mut *stage, &logits), [0, 1]);
        // Of the two that are left, 0 has log2(3 / 2) = 0.585 bits: 2.5 - 0.5 * (0.585 - 1.25) = 2.8325.
        stage.accept(0);
        assert_eq!(kept(&mut *stage, &logits), [0, 1]);
        stage.accept(0);
        // 3.165
        assert_eq!(kept(&mut *stage, &logits), [0, 1, 2, 3]);
        // 3 bits are more than the target: 3.165 - 0.5 * (3 - 1.25) = 2.29.
        stage.accept(3);
        assert_eq!(kept(&mut *stage, &logits), [0, 1]);
        stage.reset();
        // A token of the prompt changes nothing.
        stage.accept(3);
        assert_eq!(kept(&mut *stage, &logits), [0, 1]);
    }

    #[test]
    fn the_first_version_estimates_how_many_to_keep() {
        // Zipf's law with exponent 2: probabilities as 1, 1/4, 1/9 and 1/16. Then
        // k = sqrt(2^mu / (1 - 1/4)), the vocabulary having 4 tokens: 1.63 for mu = 1 and 3.27 for mu = 3.
        let logits = [1.0f32, 1.0 / 4.0, 1.0 / 9.0, 1.0 / 16.0].map(f32::ln);
        assert_eq!(kept(&mut *stage(1, 0.5, 0.1), &logits), [0]);
        assert_eq!(kept(&mut *stage(1, 1.5, 0.1), &logits), [0, 1, 2]);
        assert_eq!(kept(&mut *stage(1, 1.5, 0.1), &[1.0]), [0]);
    }
}
