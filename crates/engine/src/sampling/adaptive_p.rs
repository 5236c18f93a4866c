//! Adaptive-p: prefers tokens near a target probability, and shifts the target against what was drawn.

use super::{
    Candidates, Domain, Parameter, Place, Sampler, SamplerKind, SamplingOptions, Vocabulary,
};

pub(super) static KIND: SamplerKind = SamplerKind {
    name: "adaptive_p",
    place: Place::Last('a'),
    help: "prefers tokens near a target probability, always behind the other stages",
    keeps_best: false,
    parameters: &[&TARGET, &DECAY],
    build,
};

pub(super) static TARGET: Parameter = Parameter {
    flag: "adaptive-target",
    aliases: &[],
    value_name: "P",
    help: "Probability that adaptive_p prefers, where --samplers names it; below 0 is off",
    key: None,
    domain: Domain::Float {
        default: -1.0,
        rule: "of at most 1; below 0 is off",
        holds: |p| p <= 1.0,
    },
};

pub(super) static DECAY: Parameter = Parameter {
    flag: "adaptive-decay",
    aliases: &[],
    value_name: "N",
    help: "How much of the past adaptive_p keeps at each step: about 1 / (1 - N) tokens",
    key: None,
    domain: Domain::Float {
        default: 0.9,
        rule: "from 0 to 0.99",
        holds: |decay| (0.0..=0.99).contains(&decay),
    },
};

/// Within this distance of the target the preference falls with the square, further away in a straight line.
const WIDTH: f64 = 0.3;
/// The logit of a token that has the target probability.
const PEAK: f64 = 5.0;
/// How steeply the logit falls with the distance.
const SHARPNESS: f64 = 10.0;

struct AdaptiveP {
    target: f64,
    decay: f64,
    /// Probabilities of the tokens drawn, and their weights: the older, the less.
    sum: f64,
    weight: f64,
    /// Probabilities before the change, until the drawn token is accepted.
    before: Vec<(u32, f64)>,
}

fn build(options: &SamplingOptions, _: &dyn Vocabulary) -> Option<Box<dyn Sampler>> {
    let target = f64::from(options.float(&TARGET));
    (target >= 0.0).then(|| {
        let mut stage = AdaptiveP {
            target,
            decay: f64::from(options.float(&DECAY)),
            sum: 0.0,
            weight: 0.0,
            before: Vec::new(),
        };
        stage.reset();
        Box::new(stage) as Box<dyn Sampler>
    })
}

impl Sampler for AdaptiveP {
    fn apply(&mut self, candidates: &mut Candidates) {
        let Some(log_sum) = candidates.log_sum() else {
            return;
        };
        let target = (2.0 * self.target - self.sum / self.weight).clamp(0.0, 1.0);
        self.before.clear();
        let probable = candidates.log_probabilities();
        self.before
            .extend(probable.map(|(id, log_probability)| (id, log_probability.exp())));
        candidates.map(|logit| {
            let distance = ((f64::from(logit) - log_sum).exp() - target).abs() / WIDTH;
            (PEAK - SHARPNESS * distance * distance / (1.0 + distance)) as f32
        });
    }

    fn accept(&mut self, id: u32) {
        if let Some((_, probability)) = self.before.iter().find(|(before, _)| *before == id) {
            self.sum = probability + self.decay * self.sum;
            self.weight = 1.0 + self.decay * self.weight;
        }
        self.before.clear();
    }

    /// As if the target had been met ever since.
    fn reset(&mut self) {
        self.weight = 1.0 / (1.0 - self.decay);
        self.sum = self.target * self.weight;
        self.before.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Plain;
    use super::*;

    #[test]
    fn tokens_near_the_target_are_preferred_and_the_target_moves_against_the_drawn() {
        let options = SamplingOptions::default()
            .with(&TARGET, 0.25)
            .with(&DECAY, 0.5);
        let mut stage = build(&options, &Plain(4)).unwrap();
        let logits = |stage: &mut dyn Sampler| {
            let mut candidates = Candidates::default();
            candidates.fill(&[0.55f32.ln(), 0.25f32.ln(), 0.2f32.ln(), f32::NEG_INFINITY]);
            stage.apply(&mut candidates);
            let logits = candidates.items().iter().map(|candidate| candidate.logit);
            logits.collect::<Vec<f32>>()
        };
        let near = |found: &[f32], expected: [f32; 3]| {
            for (found, expected) in found.iter().zip(expected) {
                assert!((found - expected).abs() < 1e-4, "{found} {expected}");
            }
            assert_eq!(found[3], f32::NEG_INFINITY);
        };
        // Distances of 1, 0 and 1/6 widths: 5 - 10 / 2, 5 and 5 - 10 / 36 / (7 / 6).
        near(&logits(&mut *stage), [0.0, 5.0, 4.761_905]);
        // Drawn was 0.55: the mean is (0.55 + 0.5 * 0.5) / (1 + 0.5 * 2) = 0.4, the target 0.5 - 0.4 = 0.1.
        stage.accept(0);
        near(&logits(&mut *stage), [-4.0, 3.333_333, 4.166_667]);
        stage.reset();
        near(&logits(&mut *stage), [0.0, 5.0, 4.761_905]);
    }
}
