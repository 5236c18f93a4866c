//! Looking at a model from outside.
//!
//! [`check`] tells whether a file is sound, from its first byte to its weights, and what to do where it is not;
//! [`estimate`] how much memory it takes to run; [`perplexity`] how well it foretells a text, alone and beside its base.

#![forbid(unsafe_code)]

pub mod check;
mod error;
pub mod estimate;
pub mod perplexity;

pub use error::MeasureError;
