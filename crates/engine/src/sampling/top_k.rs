//! Top-k: keeps the k best tokens.

use super::{
    Candidates, Domain, Parameter, Place, Sampler, SamplerKind, SamplingOptions, Vocabulary,
};

pub(super) static KIND: SamplerKind = SamplerKind {
    name: "top_k",
    place: Place::Named('k'),
    help: "keeps the k best tokens",
    keeps_best: true,
    parameters: &[&TOP_K],
    build,
};

pub(super) static TOP_K: Parameter = Parameter {
    flag: "top-k",
    aliases: &[],
    value_name: "N",
    help: "Keep the N best tokens; 0 keeps all",
    key: Some("top_k"),
    domain: Domain::Whole {
        default: 40,
        range: i32::MIN..=i32::MAX,
    },
};

struct TopK {
    k: usize,
}

fn build(options: &SamplingOptions, _: &dyn Vocabulary) -> Option<Box<dyn Sampler>> {
    let k = usize::try_from(options.whole(&TOP_K)).unwrap_or(0);
    (k > 0).then(|| Box::new(TopK { k }) as Box<dyn Sampler>)
}

impl Sampler for TopK {
    fn apply(&mut self, candidates: &mut Candidates) {
        candidates.keep_best(self.k);
    }
}
