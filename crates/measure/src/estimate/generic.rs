//! The estimate for a model of which only sizes are known.

/// The sizes.
#[derive(Clone, Copy, Debug)]
pub struct Generic {
    /// Weights, in thousands of millions.
    pub params_b: f64,
    /// Bits per weight.
    pub bpw: f64,
    /// Layers.
    pub layers: u64,
    /// Positions of one sequence.
    pub context: u64,
    /// Key and value heads of a layer.
    pub kv_heads: u64,
    /// Elements of a head.
    pub head_dim: u64,
    /// Bytes of an element of the cache.
    pub kv_bytes: f64,
    /// Sequences at a time, each with a context of its own.
    pub sequences: u64,
    /// Everything else, in GiB.
    pub overhead_gib: f64,
}

/// What they come to, in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GenericEstimate {
    /// The weights.
    pub weights: f64,
    /// Keys and values.
    pub cache: f64,
    /// Everything else.
    pub overhead: f64,
}

impl GenericEstimate {
    /// All of it.
    pub fn total(&self) -> f64 {
        self.weights + self.cache + self.overhead
    }
}

impl Generic {
    /// The estimate: bits of all weights; a key and a value per layer, position, head and element.
    pub fn estimate(&self) -> GenericEstimate {
        let factors = [self.layers, self.context, self.kv_heads, self.head_dim];
        let n_elements: f64 = factors.iter().map(|&factor| factor as f64).product();
        GenericEstimate {
            weights: self.params_b * 1e9 * self.bpw / 8.0,
            cache: 2.0 * n_elements * self.kv_bytes * self.sequences as f64,
            overhead: self.overhead_gib * f64::from(1 << 30),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 32 layers, 8,192 positions, 8 heads of 128 at 2 bytes are 1,073,741,824 bytes; 7 thousand million weights of 4.8 bits
    /// 3.91 GiB.
    #[test]
    fn a_model_of_seven_thousand_million() {
        let sizes = Generic {
            params_b: 7.0,
            bpw: 4.8,
            layers: 32,
            context: 8192,
            kv_heads: 8,
            head_dim: 128,
            kv_bytes: 2.0,
            sequences: 1,
            overhead_gib: 1.5,
        };
        let estimate = sizes.estimate();
        assert_eq!(estimate.cache, 1_073_741_824.0);
        assert_eq!(estimate.weights, 4.2e9);
        assert_eq!(estimate.overhead, 1_610_612_736.0);
        let all_heads = Generic {
            kv_heads: 32,
            sequences: 2,
            ..sizes
        };
        assert_eq!(all_heads.estimate().cache, 8_589_934_592.0);
    }
}
