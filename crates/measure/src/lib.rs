//! Looking at a model from outside.
//!
//! [`check`] tells whether a file is sound, from its first byte to its weights, and what to do where it is not.

#![forbid(unsafe_code)]

pub mod check;
mod error;

pub use error::MeasureError;
