//! Locally typical sampling: keeps the tokens whose surprise is nearest to what the distribution lets expect.

use super::{
    Candidates, Domain, Parameter, Place, Sampler, SamplerKind, SamplingOptions, Vocabulary,
};

pub(super) static KIND: SamplerKind = SamplerKind {
    name: "typ_p",
    place: Place::Named('y'),
    help: "keeps the fewest tokens of nearly the expected surprise whose probabilities pass a sum",
    keeps_best: false,
    parameters: &[&TYPICAL],
    build,
};

pub(super) static TYPICAL: Parameter = Parameter {
    flag: "typical",
    aliases: &["typical-p"],
    value_name: "P",
    help: "Keep the most typical tokens until they pass this probability; 1 keeps all",
    key: None,
    domain: Domain::Float {
        default: 1.0,
        rule: "of at least 0; 1 or more keeps all tokens",
        holds: |p| p >= 0.0,
    },
};

struct Typical {
    p: f64,
    /// Of each possible token its distance from the entropy, its probability and its id.
    distances: Vec<(f64, f64, u32)>,
}

fn build(options: &SamplingOptions, _: &dyn Vocabulary) -> Option<Box<dyn Sampler>> {
    let p = f64::from(options.float(&TYPICAL));
    (p < 1.0).then(|| {
        Box::new(Typical {
            p,
            distances: Vec::new(),
        }) as Box<dyn Sampler>
    })
}

impl Sampler for Typical {
    fn apply(&mut self, candidates: &mut Candidates) {
        let Some(entropy) = candidates.entropy() else {
            return;
        };
        self.distances.clear();
        let probable = candidates.log_probabilities();
        self.distances.extend(probable.map(|(id, log_probability)| {
            (
                (-log_probability - entropy).abs(),
                log_probability.exp(),
                id,
            )
        }));
        self.distances
            .sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.2.cmp(&b.2)));
        let mut sum = 0.0;
        let n_kept = self.distances.iter().position(|&(_, probability, _)| {
            sum += probability;
            sum > self.p
        });
        self.distances
            .truncate(n_kept.map_or(self.distances.len(), |index| index + 1));
        let mut kept: Vec<u32> = self.distances.iter().map(|&(_, _, id)| id).collect();
        kept.sort_unstable();
        candidates.retain(|candidate| kept.binary_search(&candidate.id).is_ok());
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::kept;
    use super::*;

    #[test]
    fn the_tokens_nearest_to_the_entropy_stay() {
        let kept = |p: f64, logits: &[f32]| {
            kept(&KIND, &SamplingOptions::default().with(&TYPICAL, p), logits)
        };
        // Entropy 0.9433; surprises 0.5108, 1.2040 and 2.3026, so 0.4325, 0.2607 and 1.3593 away from it.
        let logits = [0.6f32, 0.3, 0.1].map(f32::ln);
        assert_eq!(kept(0.0, &logits), [1]);
        assert_eq!(kept(0.25, &logits), [1]);
        assert_eq!(kept(0.35, &logits), [0, 1]);
        assert_eq!(kept(0.95, &logits), [0, 1, 2]);
    }
}
