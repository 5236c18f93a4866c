//! Top-k: keeps the k best tokens.

use super::{Candidates, Sampler, SamplerKind, SamplingOptions};

pub(super) static KIND: SamplerKind = SamplerKind {
    name: "top_k",
    letter: 'k',
    help: "keeps the k best tokens",
    keeps_best: true,
    build,
};

struct TopK {
    k: usize,
}

fn build(options: &SamplingOptions) -> Option<Box<dyn Sampler>> {
    (options.top_k > 0).then(|| Box::new(TopK { k: options.top_k }) as Box<dyn Sampler>)
}

impl Sampler for TopK {
    fn apply(&mut self, candidates: &mut Candidates) {
        candidates.keep_best(self.k);
    }
}
