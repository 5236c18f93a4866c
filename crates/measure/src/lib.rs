//! Looking at a model from outside.
//!
//! [`check`] tells whether a file is sound, from its first byte to its weights, and what to do where it is not;
//! [`estimate`] how much memory it takes to run.

#![forbid(unsafe_code)]

pub mod check;
mod error;
pub mod estimate;

pub use error::MeasureError;
