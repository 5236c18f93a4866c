//! How much of a tensor's error reaches the answers, by what the tensor is.
//!
//! The figures are mean KL divergence per unit of relative squared error, found by giving one kind of tensor at a time
//! fewer bits (Q4_0, IQ4_NL and Q5_0 on SmolLM2-135M and Gemma 3 270m, each with the output matrix tied and apart). In
//! both models the sum over a kind's blocks shrinks with the number of blocks, while the mean of a block times that
//! number agrees within a factor of two; so the figures of blocks are divided by it.

use crate::recipe::TensorKind;

/// What the errors of a model's tensors weigh.
pub(super) struct Sensitivity {
    /// The embedding is the output matrix too.
    pub tied: bool,
    /// Blocks of the model.
    pub n_blocks: u64,
}

impl Sensitivity {
    /// The weight of the relative squared error of the tensor of this name.
    pub fn of(&self, name: &str) -> f64 {
        let of_model = match TensorKind::of(name) {
            TensorKind::TokenEmbedding if self.tied => return 8.0,
            TensorKind::TokenEmbedding => return 1.2,
            TensorKind::Output => return 7.0,
            TensorKind::Value | TensorKind::Down => 9.0,
            TensorKind::Up => 5.3,
            TensorKind::Gate | TensorKind::Other => 3.0,
            TensorKind::AttentionOutput => 2.2,
            TensorKind::Query | TensorKind::Key => 1.4,
        };
        of_model / self.n_blocks.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::Sensitivity;

    #[test]
    fn errors_weigh_by_kind_and_depth() {
        let of = |tied, n_blocks, name| Sensitivity { tied, n_blocks }.of(name);
        assert_eq!(of(true, 30, "token_embd.weight"), 8.0);
        assert_eq!(of(false, 30, "token_embd.weight"), 1.2);
        assert_eq!(of(false, 30, "output.weight"), 7.0);
        assert_eq!(of(false, 30, "blk.7.attn_v.weight"), 0.3);
        assert_eq!(of(false, 30, "blk.7.attn_qkv.weight"), 0.3);
        assert_eq!(of(false, 10, "blk.7.ffn_down_exps.weight"), 0.9);
        assert_eq!(of(false, 0, "blk.7.attn_q.weight"), 1.4);
    }
}
