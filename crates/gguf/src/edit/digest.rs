//! SHA-256 of headers.

use sha2::{Digest as _, Sha256};

pub(super) use crate::hash::hexadecimal;

/// A SHA-256 sum.
pub(super) type Sum = [u8; 32];

pub(super) fn of_bytes(bytes: &[u8]) -> Sum {
    Sha256::digest(bytes).into()
}
