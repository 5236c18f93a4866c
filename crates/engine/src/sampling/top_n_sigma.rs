//! Top-n-sigma: keeps the tokens within some standard deviations of the best logit.

use super::{
    Candidates, Domain, Parameter, Place, Sampler, SamplerKind, SamplingOptions, Vocabulary,
};

pub(super) static KIND: SamplerKind = SamplerKind {
    name: "top_n_sigma",
    place: Place::Named('s'),
    help: "keeps the tokens within some standard deviations of the best logit",
    keeps_best: true,
    parameters: &[&TOP_N_SIGMA],
    build,
};

pub(super) static TOP_N_SIGMA: Parameter = Parameter {
    flag: "top-nsigma",
    aliases: &["top-n-sigma"],
    value_name: "N",
    help: "Keep tokens within N standard deviations of the best logit; 0 or less keeps all",
    key: None,
    domain: Domain::Float {
        default: -1.0,
        rule: "",
        holds: |_| true,
    },
};

struct TopNSigma {
    n: f64,
}

fn build(options: &SamplingOptions, _: &dyn Vocabulary) -> Option<Box<dyn Sampler>> {
    let n = f64::from(options.float(&TOP_N_SIGMA));
    (n > 0.0).then(|| Box::new(TopNSigma { n }) as Box<dyn Sampler>)
}

impl Sampler for TopNSigma {
    fn apply(&mut self, candidates: &mut Candidates) {
        let Some(best) = candidates.best() else {
            return;
        };
        // Forbidden tokens would make the deviation infinite.
        let logits = || {
            let logits = candidates.items().iter().map(|candidate| candidate.logit);
            logits
                .filter(|&logit| logit > f32::NEG_INFINITY)
                .map(f64::from)
        };
        let n_possible = logits().count() as f64;
        let mean = logits().sum::<f64>() / n_possible;
        let variance = logits().map(|logit| (logit - mean).powi(2)).sum::<f64>() / n_possible;
        let logit_min = f64::from(best.logit) - self.n * variance.sqrt();
        candidates.keep_at_least((logit_min as f32).min(best.logit));
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::kept;
    use super::*;

    #[test]
    fn the_deviation_is_that_of_all_possible_tokens() {
        let kept = |n: f64, logits: &[f32]| {
            kept(
                &KIND,
                &SamplingOptions::default().with(&TOP_N_SIGMA, n),
                logits,
            )
        };
        // Mean 2 and deviation sqrt((4 + 0 + 0 + 4) / 4) = 1.4142: from 4 down to 2.5858 and to 1.1716.
        let logits = [0.0, 2.0, 2.0, 4.0];
        assert_eq!(kept(1.0, &logits), [3]);
        assert_eq!(kept(2.0, &logits), [1, 2, 3]);
        let forbidden = [0.0, 2.0, f32::NEG_INFINITY, 2.0, 4.0];
        assert_eq!(kept(2.0, &forbidden), [1, 3, 4]);
        // Equal ones have no deviation and all stay.
        assert_eq!(kept(1.0, &[3.0, 3.0]), [0, 1]);
    }
}
