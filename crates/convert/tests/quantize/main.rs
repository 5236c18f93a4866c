//! Quantization of whole files: types, bytes of every tensor, sizes, refusals.

mod cases;
mod fixtures;
mod golden;
mod importance;
mod interrupted;
mod overrides;
mod pruning;
mod target;
