//! Routing, and the sums over a token's experts. Their products are in `product.rs`.

use super::parallel::for_rows;
use super::{Run, operand, places};
use crate::op::Route;
use crate::{ComputeError, Step};
use gristmill_kernels as kernels;

impl Run<'_> {
    /// Of each token the numbers of its experts, then their weights.
    pub fn route(
        &self,
        op: &Route,
        step: &Step,
        values: &mut [f32],
        logits: &mut Vec<f32>,
    ) -> Result<(), ComputeError> {
        logits.clear();
        logits.extend_from_slice(operand(step, step.operands[0], values)?);
        let (n_routes, route_len) = (step.shape.n_rows(), step.shape.row_len());
        let n_experts = logits.len() / n_routes.max(1);
        let routes = super::output(step, values)?;
        // A token is little work, and a batch has few: all on one thread.
        for (logits, route) in logits
            .chunks_exact_mut(n_experts.max(1))
            .zip(routes.chunks_exact_mut(route_len.max(1)))
        {
            op.route(logits, route);
        }
        Ok(())
    }

    /// The sum over a token's experts, in the order of its route.
    pub fn combine(&self, step: &Step, values: &mut [f32]) -> Result<(), ComputeError> {
        let [n, n_tokens, ..] = step.shape.dims();
        let [x, routes] = step.operands;
        let parts = values.get_disjoint_mut([step.output.range(), x.range(), routes.range()]);
        let [out, x, routes] = parts.map_err(|_| places(step))?;
        let n_used = routes.len() / (2 * n_tokens).max(1);
        let (x, routes) = (&*x, &*routes);
        for_rows(self.pool, out, n, n_used, |first, tokens| {
            for (token, out) in (first..).zip(tokens.chunks_exact_mut(n.max(1))) {
                let weights = &routes[(2 * token + 1) * n_used..][..n_used];
                out.fill(0.0);
                for (rank, &weight) in weights.iter().enumerate() {
                    kernels::add_scaled(out, weight, &x[(token * n_used + rank) * n..][..n]);
                }
            }
        });
        Ok(())
    }
}
