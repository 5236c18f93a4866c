//! Golden data for tests.

use std::path::Path;

pub use gristmill_golden::{compared, folder as golden, largest_difference, read_npy};

pub fn read_json(path: impl AsRef<Path>) -> serde_json::Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}
