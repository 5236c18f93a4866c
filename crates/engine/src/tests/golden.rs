//! Golden data for tests.

use std::path::{Path, PathBuf};

use serde_json::Value;

/// A part of the golden data, or none with a loud word (an error on CI).
pub fn golden(part: &str) -> Option<PathBuf> {
    let default = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/golden");
    let folder = std::env::var_os("GRISTMILL_GOLDEN").map_or(PathBuf::from(default), PathBuf::from);
    let folder = folder.join(part);
    if folder.exists() {
        return Some(folder);
    }
    assert!(
        std::env::var("CI").as_deref() != Ok("true"),
        "golden data absent: {}",
        folder.display()
    );
    eprintln!("golden data absent: {}", folder.display());
    None
}

pub fn read_json(path: impl AsRef<Path>) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// The values of a NumPy file of float32 (version 1), row after row.
pub fn read_npy(path: impl AsRef<Path>) -> Vec<f32> {
    let bytes = std::fs::read(path).unwrap();
    assert_eq!(&bytes[..8], b"\x93NUMPY\x01\x00");
    let start = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    assert!(String::from_utf8_lossy(&bytes[..start]).contains("'<f4'"));
    bytes[start..]
        .chunks_exact(4)
        .map(|value| f32::from_le_bytes(value.try_into().unwrap()))
        .collect()
}
