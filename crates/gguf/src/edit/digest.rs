//! SHA-256 of bytes and of files.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use sha2::{Digest as _, Sha256};

use crate::error::{Error, Result};

/// A SHA-256 sum.
pub(super) type Sum = [u8; 32];

const BUFFER_BYTES: usize = 1 << 20;

pub(super) fn of_bytes(bytes: &[u8]) -> Sum {
    Sha256::digest(bytes).into()
}

/// The hash of a whole file, in hexadecimal. Every byte is read.
///
/// # Errors
/// [`Error::NotFound`], [`Error::Io`].
pub fn sha256_of_file(path: &Path) -> Result<String> {
    let error = |source| Error::io(path, "read the file", source);
    let mut file = File::open(path).map_err(error)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        match file.read(&mut buffer).map_err(error)? {
            0 => return Ok(hexadecimal(&hasher.finalize().into())),
            n => hasher.update(&buffer[..n]),
        }
    }
}

pub(super) fn hexadecimal(sum: &Sum) -> String {
    sum.iter().map(|byte| format!("{byte:02x}")).collect()
}
