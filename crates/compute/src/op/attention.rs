//! The paged cache of keys and values, and attention to it.

use super::elementwise::check_cap;
use crate::{BatchShape, ComputeError, Shape, Tensor};

/// The cache of one layer, in pages of `page_len` positions: `[head_dim, page_len, n_head_kv, n_pages]`.
///
/// Element `d` of head `h` in slot `s` lies at `[d, s % page_len, h, s / page_len]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KvLayer {
    /// Keys.
    pub k: Tensor,
    /// Values; their head dimension may differ from the keys'.
    pub v: Tensor,
    /// Positions per page.
    pub page_len: usize,
    /// The page table by which positions are found: layers that forget at another pace have another one.
    pub table: usize,
}

impl KvLayer {
    /// Checks types and that both halves describe the same pages.
    fn check(&self, op: &'static str) -> Result<(), ComputeError> {
        for ty in [self.k.ty, self.v.ty] {
            if !ty.policy().for_cache {
                return Err(ComputeError::Type {
                    op,
                    ty,
                    what: "no cache can have it",
                });
            }
        }
        let ([k_dim, k_page, k_heads, k_pages], [v_dim, v_page, v_heads, v_pages]) =
            (self.k.shape.dims(), self.v.shape.dims());
        let same = (k_page, k_heads, k_pages) == (v_page, v_heads, v_pages);
        if !same || k_page != self.page_len || self.page_len == 0 || k_dim == 0 || v_dim == 0 {
            let what = "keys and values are not [head_dim, page_len, n_head_kv, n_pages]";
            return Err(ComputeError::Shape {
                op,
                what,
                left: self.k.shape,
                right: self.v.shape,
            });
        }
        self.k.n_bytes()?;
        self.v.n_bytes()?;
        Ok(())
    }

    /// Slots of the whole cache.
    pub(crate) fn n_slots(&self) -> usize {
        self.page_len * self.n_pages()
    }

    /// Pages of the cache.
    pub(crate) fn n_pages(&self) -> usize {
        self.k.shape.dims()[3]
    }
}

/// Writes the batch's keys `[key_dim, n_head_kv, n_tokens]` and values to the slots of `Input::Slots`.
#[derive(Clone, Debug, PartialEq)]
pub struct StoreKv {
    /// The cache.
    pub layer: KvLayer,
}

impl StoreKv {
    pub(super) fn output_shape(
        &self,
        k: Shape,
        v: Shape,
        batch: &BatchShape,
    ) -> Result<Shape, ComputeError> {
        let op = "store_kv";
        self.layer.check(op)?;
        for (value, cache) in [(k, self.layer.k.shape), (v, self.layer.v.shape)] {
            let [head_dim, _, n_head_kv, _] = cache.dims();
            let split = [head_dim, n_head_kv, batch.n_tokens, 1];
            let flat = [head_dim * n_head_kv, batch.n_tokens, 1, 1];
            if value.dims() != split && value.dims() != flat {
                let what = "value and cache";
                return Err(ComputeError::Shape {
                    op,
                    what,
                    left: value,
                    right: cache,
                });
            }
        }
        Ok(Shape::EMPTY)
    }
}

/// The choices of one attention.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attention {
    /// Query heads.
    pub n_head: usize,
    /// Key and value heads, a divisor of `n_head`; query head `h` reads head `h / (n_head / n_head_kv)`.
    pub n_head_kv: usize,
    /// Elements of a query and key head.
    pub key_dim: usize,
    /// Elements of a value head.
    pub value_dim: usize,
    /// Multiplies the product of query and key.
    pub scale: f32,
    /// Whether llama.cpp multiplies the queries with it before the product: a backend that follows its roundings must know.
    pub scales_queries: bool,
    /// `cap * tanh(score / cap)` after the scale.
    pub softcap: Option<f32>,
    /// A query at `p` sees no key at or before `p - window`.
    pub window: Option<usize>,
    /// Whether a query sees no later position. Otherwise it sees its sequence up to the last token of the batch.
    pub causal: bool,
}

/// Attention of the queries `[key_dim, n_head, n_tokens]` to the cache, after [`StoreKv`] of the same layer.
#[derive(Clone, Debug, PartialEq)]
pub struct Attend {
    /// The cache.
    pub layer: KvLayer,
    /// Heads, scale, window.
    pub attention: Attention,
}

impl Attend {
    pub(super) fn output_shape(&self, q: Shape, batch: &BatchShape) -> Result<Shape, ComputeError> {
        let op = "attention";
        self.layer.check(op)?;
        let Attention {
            n_head,
            n_head_kv,
            key_dim,
            value_dim,
            ..
        } = self.attention;
        let parameter = |what, found| Err(ComputeError::Parameter { op, what, found });
        if n_head_kv == 0 || !n_head.is_multiple_of(n_head_kv) {
            return parameter("n_head_kv (a divisor of n_head)", n_head_kv as f64);
        }
        if self.attention.window == Some(0) {
            return parameter("window (positive)", 0.0);
        }
        if let Some(cap) = self.attention.softcap {
            check_cap(op, cap)?;
        }
        if q.dims() != [key_dim, n_head, batch.n_tokens, 1] {
            let right = Shape::new(&[key_dim, n_head, batch.n_tokens])?;
            return Err(ComputeError::Shape {
                op,
                what: "query",
                left: q,
                right,
            });
        }
        for (dim, cache) in [
            (key_dim, self.layer.k.shape),
            (value_dim, self.layer.v.shape),
        ] {
            let [head_dim, _, heads, _] = cache.dims();
            if head_dim != dim || heads != n_head_kv {
                let right =
                    Shape::new(&[dim, self.layer.page_len, n_head_kv, self.layer.n_pages()])?;
                return Err(ComputeError::Shape {
                    op,
                    what: "cache",
                    left: cache,
                    right,
                });
            }
        }
        let width = Shape::new(&[value_dim, n_head])?.n_elements();
        Shape::new(&[width, batch.n_tokens])
    }
}
