//! The reference's results, for tests only: where they are, how they are read and compared, how comparisons are counted.
//!
//! Everything here fails a test by a panic, with the file in its message.

mod checkpoint;

pub use checkpoint::{Checkpoint, checkpoints};

use std::path::{Path, PathBuf};

/// A folder of the golden data, or `None` (loudly) where it is absent; with `CI=true` its absence fails.
///
/// The data is looked for in `../shared/golden` beside the repository, or where `GRISTMILL_GOLDEN` points.
///
/// # Panics
/// Where the folder is absent and `CI` is `true`.
pub fn folder(part: &str) -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/golden");
    let root = std::env::var_os("GRISTMILL_GOLDEN").map_or(beside, PathBuf::from);
    let folder = root.join(part);
    if folder.exists() {
        return Some(folder);
    }
    let message = format!("golden data absent: {}", folder.display());
    assert!(std::env::var("CI").as_deref() != Ok("true"), "{message}");
    println!("{message} - NOTHING IS COMPARED");
    None
}

/// Says how many comparisons a test made, in the words by which `.ci/run` adds them up.
///
/// # Panics
/// Where there were none: a test that compares nothing must not pass.
pub fn compared(n: usize, what: &str) {
    assert!(n > 0, "no golden comparisons ({what})");
    println!("{what}: golden comparisons: {n}");
}

/// The values of a NumPy file (version 1) of little-endian float32 in C order, row after row.
///
/// # Panics
/// A file that cannot be read or is something else.
pub fn read_npy(path: impl AsRef<Path>) -> Vec<f32> {
    let path = path.as_ref();
    let bytes = read(path);
    let values = npy_values(&bytes);
    assert!(values.is_some(), "{}: no array of float32", path.display());
    values.unwrap_or_default()
}

fn npy_values(bytes: &[u8]) -> Option<Vec<f32>> {
    let header_len = u16::from_le_bytes([*bytes.get(8)?, *bytes.get(9)?]);
    let (header, data) = bytes.get(10..)?.split_at_checked(usize::from(header_len))?;
    let header = String::from_utf8_lossy(header);
    let is_plain = bytes.starts_with(b"\x93NUMPY\x01\0")
        && header.contains("'<f4'")
        && header.contains("'fortran_order': False");
    let (values, rest) = data.as_chunks::<4>();
    let values = values.iter().map(|value| f32::from_le_bytes(*value));
    (is_plain && rest.is_empty()).then(|| values.collect())
}

/// The largest absolute difference between two lists of numbers.
///
/// # Panics
/// Lists of different lengths or without a number, and values that are not finite: a maximum would pass over a NaN.
pub fn largest_difference(found: &[f32], expected: &[f32]) -> f32 {
    assert_eq!(found.len(), expected.len(), "numbers of values");
    assert!(!found.is_empty(), "there is nothing to compare");
    let mut largest = 0.0f32;
    for (place, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert!(
            found.is_finite() && expected.is_finite(),
            "value {place} is {found}, expected {expected}"
        );
        largest = largest.max((found - expected).abs());
    }
    largest
}

fn read(path: &Path) -> Vec<u8> {
    match std::fs::read(path) {
        Ok(bytes) => bytes,
        // A test's data is incomplete: nothing can be compared.
        Err(error) => panic!("{}: {error}", path.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_absolute_and_the_largest() {
        assert_eq!(largest_difference(&[1.0, -2.0], &[1.5, -2.25]), 0.5);
        assert_eq!(largest_difference(&[3.0], &[3.0]), 0.0);
    }

    #[test]
    fn what_is_no_number_is_no_small_difference() {
        for (found, expected) in [
            (f32::NAN, 1.0),
            (1.0, f32::NAN),
            (f32::NAN, f32::NAN),
            (f32::INFINITY, f32::INFINITY),
        ] {
            let compared =
                std::panic::catch_unwind(|| largest_difference(&[0.0, found], &[0.0, expected]));
            assert!(compared.is_err(), "{found} {expected}");
        }
        assert!(std::panic::catch_unwind(|| largest_difference(&[], &[])).is_err());
        assert!(std::panic::catch_unwind(|| largest_difference(&[1.0], &[])).is_err());
        assert!(std::panic::catch_unwind(|| compared(0, "nothing")).is_err());
    }

    #[test]
    fn arrays_are_read_or_refused() {
        let array = |header: &str, values: &[u8]| {
            let mut bytes = b"\x93NUMPY\x01\0".to_vec();
            bytes.extend((header.len() as u16).to_le_bytes());
            bytes.extend(header.as_bytes());
            bytes.extend(values);
            bytes
        };
        let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}";
        let sound = array(header, &[0, 0, 128, 63, 0, 0, 0, 192]);
        assert_eq!(npy_values(&sound), Some(vec![1.0, -2.0]));
        for damaged in [
            array(&header.replace("f4", "f8"), &[0; 8]),
            array(&header.replace("False", "True"), &[0; 8]),
            array(header, &[0; 7]),
            sound[..40].to_vec(),
            sound[1..].to_vec(),
            Vec::new(),
        ] {
            assert_eq!(npy_values(&damaged), None);
        }
    }
}
