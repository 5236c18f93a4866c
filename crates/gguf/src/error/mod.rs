//! What can be wrong with a file, and what to do about it.
//!
//! Each section of errors stands in a file of its own, as a macro that hands its entries on to the next one; the last
//! one, `define_errors`, makes one type of all. An entry is all there is to write for an error: what it means, its
//! message, its fields (the file first, where there is one) and its remedy, which may be `none` but not left out.
//!
//! ```text
//! /// What it means.
//! #[error("{}: message with {field}", .path.display())]
//! Name {
//!     /// The file.
//!     path: PathBuf,
//!     /// What it is.
//!     field: u64,
//! } hint "what to do about it";
//! ```

#[macro_use]
mod path;
#[macro_use]
mod structure;
#[macro_use]
mod shard;
#[macro_use]
mod purpose;
#[macro_use]
mod edit;
#[macro_use]
mod output;

use std::io;
use std::path::{Path, PathBuf};

use shard::MIXED;
use structure::DAMAGED;

/// The result of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Makes the error type of the entries of all sections.
macro_rules! define_errors {
    ({ $(
        $(#[$($attribute:tt)*])*
        $variant:ident $({ $($fields:tt)* })? hint $hint:tt;
    )* }) => {
        /// Everything that can go wrong with a GGUF file. [`Error::hint`] gives the remedy where one is
        /// known.
        #[derive(Debug, thiserror::Error)]
        #[non_exhaustive]
        pub enum Error {
            $( $(#[$($attribute)*])* $variant $({ $($fields)* })?, )*
        }

        impl Error {
            /// The names of all variants, in the order of their sections.
            pub const NAMES: &[&str] = &[$( stringify!($variant) ),*];

            /// The name of its variant, one of [`Error::NAMES`].
            pub fn name(&self) -> &'static str {
                match self {
                    $( Error::$variant { .. } => stringify!($variant), )*
                }
            }

            /// The file that the error is about, where it is about one.
            pub fn path(&self) -> Option<&Path> {
                $( $( path_of!(self, $variant { $($fields)* }); )? )*
                None
            }

            /// What to do about it, where a remedy is known: one sentence for a `hint:` line.
            pub fn hint(&self) -> Option<&'static str> {
                $( hint_of!(self, $variant, $hint); )*
                None
            }
        }
    };
}

/// Answers with the file of a variant that has one.
macro_rules! path_of {
    ($error:expr, $variant:ident { $(#[$($attribute:tt)*])* path: PathBuf, $($rest:tt)* }) => {
        if let Error::$variant { path, .. } = $error {
            return Some(path);
        }
    };
    ($error:expr, $variant:ident { $($other:tt)* }) => {};
}

/// Answers with the remedy of a variant: a text, a field that holds it, or that of the error inside.
macro_rules! hint_of {
    ($error:expr, $variant:ident, none) => {};
    ($error:expr, $variant:ident, [of $field:ident]) => {
        if let Error::$variant { $field, .. } = $error {
            return $field.hint();
        }
    };
    ($error:expr, $variant:ident, [$field:ident]) => {
        if let Error::$variant { $field, .. } = $error {
            return Some($field);
        }
    };
    ($error:expr, $variant:ident, $hint:expr) => {
        if let Error::$variant { .. } = $error {
            return Some($hint);
        }
    };
}

path_errors! { {} structure_errors shard_errors purpose_errors edit_errors output_errors define_errors }

/// The first few of `n` names, for a message.
fn list(names: &[String], n: usize) -> String {
    let shown = names.join(", ");
    if n > names.len() {
        format!("{shown} and {} more", n - names.len())
    } else {
        shown
    }
}

/// Who it is, for a message, where that is known.
fn by_process(process: Option<u32>) -> String {
    process.map_or_else(String::new, |process| format!(" (process {process})"))
}

impl Error {
    /// An [`Error::Io`], or a clearer one for the answers that have a variant of their own.
    pub(crate) fn io(path: &Path, action: &'static str, source: io::Error) -> Error {
        let path = path.to_owned();
        match source.kind() {
            io::ErrorKind::NotFound => Error::NotFound { path },
            io::ErrorKind::IsADirectory => Error::IsFolder { path },
            _ => Error::Io {
                path,
                action,
                source,
            },
        }
    }

    /// The message without the path before it.
    pub(crate) fn reason(&self) -> String {
        let text = self.to_string();
        let path = self.path().map(|path| format!("{}: ", path.display()));
        let reason = path.and_then(|path| text.strip_prefix(&path).map(str::to_owned));
        reason.unwrap_or(text)
    }

    /// The same error with the file that it is in, for errors about metadata, which know only their
    /// key.
    pub fn in_file(self, path: &Path) -> Error {
        match self.path() {
            Some(_) => self,
            None => Error::InFile {
                path: path.to_owned(),
                error: Box::new(self),
            },
        }
    }
}
