//! Log probabilities of the model itself: from the logits before any stage.

use super::candidates::Candidates;

/// A token with its log probability.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TokenProbability {
    /// Token id.
    pub id: u32,
    /// Natural logarithm of the softmax over all logits.
    pub log_probability: f32,
}

/// The logarithm of the sum of exponentials, in double precision.
fn log_sum(logits: &[f32]) -> f64 {
    let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    if max == f32::NEG_INFINITY {
        return f64::NEG_INFINITY;
    }
    let sum: f64 = logits
        .iter()
        .map(|&logit| f64::from((logit - max).exp()))
        .sum();
    sum.ln() + f64::from(max)
}

/// The log probability of one token; negative infinity outside the vocabulary.
pub fn log_probability(logits: &[f32], id: u32) -> f32 {
    match logits.get(id as usize) {
        Some(&logit) => (f64::from(logit) - log_sum(logits)) as f32,
        None => f32::NEG_INFINITY,
    }
}

/// The `n` most probable tokens, best first, equal ones by id.
pub fn top_log_probabilities(logits: &[f32], n: usize) -> Vec<TokenProbability> {
    if n == 0 {
        return Vec::new();
    }
    let mut candidates = Candidates::default();
    candidates.fill(logits);
    candidates.keep_best(n);
    let log_sum = log_sum(logits);
    let items = candidates.items().iter();
    items
        .map(|candidate| TokenProbability {
            id: candidate.id,
            log_probability: (f64::from(candidate.logit) - log_sum) as f32,
        })
        .collect()
}
