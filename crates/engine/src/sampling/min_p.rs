//! Min-p: drops tokens that are much less probable than the best one.

use super::{Candidates, Sampler, SamplerKind, SamplingOptions};

pub(super) static KIND: SamplerKind = SamplerKind {
    name: "min_p",
    letter: 'm',
    help: "drops tokens less probable than a share of the best one",
    keeps_best: true,
    build,
};

struct MinP {
    /// How far below the best logit a token may be: ln(p), at most 0.
    log_share: f32,
}

fn build(options: &SamplingOptions) -> Option<Box<dyn Sampler>> {
    (options.min_p > 0.0).then(|| {
        Box::new(MinP {
            log_share: options.min_p.min(1.0).ln(),
        }) as Box<dyn Sampler>
    })
}

impl Sampler for MinP {
    fn apply(&mut self, candidates: &mut Candidates) {
        if let Some(best) = candidates.best() {
            candidates.keep_at_least(best.logit + self.log_share);
        }
    }
}
