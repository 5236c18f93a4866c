//! Log probabilities of the model itself: from the logits before any stage.

use super::candidates::{Candidates, log_sum};

/// A token with its log probability.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TokenProbability {
    /// Token id.
    pub id: u32,
    /// Natural logarithm of the softmax over all logits.
    pub log_probability: f32,
}

/// The log probability of one token; negative infinity outside the vocabulary.
pub fn log_probability(logits: &[f32], id: u32) -> f32 {
    let log_sum = log_sum(logits.iter().copied());
    match (logits.get(id as usize), log_sum) {
        (Some(&logit), Some(log_sum)) => (f64::from(logit) - log_sum) as f32,
        _ => f32::NEG_INFINITY,
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
    let log_sum = log_sum(logits.iter().copied()).unwrap_or(f64::INFINITY);
    let items = candidates.items().iter();
    items
        .map(|candidate| TokenProbability {
            id: candidate.id,
            log_probability: (f64::from(candidate.logit) - log_sum) as f32,
        })
        .collect()
}
