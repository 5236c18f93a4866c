//! The plain twins: portable Rust that defines every result.

mod attention;
mod product;
mod vector;

use crate::table::Kernels;

pub(crate) use product::product;

/// Every slot filled; products of all types go through [`product`].
pub(crate) static KERNELS: Kernels = Kernels {
    #[cfg(test)]
    isa: crate::Isa::Plain,
    products: &[],
    quantize_column: product::quantize_column,
    vector: vector::KERNELS,
    attention: attention::KERNELS,
};
