//! Top-p (nucleus): keeps the fewest best tokens that together reach a probability.

use super::{
    Candidates, Domain, Parameter, Place, Sampler, SamplerKind, SamplingOptions, Vocabulary,
};

pub(super) static KIND: SamplerKind = SamplerKind {
    name: "top_p",
    place: Place::Named('p'),
    help: "keeps the fewest best tokens whose probabilities reach a sum",
    keeps_best: true,
    parameters: &[&TOP_P],
    build,
};

pub(super) static TOP_P: Parameter = Parameter {
    flag: "top-p",
    aliases: &[],
    value_name: "P",
    help: "Keep the fewest best tokens that reach this probability; 1 keeps all",
    key: Some("top_p"),
    domain: Domain::Float {
        default: 0.95,
        rule: "of at least 0; 1 or more keeps all tokens",
        holds: |p| p >= 0.0,
    },
};

/// How many tokens are sorted at first; four times as many whenever they do not reach the sum.
const FIRST_SORTED: usize = 256;

struct TopP {
    p: f32,
}

fn build(options: &SamplingOptions, _: &dyn Vocabulary) -> Option<Box<dyn Sampler>> {
    let p = options.float(&TOP_P);
    (p < 1.0).then(|| Box::new(TopP { p }) as Box<dyn Sampler>)
}

impl Sampler for TopP {
    fn apply(&mut self, candidates: &mut Candidates) {
        let Some(best) = candidates.best() else {
            return;
        };
        let weight = |logit: f32| f64::from((logit - best.logit).exp());
        let total: f64 = candidates
            .items()
            .iter()
            .map(|candidate| weight(candidate.logit))
            .sum();
        let target = f64::from(self.p) * total;
        let mut sum = 0.0;
        let mut n_kept = 0;
        while n_kept < candidates.len() {
            if n_kept == candidates.n_sorted() {
                candidates.sort_best((4 * n_kept).max(FIRST_SORTED));
            }
            sum += weight(candidates.items()[n_kept].logit);
            n_kept += 1;
            if sum >= target {
                break;
            }
        }
        candidates.truncate(n_kept);
    }
}
