//! The plain twins: portable Rust that defines every result.

mod attention;
mod product;
mod vector;

use crate::table::Kernels;

pub(crate) use attention::blend;
pub(crate) use product::{product, scale_of};
pub(crate) use vector::{GELU_CUBIC, SQRT_2_OVER_PI, rope_neox, rope_normal};

/// Every slot filled; products of all types go through [`product`].
pub(crate) const KERNELS: Kernels = Kernels {
    #[cfg(test)]
    isa: crate::Isa::Plain,
    types: &[],
    quantize: product::quantize,
    vector: vector::KERNELS,
    attention: attention::KERNELS,
};
