//! The tokens still in play.

use std::cmp::Ordering;

/// A token and its logit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// Token id.
    pub id: u32,
    /// Logit, as changed by the stages so far.
    pub logit: f32,
}

/// The tokens still in play; the allocation is kept from step to step.
#[derive(Default)]
pub struct Candidates {
    items: Vec<Candidate>,
    /// How many of the first items are the best ones, best first.
    n_sorted: usize,
    /// Whether item i still is token i.
    dense: bool,
}

/// Best first; equal logits by id.
fn order(a: &Candidate, b: &Candidate) -> Ordering {
    b.logit.total_cmp(&a.logit).then(a.id.cmp(&b.id))
}

/// The natural logarithm of the sum of the exponentials of logits; nothing where all are forbidden.
pub(super) fn log_sum(logits: impl Iterator<Item = f32> + Clone) -> Option<f64> {
    let max = logits.clone().fold(f32::NEG_INFINITY, f32::max);
    if max == f32::NEG_INFINITY {
        return None;
    }
    let sum: f64 = logits.map(|logit| f64::from((logit - max).exp())).sum();
    Some(sum.ln() + f64::from(max))
}

impl Candidates {
    /// Starts over with all tokens.
    pub fn fill(&mut self, logits: &[f32]) {
        self.items.clear();
        // adding zero turns -0.0 into 0.0, so that the total order below sees them as equal
        self.items
            .extend(logits.iter().enumerate().map(|(id, &logit)| Candidate {
                id: id as u32,
                logit: logit + 0.0,
            }));
        self.n_sorted = 0;
        self.dense = true;
    }

    /// Forbids tokens.
    pub(super) fn forbid(&mut self, is_forbidden: impl Fn(u32) -> bool) {
        for candidate in &mut self.items {
            if is_forbidden(candidate.id) {
                candidate.logit = f32::NEG_INFINITY;
            }
        }
        self.n_sorted = 0;
    }

    /// The tokens, the first [`Candidates::n_sorted`] of them best first.
    pub fn items(&self) -> &[Candidate] {
        &self.items
    }

    /// How many of the first items are known to be the best ones, best first.
    pub fn n_sorted(&self) -> usize {
        self.n_sorted
    }

    /// The number of tokens in play.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether no token is left.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The best token, by logit and then by lowest id; none if all are forbidden.
    pub fn best(&self) -> Option<Candidate> {
        let best = match self.n_sorted {
            0 => self
                .items
                .iter()
                .copied()
                .reduce(|a, b| if order(&b, &a).is_lt() { b } else { a })?,
            _ => self.items[0],
        };
        (best.logit > f32::NEG_INFINITY).then_some(best)
    }

    /// The natural logarithm of the sum of the exponentials of all logits; nothing where all tokens are forbidden.
    pub fn log_sum(&self) -> Option<f64> {
        log_sum(self.items.iter().map(|candidate| candidate.logit))
    }

    /// Ids and log probabilities of the possible tokens, in their order.
    pub fn log_probabilities(&self) -> impl Iterator<Item = (u32, f64)> {
        let log_sum = self.log_sum();
        self.items.iter().filter_map(move |candidate| {
            let possible = candidate.logit > f32::NEG_INFINITY;
            let log_probability = f64::from(candidate.logit) - log_sum?;
            possible.then_some((candidate.id, log_probability))
        })
    }

    /// The expected surprise in nats; nothing where all tokens are forbidden.
    pub fn entropy(&self) -> Option<f64> {
        let mean = |(_, log_probability): (u32, f64)| -log_probability * log_probability.exp();
        self.log_sum()?;
        Some(self.log_probabilities().map(mean).sum())
    }

    /// Adds to one token's logit, if it is in play.
    pub fn shift(&mut self, id: u32, by: f32) {
        self.update(id, |logit| logit + by);
    }

    /// Changes one token's logit, if it is in play.
    pub fn update(&mut self, id: u32, change: impl FnOnce(f32) -> f32) {
        let index = match self.dense {
            true => Some(id as usize).filter(|&index| index < self.items.len()),
            false => self.items.iter().position(|candidate| candidate.id == id),
        };
        if let Some(index) = index {
            let candidate = &mut self.items[index];
            candidate.logit = change(candidate.logit) + 0.0;
            self.n_sorted = 0;
        }
    }

    /// Changes all logits by a rising function, which keeps the order.
    pub fn map_rising(&mut self, change: impl Fn(f32) -> f32) {
        for candidate in &mut self.items {
            candidate.logit = change(candidate.logit);
        }
    }

    /// Changes the logits of all possible tokens.
    pub fn map(&mut self, change: impl Fn(f32) -> f32) {
        for candidate in &mut self.items {
            if candidate.logit > f32::NEG_INFINITY {
                candidate.logit = change(candidate.logit) + 0.0;
            }
        }
        self.n_sorted = 0;
    }

    /// Keeps the first `n` tokens.
    pub fn truncate(&mut self, n: usize) {
        if n < self.items.len() {
            self.items.truncate(n);
            self.n_sorted = self.n_sorted.min(n);
            self.dense = false;
        }
    }

    /// Keeps the tokens with at least this logit, in their order.
    pub fn keep_at_least(&mut self, logit_min: f32) {
        if self.n_sorted == self.items.len() {
            let n = self
                .items
                .partition_point(|candidate| candidate.logit >= logit_min);
            return self.truncate(n);
        }
        self.retain(|candidate| candidate.logit >= logit_min);
    }

    /// Keeps the tokens for which `keep` holds, in their order; it sees each once, from first to last.
    pub fn retain(&mut self, mut keep: impl FnMut(&Candidate) -> bool) {
        let (n, n_sorted) = (self.items.len(), self.n_sorted);
        let mut index = 0;
        self.items.retain(|candidate| {
            let kept = keep(candidate);
            self.n_sorted -= usize::from(!kept && index < n_sorted);
            index += 1;
            kept
        });
        self.dense &= n == self.items.len();
    }

    /// Brings the `k` best tokens to the front, best first; the others keep no order.
    pub fn sort_best(&mut self, k: usize) {
        let k = k.min(self.items.len());
        if k == 0 || self.n_sorted >= k {
            return;
        }
        if k < self.items.len() {
            self.items.select_nth_unstable_by(k - 1, order);
        }
        self.items[..k].sort_unstable_by(order);
        self.n_sorted = k;
        self.dense = false;
    }

    /// Keeps the `k` best tokens, best first: one pass over the rest, without moving them.
    pub fn keep_best(&mut self, k: usize) {
        if k >= self.items.len() || self.n_sorted >= k {
            self.sort_best(k);
            return self.truncate(k);
        }
        // The front holds the best so far. Tokens that beat the worst of them gather behind, and the
        // front is selected anew whenever k of them have come together.
        let mut n = k;
        self.items[..k].sort_unstable_by(order);
        let mut worst = self.items[k - 1];
        for index in k..self.items.len() {
            let candidate = self.items[index];
            if candidate.logit < worst.logit || order(&candidate, &worst).is_gt() {
                continue;
            }
            // n <= index: what is overwritten has been looked at
            self.items[n] = candidate;
            n += 1;
            if n == 2 * k {
                self.items[..n].select_nth_unstable_by(k - 1, order);
                worst = self.items[k - 1];
                n = k;
            }
        }
        self.items.truncate(n);
        self.dense = false;
        self.n_sorted = 0;
        self.sort_best(k);
        self.truncate(k);
    }
}
