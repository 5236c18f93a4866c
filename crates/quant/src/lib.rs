//! What a block's bytes mean: id, name, size, decode, encode and plain dot of every tensor type.
//!
//! A tensor's row is a run of blocks; a block is a fixed number of elements stored together. [`TensorType`]
//! is the handle to everything known about a type; [`block`] holds the structs that kernels read.
//!
//! Encoders follow the reference's arithmetic in f32, every product rounded (no fused multiply-add), in the
//! reference's order of operations, so that the bytes match.

pub mod block;
mod codec;
mod error;
mod grid;
mod grid_search;
mod half_float;
mod lanes;
mod levels;
mod nearest_point;
mod nonlinear;
mod odd_scales;
mod policy;
mod positive_search;
mod registry;
mod search;
mod signs;
mod super_block;
mod ternary_search;
mod types;

/// Encoders and decoders as source that a kernel compiles for its own instruction set.
pub mod encoding {
    pub use crate::codec::{Block, DecodeRows, Encode, EncodeRows, decode_blocks, encode_rows};
    pub use crate::lanes::{LANES, Lanes, LevelTable, Plain};
}

pub use error::QuantError;
pub use half_float::{bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16};
pub use policy::{BySize, OwnRecipe, Policy, Readers};
pub use registry::{Format, TensorType};
pub use types::constants::*;

/// Elements of a super-block: the block of all `_K`, `IQ` (but `IQ4_NL`) and `TQ` types.
pub const SUPER_BLOCK: usize = 256;
