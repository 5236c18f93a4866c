//! XTC (exclude top choices): at times drops all tokens that are probable enough but the least probable of them.

use std::cmp::Ordering;

use super::{
    Candidate, Candidates, Domain, Parameter, Place, Rng, Sampler, SamplerKind, SamplingOptions,
    Vocabulary,
};

pub(super) static KIND: SamplerKind = SamplerKind {
    name: "xtc",
    place: Place::Named('x'),
    help: "drops at times the most probable tokens, down to the last that reaches a threshold",
    keeps_best: false,
    parameters: &[&PROBABILITY, &THRESHOLD],
    build,
};

pub(super) static PROBABILITY: Parameter = Parameter {
    flag: "xtc-probability",
    aliases: &[],
    value_name: "P",
    help: "How probable it is at each step that top choices are dropped; 0 is off",
    key: Some("xtc_probability"),
    domain: Domain::Float {
        default: 0.0,
        rule: "of at least 0; 0 is off, and from 1 on every step drops them",
        holds: |p| p >= 0.0,
    },
};

pub(super) static THRESHOLD: Parameter = Parameter {
    flag: "xtc-threshold",
    aliases: &[],
    value_name: "P",
    help: "Probability from which a token is a top choice; above 0.5 there is never a second",
    key: Some("xtc_threshold"),
    domain: Domain::Float {
        default: 0.1,
        rule: "of at least 0; above 0.5 nothing is dropped",
        holds: |p| p >= 0.0,
    },
};

struct Xtc {
    probability: f64,
    threshold: f64,
    seed: u32,
    rng: Rng,
}

fn fresh(seed: u32) -> Rng {
    Rng::of_stage(seed, KIND.name)
}

fn build(options: &SamplingOptions, _: &dyn Vocabulary) -> Option<Box<dyn Sampler>> {
    let probability = f64::from(options.float(&PROBABILITY));
    let threshold = options.float(&THRESHOLD);
    (probability > 0.0 && threshold <= 0.5).then(|| {
        Box::new(Xtc {
            probability,
            threshold: f64::from(threshold),
            seed: options.seed,
            rng: fresh(options.seed),
        }) as Box<dyn Sampler>
    })
}

/// The less probable first, of equal ones that with the lower id.
fn rising(a: &Candidate, b: &Candidate) -> Ordering {
    a.logit.total_cmp(&b.logit).then(a.id.cmp(&b.id))
}

impl Sampler for Xtc {
    fn apply(&mut self, candidates: &mut Candidates) {
        let chance = self.rng.next_unit();
        let Some(log_sum) = candidates.log_sum().filter(|_| chance < self.probability) else {
            return;
        };
        let is_top = |candidate: &Candidate| {
            let log_probability = f64::from(candidate.logit) - log_sum;
            candidate.logit > f32::NEG_INFINITY && log_probability.exp() >= self.threshold
        };
        let top = candidates
            .items()
            .iter()
            .filter(|candidate| is_top(candidate));
        let Some(least) = top.copied().min_by(rising) else {
            return;
        };
        candidates.retain(|candidate| candidate.id == least.id || !is_top(candidate));
    }

    fn reset(&mut self) {
        self.rng = fresh(self.seed);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Plain, kept};
    use super::*;

    fn options(probability: f64, threshold: f64) -> SamplingOptions {
        SamplingOptions::default()
            .with(&PROBABILITY, probability)
            .with(&THRESHOLD, threshold)
    }

    #[test]
    fn the_last_of_the_top_choices_stays() {
        let kept = |threshold: f64, logits: &[f32]| kept(&KIND, &options(1.0, threshold), logits);
        let logits = [0.1f32, 0.4, 0.2, 0.3].map(f32::ln);
        assert_eq!(kept(0.15, &logits), [0, 2]);
        assert_eq!(kept(0.25, &logits), [0, 2, 3]);
        assert_eq!(kept(0.35, &logits), [0, 1, 2, 3]);
        // Of two equal ones that with the lowest id stays; forbidden ones are no choice.
        assert_eq!(kept(0.3, &[3.0, 3.0, -1.0]), [0, 2]);
        assert_eq!(kept(0.0, &[3.0, f32::NEG_INFINITY, 1.0]), [1, 2]);
    }

    #[test]
    fn it_acts_as_often_as_asked() {
        let mut stage = build(&options(0.3, 0.1), &Plain(2)).unwrap();
        let acted = (0..10_000).filter(|_| {
            let mut candidates = Candidates::default();
            candidates.fill(&[1.0, 1.5]);
            stage.apply(&mut candidates);
            candidates.len() == 1
        });
        let share = acted.count() as f64 / 10_000.0;
        assert!((share - 0.3).abs() < 0.02, "{share}");
    }
}
