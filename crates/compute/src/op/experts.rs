//! Feed-forward parts of which each token takes some: which ones, their products, and the sum of what they give.
//!
//! Routes are a value `[2 * n_used, n_tokens]`: of each token the numbers of its experts, best first, and then their weights.

use super::matmul::check_weight;
use crate::{ComputeError, Shape, Tensor};

/// Most experts of a layer; their numbers must be exact as f32.
const EXPERTS_MAX: usize = 1 << 16;

/// Picks the `n_used` best experts of each token by the router's logits `[n_experts, n_tokens]`, of equals the lower number, and
/// weights them by the softmax of all.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Route {
    /// Experts that each token takes.
    pub n_used: usize,
    /// Whether the weights of a token's experts are divided by their sum.
    pub normalized: bool,
    /// Multiplies the weights at the end.
    pub scale: f32,
}

impl Route {
    pub(super) fn output_shape(&self, logits: Shape) -> Result<Shape, ComputeError> {
        let op = "route";
        let [n_experts, n_tokens, ..] = logits.dims();
        let parameter = |what, found| Err(ComputeError::Parameter { op, what, found });
        if n_experts > EXPERTS_MAX {
            return parameter("n_experts (at most 65536)", n_experts as f64);
        }
        if self.n_used == 0 || self.n_used > n_experts {
            return parameter(
                "n_used (from 1 to the number of experts)",
                self.n_used as f64,
            );
        }
        if !self.scale.is_finite() {
            return parameter("scale (finite)", f64::from(self.scale));
        }
        let routes = Shape::new(&[2 * self.n_used, n_tokens])?;
        if logits.dims() != [n_experts, n_tokens, 1, 1] {
            let what = "logits must be [n_experts, n_tokens]";
            return Err(ComputeError::Shape {
                op,
                what,
                left: logits,
                right: routes,
            });
        }
        Ok(routes)
    }

    /// The route of one token: `logits`, `[n_experts]`, are used up. What is not a number in them makes all weights so.
    pub(crate) fn route(&self, logits: &mut [f32], route: &mut [f32]) {
        let (experts, weights) = route.split_at_mut(self.n_used);
        softmax(logits);
        let any_nan = logits.iter().any(|x| x.is_nan());
        for (rank, (expert, weight)) in experts.iter_mut().zip(weights.iter_mut()).enumerate() {
            let best = if any_nan { rank } else { best(logits) };
            (*expert, *weight) = (best as f32, if any_nan { f32::NAN } else { logits[best] });
            // It is not picked again.
            logits[best] = f32::NAN;
        }
        if self.normalized {
            let sum: f32 = weights.iter().sum();
            // As in the reference, no sum is smaller than the least normal f16.
            let sum = if sum < SUM_MIN { SUM_MIN } else { sum };
            weights.iter_mut().for_each(|weight| *weight /= sum);
        }
        weights.iter_mut().for_each(|weight| *weight *= self.scale);
    }
}

const SUM_MIN: f32 = 6.103_515_6e-5;

/// The first of the largest weights, those that are no numbers aside.
fn best(weights: &[f32]) -> usize {
    let left = (0..weights.len()).filter(|&index| !weights[index].is_nan());
    let better = |best: usize, index: usize| match weights[index] > weights[best] {
        true => index,
        false => best,
    };
    // There are at least as many as are picked.
    left.reduce(better).unwrap_or(0)
}

fn softmax(x: &mut [f32]) {
    let largest = x
        .iter()
        .fold(f32::NEG_INFINITY, |largest, &x| largest.max(x));
    x.iter_mut().for_each(|x| *x = (*x - largest).exp());
    let sum: f32 = x.iter().sum();
    x.iter_mut().for_each(|x| *x /= sum);
}

/// Products with each token's experts: `weight` `[n_in, n_out, n_experts]`, routes, and a value `[n_in, n_tokens]` or
/// `[n_in, n_used, n_tokens]`, one column for all of a token's experts or one for each, give `[n_out, n_used, n_tokens]`.
#[derive(Clone, Debug, PartialEq)]
pub struct ExpertMatMul {
    /// The weights of all experts, of any type with a codec.
    pub weight: Tensor,
}

impl ExpertMatMul {
    pub(super) fn output_shape(&self, x: Shape, routes: Shape) -> Result<Shape, ComputeError> {
        let op = "expert_matmul";
        let [n_in, n_out, n_experts, outer] = self.weight.shape.dims();
        let (n_used, n_tokens) = of_routes(routes);
        let columns = [x.dims()[1], x.dims()[2]];
        let fits = columns == [n_tokens, 1] || columns == [n_used, n_tokens];
        let whole = n_in == x.row_len() && n_in > 0 && outer == 1 && x.dims()[3] == 1;
        if !(fits && whole && n_used <= n_experts) {
            return Err(ComputeError::Shape {
                op,
                what: "value, routes and weight",
                left: x,
                right: self.weight.shape,
            });
        }
        check_weight(op, &self.weight)?;
        Shape::new(&[n_out, n_used, n_tokens])
    }
}

/// Shape of the sum of what a token's experts gave, `[n, n_used, n_tokens]`, by the weights of its route: `[n, n_tokens]`.
pub(super) fn combined_shape(x: Shape, routes: Shape) -> Result<Shape, ComputeError> {
    let (n_used, n_tokens) = of_routes(routes);
    if x.dims() != [x.row_len(), n_used, n_tokens, 1] {
        return Err(ComputeError::Shape {
            op: "combine",
            what: "value and routes",
            left: x,
            right: routes,
        });
    }
    Shape::new(&[x.row_len(), n_tokens])
}

/// Experts that each token takes, and the tokens.
fn of_routes(routes: Shape) -> (usize, usize) {
    (routes.row_len() / 2, routes.dims()[1])
}
