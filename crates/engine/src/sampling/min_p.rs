//! Min-p: drops tokens that are much less probable than the best one.

use super::{
    Candidates, Domain, Parameter, Place, Sampler, SamplerKind, SamplingOptions, Vocabulary,
};

pub(super) static KIND: SamplerKind = SamplerKind {
    name: "min_p",
    place: Place::Named('m'),
    help: "drops tokens less probable than a share of the best one",
    keeps_best: true,
    parameters: &[&MIN_P],
    build,
};

pub(super) static MIN_P: Parameter = Parameter {
    flag: "min-p",
    aliases: &[],
    value_name: "P",
    help: "Drop tokens below this share of the best one's probability; 0 drops none",
    key: Some("min_p"),
    domain: Domain::Float {
        default: 0.05,
        rule: "of at most 1; 0 or less drops no token",
        holds: |p| p <= 1.0,
    },
};

struct MinP {
    /// How far below the best logit a token may be: ln(p), at most 0.
    log_share: f32,
}

fn build(options: &SamplingOptions, _: &dyn Vocabulary) -> Option<Box<dyn Sampler>> {
    let p = options.float(&MIN_P);
    (p > 0.0).then(|| Box::new(MinP { log_share: p.ln() }) as Box<dyn Sampler>)
}

impl Sampler for MinP {
    fn apply(&mut self, candidates: &mut Candidates) {
        if let Some(best) = candidates.best() {
            candidates.keep_at_least(best.logit + self.log_share);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::kept;
    use super::*;

    #[test]
    fn the_share_is_of_the_best_ones_probability() {
        let kept = |p: f32, logits: &[f32]| {
            kept(&KIND, &SamplingOptions::default().with(&MIN_P, p), logits)
        };
        // Probabilities 0.1, 0.4, 0.2 and 0.3: of 0.4 they are 0.25, 1, 0.5 and 0.75.
        let logits = [0.1f32, 0.4, 0.2, 0.3].map(f32::ln);
        assert_eq!(kept(0.6, &logits), [1, 3]);
        assert_eq!(kept(0.4, &logits), [1, 2, 3]);
        // Ties stay together, and one token is always left.
        assert_eq!(kept(1.0, &[2.0, 3.0, 3.0]), [1, 2]);
        assert_eq!(kept(1.0, &[2.0]), [0]);
    }
}
