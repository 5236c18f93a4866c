//! The parts of a block. Where architectures differ, a choice or the presence of a tensor decides.

pub mod attention;
pub mod experts;
pub mod feed_forward;
pub mod norm;
pub mod rope;

use gristmill_compute::{GraphBuilder, Tensor, Value};

/// `weight` times `x`, plus the bias where there is one: `[n_in, n_tokens] -> [n_out, n_tokens]`.
pub(crate) fn linear(
    graph: &mut GraphBuilder,
    weight: &Tensor,
    bias: Option<&Tensor>,
    x: Value,
) -> Value {
    let product = graph.matmul(weight, x);
    match bias {
        Some(bias) => graph.add_row(product, bias),
        None => product,
    }
}
