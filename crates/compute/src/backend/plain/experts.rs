//! Experts, one pair of token and expert after the other.

use super::memory::Memory;
use super::ops::{columns_of, dot};
use crate::op::{ExpertMatMul, Route};
use crate::{ComputeError, Step};

/// Of each token the numbers of its experts, then their weights.
pub fn route(op: &Route, mut logits: Vec<f32>, step: &Step) -> Vec<f32> {
    let mut routes = vec![0.0; step.output.len];
    let n_experts = logits.len() / (routes.len() / (2 * op.n_used)).max(1);
    let tokens = logits.chunks_exact_mut(n_experts.max(1));
    for (logits, route) in tokens.zip(routes.chunks_exact_mut(2 * op.n_used)) {
        op.route(logits, route);
    }
    routes
}

pub fn expert_matmul(
    memory: &Memory,
    op: &ExpertMatMul,
    x: &[f32],
    routes: &[f32],
    step: &Step,
) -> Result<Vec<f32>, ComputeError> {
    let [n_out, n_used, n_tokens, _] = step.shape.dims();
    let columns = columns_of(&op.weight, x);
    let n_in = op.weight.shape.row_len();
    let pairs_per_column = n_used * n_tokens / (columns.len() / n_in).max(1);
    let mut out = Vec::with_capacity(n_out * n_used * n_tokens);
    for pair in 0..n_used * n_tokens {
        let expert = routes[pair / n_used * 2 * n_used + pair % n_used] as usize;
        let column = &columns[pair / pairs_per_column * n_in..][..n_in];
        for row in expert * n_out..(expert + 1) * n_out {
            out.push(dot(&memory.decoded_row(&op.weight, row)?, column));
        }
    }
    Ok(out)
}

pub fn combine(x: &[f32], routes: &[f32], step: &Step) -> Vec<f32> {
    let [n, n_tokens, ..] = step.shape.dims();
    let n_used = routes.len() / (2 * n_tokens).max(1);
    let sum = |(index, token)| {
        let weights = &routes[(2 * token + 1) * n_used..][..n_used];
        let terms = weights.iter().enumerate().map(|(rank, &weight)| {
            f64::from(weight) * f64::from(x[(token * n_used + rank) * n + index])
        });
        terms.sum::<f64>() as f32
    };
    let places = (0..n_tokens).flat_map(|token| (0..n).map(move |index| (index, token)));
    places.map(sum).collect()
}
