//! The hash functions, by the names that manifests use.

use std::io::Read as _;
use std::path::Path;

use sha1::Sha1;
use sha2::{Digest, Sha256};
use xxhash_rust::xxh64::Xxh64;

use crate::error::{Error, Result};

/// A hash function over tensor data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HashKind {
    /// xxHash with 64 bits and seed 0: quick, finds accidents, no protection against intent.
    Xxh64,
    /// SHA-1.
    Sha1,
    /// SHA-256.
    Sha256,
    /// A UUID of version 5 of all tensor data, in the reference's namespace.
    Uuid,
}

/// The namespace of the UUIDs: version 5 in the namespace of URLs, of `en.wikipedia.org/wiki/Llama.cpp`.
const UUID_NAMESPACE: [u8; 16] = [
    0xef, 0x00, 0x12, 0x06, 0xda, 0xdc, 0x5f, 0x6d, 0xa1, 0x5f, 0x33, 0x59, 0xe5, 0x77, 0xd4, 0xe5,
];

impl HashKind {
    /// All, in the order in which the reference prints them.
    pub const ALL: [HashKind; 4] = [
        HashKind::Xxh64,
        HashKind::Sha1,
        HashKind::Sha256,
        HashKind::Uuid,
    ];

    /// The name in manifests.
    pub fn name(self) -> &'static str {
        match self {
            HashKind::Xxh64 => "xxh64",
            HashKind::Sha1 => "sha1",
            HashKind::Sha256 => "sha256",
            HashKind::Uuid => "uuid",
        }
    }

    /// The kind of this name.
    pub fn from_name(name: &str) -> Option<HashKind> {
        HashKind::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Characters of a hash.
    pub(super) fn n_digits(self) -> usize {
        match self {
            HashKind::Xxh64 => 16,
            HashKind::Sha1 => 40,
            HashKind::Sha256 => 64,
            HashKind::Uuid => 36,
        }
    }

    /// Whether single tensors have a hash of this kind; a UUID names a whole model.
    pub fn is_for_tensors(self) -> bool {
        self != HashKind::Uuid
    }
}

/// A hash in the making.
pub(super) enum Hasher {
    Xxh64(Box<Xxh64>),
    Sha1(Sha1),
    Sha256(Sha256),
    Uuid(Sha1),
}

impl Hasher {
    pub(super) fn new(kind: HashKind) -> Hasher {
        match kind {
            HashKind::Xxh64 => Hasher::Xxh64(Box::new(Xxh64::new(0))),
            HashKind::Sha1 => Hasher::Sha1(Sha1::new()),
            HashKind::Sha256 => Hasher::Sha256(Sha256::new()),
            HashKind::Uuid => Hasher::Uuid(Sha1::new_with_prefix(UUID_NAMESPACE)),
        }
    }

    pub(super) fn update(&mut self, bytes: &[u8]) {
        match self {
            Hasher::Xxh64(state) => state.update(bytes),
            Hasher::Sha1(state) | Hasher::Uuid(state) => state.update(bytes),
            Hasher::Sha256(state) => state.update(bytes),
        }
    }

    /// The hash as it is written: lower-case hexadecimal, of a UUID in its five groups.
    pub(super) fn finish(self) -> String {
        match self {
            Hasher::Xxh64(state) => format!("{:016x}", state.digest()),
            Hasher::Sha1(state) => hexadecimal(&state.finalize()),
            Hasher::Sha256(state) => hexadecimal(&state.finalize()),
            Hasher::Uuid(state) => uuid(&state.finalize()),
        }
    }
}

/// The SHA-256 of a whole file of any kind, in hexadecimal. Every byte is read, and `told` of each piece how many bytes it
/// had.
///
/// # Errors
/// [`Error::NotFound`](crate::Error::NotFound), [`Error::Io`](crate::Error::Io).
pub fn sha256_of_file(path: &Path, told: &mut dyn FnMut(u64)) -> Result<String> {
    let error = |source| Error::io(path, "read the file", source);
    let mut file = std::fs::File::open(path).map_err(error)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer).map_err(error)? {
            0 => return Ok(hexadecimal(&hasher.finalize())),
            n => {
                hasher.update(&buffer[..n]);
                told(n as u64);
            }
        }
    }
}

pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// RFC 9562, section 5.5: the first 16 bytes of the SHA-1, with version and variant set.
fn uuid(digest: &[u8]) -> String {
    let mut bytes: Vec<u8> = digest.iter().copied().take(16).collect();
    bytes[6] = bytes[6] & 0x0f | 0x50;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let text = hexadecimal(&bytes);
    let groups = [0..8, 8..12, 12..16, 16..20, 20..32].map(|group| &text[group]);
    groups.join("-")
}
