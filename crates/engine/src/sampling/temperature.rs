//! Temperature: flattens or sharpens the distribution.

use super::{
    Candidates, Domain, Parameter, Sampler, SamplerKind, SamplingOptions, TEMPERATURE_MIN,
};

pub(super) static KIND: SamplerKind = SamplerKind {
    name: "temperature",
    letter: 't',
    help: "divides the logits; zero or below takes the best token",
    keeps_best: true,
    parameters: &[&TEMPERATURE],
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

struct Temperature {
    temperature: f32,
}

fn build(options: &SamplingOptions) -> Option<Box<dyn Sampler>> {
    let temperature = options.float(&TEMPERATURE);
    (temperature != 1.0 && temperature >= TEMPERATURE_MIN)
        .then(|| Box::new(Temperature { temperature }) as Box<dyn Sampler>)
}

impl Sampler for Temperature {
    fn apply(&mut self, candidates: &mut Candidates) {
        // relative to the best logit nothing can overflow upwards, and the draw sees differences only
        if let Some(best) = candidates.best() {
            candidates.map_rising(|logit| (logit - best.logit) / self.temperature);
        }
    }
}
