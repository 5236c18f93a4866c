//! CPU detection, compute kernels per instruction set beside their plain twins, and the thread pool.
//!
//! All compute code that needs `unsafe` stands here; callers see safe functions over slices.
//!
//! Every kernel has a plain twin that defines its result. The instruction set is detected once
//! ([`select_isa`]) and picks a table of function pointers; an empty slot falls back to the plain kernel.
//! Reductions have one fixed order, so a result's bits do not depend on the number of threads, the width
//! of the batch or how the work was cut.

mod activations;
mod attention;
#[cfg(target_arch = "x86_64")]
mod avx2;
mod error;
mod experts;
mod isa;
pub mod llama_cpp;
mod matmul;
mod plain;
mod pool;
mod split;
mod table;
mod vector;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use activations::{Activations, prepare};
pub use attention::{AttentionBatch, AttentionShape, CacheView, attention};
pub use error::KernelError;
pub use experts::{ExpertOrder, matmul_experts};
pub use isa::{Isa, isa, select_isa};
pub use matmul::{MatrixProduct, matmul, matmul_many, supports};
pub use pool::{MAX_THREADS, Pool, n_threads};
pub use split::{RowTile, for_each_chunk, for_each_row_tile};
pub use table::isas_with_product;
pub use vector::*;

#[cfg(test)]
mod tests;
