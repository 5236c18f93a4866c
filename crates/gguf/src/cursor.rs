//! A reader over the bytes of a file that knows where it is, in which byte order, and what is left.

use std::path::Path;

use crate::error::{Error, Result};

/// The order of the bytes in a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Endian {
    #[default]
    /// Least significant byte first: nearly every file.
    Little,
    /// Most significant byte first: files for IBM Z and other such machines.
    Big,
}

impl Endian {
    /// The order of this machine.
    pub const NATIVE: Endian = if cfg!(target_endian = "big") {
        Endian::Big
    } else {
        Endian::Little
    };

    /// The order as one word: `little` or `big`.
    pub fn name(self) -> &'static str {
        match self {
            Endian::Little => "little",
            Endian::Big => "big",
        }
    }
}

pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    place: usize,
    pub(crate) endian: Endian,
    pub(crate) path: &'a Path,
}

/// A number of fixed width in either byte order.
pub(crate) trait Number: Sized + Copy {
    fn read(bytes: &[u8], endian: Endian) -> Option<Self>;
    fn write(self, endian: Endian, out: &mut Vec<u8>);
}

macro_rules! numbers {
    ($($type:ty),*) => {$(
        impl Number for $type {
            fn read(bytes: &[u8], endian: Endian) -> Option<Self> {
                let bytes = bytes.try_into().ok()?;
                Some(match endian {
                    Endian::Little => <$type>::from_le_bytes(bytes),
                    Endian::Big => <$type>::from_be_bytes(bytes),
                })
            }
            fn write(self, endian: Endian, out: &mut Vec<u8>) {
                out.extend_from_slice(&match endian {
                    Endian::Little => self.to_le_bytes(),
                    Endian::Big => self.to_be_bytes(),
                });
            }
        }
    )*};
}

numbers!(u8, i8, u16, i16, u32, i32, f32, u64, i64, f64);

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8], path: &'a Path, endian: Endian) -> Cursor<'a> {
        Cursor {
            bytes,
            place: 0,
            endian,
            path,
        }
    }

    /// Where the next read starts, in bytes from the start of the file.
    pub(crate) fn place(&self) -> u64 {
        self.place as u64
    }

    /// The bytes that are left.
    pub(crate) fn remaining(&self) -> u64 {
        (self.bytes.len() - self.place) as u64
    }

    /// The next `n` bytes; `what` says in an error what they would have been.
    pub(crate) fn take(&mut self, n: u64, what: impl Fn() -> String) -> Result<&'a [u8]> {
        if n > self.remaining() {
            return Err(self.truncated(n, what()));
        }
        let start = self.place;
        // `n` is at most what is left of a slice, so it fits in `usize` and the sum in the slice.
        self.place += n as usize;
        Ok(&self.bytes[start..self.place])
    }

    /// Passes over the next `n` bytes.
    pub(crate) fn skip(&mut self, n: u64, what: impl Fn() -> String) -> Result<()> {
        self.take(n, what).map(|_| ())
    }

    /// The next number.
    pub(crate) fn number<T: Number>(&mut self, what: impl Fn() -> String) -> Result<T> {
        let n = size_of::<T>() as u64;
        let (available, place) = (self.remaining(), self.place());
        let bytes = self.take(n, &what)?;
        // `take` gave exactly the bytes of a `T`, so this is never an error; kept as one all the
        // same, rather than as a panic.
        T::read(bytes, self.endian).ok_or_else(|| Error::Truncated {
            path: self.path.to_owned(),
            what: what(),
            offset: place,
            needed: n,
            available,
        })
    }

    pub(crate) fn truncated(&self, needed: u64, what: String) -> Error {
        Error::Truncated {
            path: self.path.to_owned(),
            what,
            offset: self.place(),
            needed,
            available: self.remaining(),
        }
    }
}
