//! Rotary position embedding, in two ops: a table of cosines and sines that is made once per execution and
//! distinct [`Rope`], and the rotation that every layer does with it.

use super::float_vector;
use crate::{BatchShape, ComputeError, Shape, Tensor};

/// Which elements of a head form a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RopeStyle {
    /// `(2i, 2i + 1)`, as in llama files.
    Normal,
    /// `(i, i + n_dims / 2)`, as in Hugging Face code.
    NeoX,
}

/// Parameters of one rotary embedding.
///
/// Pair `i` turns by `position * f(i)`, where `f(i) = freq_base^(-2i / n_dims) / factors[i] * freq_scale`
/// without YaRN. Cosine and sine are multiplied by `attn_factor` (and by YaRN's `attn_factor`), exactly as
/// given: nothing is added behind the caller's back; [`Yarn::magnitude`] computes the usual value.
#[derive(Clone, Debug, PartialEq)]
pub struct Rope {
    /// Which elements pair up.
    pub style: RopeStyle,
    /// Leading elements of each head that turn, even; the rest passes through.
    pub n_dims: usize,
    /// Base of the frequencies (theta).
    pub freq_base: f32,
    /// 1 / scaling factor: 1 without scaling, 0.25 for "linear" with factor 4.
    pub freq_scale: f32,
    /// Frequency-dependent interpolation.
    pub yarn: Option<Yarn>,
    /// F32 `[n_dims / 2]`: divisors of the frequencies (Llama 3, LongRoPE).
    pub factors: Option<Tensor>,
    /// Multiplies cosine and sine; 1 by default.
    pub attn_factor: f32,
}

/// YaRN (arXiv 2309.00071): high frequencies keep their speed, low ones are scaled by `freq_scale`, with a
/// ramp between the pairs that turn `beta_fast` and `beta_slow` times over the original context.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Yarn {
    /// Share of extrapolation above the ramp: 1 is YaRN, 0 is linear scaling.
    pub ext_factor: f32,
    /// Multiplies cosine and sine, beside [`Rope::attn_factor`].
    pub attn_factor: f32,
    /// Turns where the ramp starts; 32 by default.
    pub beta_fast: f32,
    /// Turns where the ramp ends; 1 by default.
    pub beta_slow: f32,
    /// Context length of the original training.
    pub original_context: usize,
}

impl Yarn {
    /// The paper's magnitude for a scaling factor: `0.1 ln(factor) + 1`, and 1 for factors up to 1.
    pub fn magnitude(factor: f32) -> f32 {
        if factor <= 1.0 {
            1.0
        } else {
            0.1 * factor.ln() + 1.0
        }
    }
}

impl Rope {
    pub(super) fn table_shape(&self, batch: &BatchShape) -> Result<Shape, ComputeError> {
        let op = "rope_table";
        let parameter = |what, found| Err(ComputeError::Parameter { op, what, found });
        if self.n_dims == 0 || !self.n_dims.is_multiple_of(2) {
            return parameter("n_dims (even, not 0)", self.n_dims as f64);
        }
        if !(self.freq_base.is_finite() && self.freq_base > 0.0) {
            return parameter("freq_base (finite, positive)", f64::from(self.freq_base));
        }
        if !(self.freq_scale.is_finite() && self.freq_scale > 0.0) {
            return parameter("freq_scale (finite, positive)", f64::from(self.freq_scale));
        }
        let shape = Shape::new(&[self.n_dims, batch.n_tokens])?;
        if let Some(factors) = &self.factors {
            float_vector(op, factors, self.n_dims / 2, shape)?;
        }
        Ok(shape)
    }

    /// Radians per position of each pair, `n_dims / 2` of them, for divisors of the same number (or none).
    pub fn frequencies(&self, factors: Option<&[f32]>) -> impl Iterator<Item = f32> {
        let ramp = self.yarn.map(|yarn| (yarn, self.ramp(&yarn)));
        (0..self.n_dims / 2).map(move |pair| {
            let exponent = 2.0 * pair as f64 / self.n_dims as f64;
            let divisor = factors.and_then(|f| f.get(pair)).copied().unwrap_or(1.0);
            let full = f64::from(self.freq_base).powf(-exponent) as f32 / divisor;
            let scaled = full * self.freq_scale;
            match &ramp {
                None => scaled,
                Some((yarn, (low, high))) => {
                    let along = ((pair as f32 - low) / (high - low).max(0.001)).clamp(0.0, 1.0);
                    let keep = (1.0 - along) * yarn.ext_factor;
                    scaled * (1.0 - keep) + full * keep
                }
            }
        })
    }

    /// The angle of a pair that would turn by `full` without scaling, in f32 throughout.
    pub(crate) fn angle(&self, pair: usize, full: f32) -> f32 {
        let scaled = self.freq_scale * full;
        let Some(yarn) = self.yarn else {
            return scaled;
        };
        let (low, high) = self.ramp(&yarn);
        let along = ((pair as f32 - low) / (high - low).max(0.001)).clamp(0.0, 1.0);
        let keep = (1.0 - along) * yarn.ext_factor;
        scaled.mul_add(1.0 - keep, full * keep)
    }

    /// What cosine and sine are multiplied by.
    pub fn magnitude(&self) -> f32 {
        self.attn_factor * self.yarn.map_or(1.0, |yarn| yarn.attn_factor)
    }

    /// First and last pair of YaRN's ramp.
    fn ramp(&self, yarn: &Yarn) -> (f32, f32) {
        let n_dims = self.n_dims as f64;
        // The (fractional) pair that turns `turns` times over the original context.
        let pair_of = |turns: f32| {
            let context = yarn.original_context as f64;
            n_dims * (context / (f64::from(turns) * std::f64::consts::TAU)).ln()
                / (2.0 * f64::from(self.freq_base).ln())
        };
        let low = pair_of(yarn.beta_fast).floor().max(0.0);
        let high = pair_of(yarn.beta_slow).ceil().min(n_dims - 1.0);
        (low as f32, high as f32)
    }
}

/// Rotates the first `n_dims` elements of each head: `[head_dim, n_head, n_tokens]` by a table
/// `[n_dims, n_tokens]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rotate {
    /// Which elements pair up.
    pub style: RopeStyle,
    /// Elements that turn.
    pub n_dims: usize,
}

impl Rotate {
    pub(super) fn output_shape(&self, x: Shape, table: Shape) -> Result<Shape, ComputeError> {
        let [head_dim, _, n_tokens, outer] = x.dims();
        if self.n_dims > head_dim || outer != 1 || n_tokens != table.dims()[1] {
            let what =
                "the value is not [head_dim, n_head, n_tokens] for the table [n_dims, n_tokens]";
            return Err(ComputeError::Shape {
                op: "rope",
                what,
                left: x,
                right: table,
            });
        }
        Ok(x)
    }
}
