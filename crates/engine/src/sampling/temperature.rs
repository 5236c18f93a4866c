//! Temperature: flattens or sharpens the distribution, by one number or by how sure the model is.

use super::{
    Candidates, Domain, Parameter, Place, Sampler, SamplerKind, SamplingOptions, TEMPERATURE_MIN,
    Vocabulary,
};

pub(super) static KIND: SamplerKind = SamplerKind {
    name: "temperature",
    place: Place::Named('t'),
    help: "divides the logits; zero or below takes the best token",
    keeps_best: true,
    parameters: &[&TEMPERATURE, &RANGE, &EXPONENT],
    build,
};

pub(super) static TEMPERATURE: Parameter = Parameter {
    flag: "temp",
    aliases: &["temperature"],
    value_name: "N",
    help: "Temperature; 0 takes the most probable token",
    key: Some("temp"),
    domain: Domain::Float {
        default: 0.8,
        rule: "",
        holds: |_| true,
    },
};

pub(super) static RANGE: Parameter = Parameter {
    flag: "dynatemp-range",
    aliases: &[],
    value_name: "N",
    help: "Let the temperature go this far down where the model is sure, and up where it is not; 0 is off",
    key: None,
    domain: Domain::Float {
        default: 0.0,
        rule: "",
        holds: |_| true,
    },
};

pub(super) static EXPONENT: Parameter = Parameter {
    flag: "dynatemp-exp",
    aliases: &[],
    value_name: "N",
    help: "Exponent between the entropy and the dynamic temperature",
    key: None,
    domain: Domain::Float {
        default: 1.0,
        rule: "of at least 0",
        holds: |exponent| exponent >= 0.0,
    },
};

/// Divides by one temperature, relative to the best logit: nothing can overflow upwards, and the draw sees differences
/// only.
fn divide(candidates: &mut Candidates, temperature: f32) {
    if let Some(best) = candidates.best() {
        candidates.map_rising(|logit| (logit - best.logit) / temperature);
    }
}

struct Temperature {
    temperature: f32,
}

/// A temperature between two, by the share that the entropy has of the largest one.
struct DynamicTemperature {
    min: f32,
    max: f32,
    exponent: f64,
}

/// The highest temperature that a step can have.
pub(super) fn highest(options: &SamplingOptions) -> f32 {
    options.float(&TEMPERATURE) + options.float(&RANGE).max(0.0)
}

fn build(options: &SamplingOptions, _: &dyn Vocabulary) -> Option<Box<dyn Sampler>> {
    let temperature = options.float(&TEMPERATURE);
    let range = options.float(&RANGE);
    let max = highest(options);
    if max < TEMPERATURE_MIN {
        return None;
    }
    if range > 0.0 {
        return Some(Box::new(DynamicTemperature {
            min: (temperature - range).max(0.0),
            // Two finite numbers may have a sum that is not.
            max: max.min(f32::MAX),
            exponent: f64::from(options.float(&EXPONENT)),
        }));
    }
    (temperature != 1.0).then(|| Box::new(Temperature { temperature }) as Box<dyn Sampler>)
}

impl Sampler for Temperature {
    fn apply(&mut self, candidates: &mut Candidates) {
        divide(candidates, self.temperature);
    }
}

impl Sampler for DynamicTemperature {
    fn apply(&mut self, candidates: &mut Candidates) {
        let n = candidates.len();
        let Some(entropy) = candidates.entropy().filter(|_| n > 1) else {
            return;
        };
        let share = (entropy / (n as f64).ln()).clamp(0.0, 1.0);
        let temperature = self.min + (self.max - self.min) * share.powf(self.exponent) as f32;
        match temperature < TEMPERATURE_MIN {
            true => candidates.keep_best(1),
            false => divide(candidates, temperature),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Plain;
    use super::*;

    fn logits(temperature: f32, range: f32, exponent: f32, logits: &[f32]) -> Vec<f32> {
        let options = SamplingOptions::default()
            .with(&TEMPERATURE, temperature)
            .with(&RANGE, range)
            .with(&EXPONENT, exponent);
        let mut candidates = Candidates::default();
        candidates.fill(logits);
        let mut stage = build(&options, &Plain(logits.len())).unwrap();
        stage.apply(&mut candidates);
        let logits = candidates.items().iter().map(|candidate| candidate.logit);
        logits.collect()
    }

    #[test]
    fn the_dynamic_temperature_goes_by_the_entropy() {
        // All equal: the entropy is the largest one, and the temperature 1 + 0.5.
        assert_eq!(logits(1.0, 0.5, 1.0, &[2.0, 2.0]), [0.0, 0.0]);
        // Probabilities 0.9 and 0.1: entropy 0.3251 of 0.6931 is a share of 0.4690, so 0.5 + 0.4690 * 1 = 0.9690, and
        // with the exponent 2 0.5 + 0.2200 * 1 = 0.7200. ln(9) is 2.1972.
        let two = [0.9f32.ln(), 0.1f32.ln()];
        let near = |found: Vec<f32>, expected: f32| {
            assert!((found[1] - expected).abs() < 1e-3, "{found:?} {expected}");
        };
        near(logits(1.0, 0.5, 1.0, &two), -2.197_225 / 0.969_0);
        near(logits(1.0, 0.5, 2.0, &two), -2.197_225 / 0.719_96);
        // Below no temperature there is the best token alone.
        assert_eq!(logits(0.5, 1.0, 1.0, &[2.0, f32::NEG_INFINITY]), [2.0]);
    }
}
