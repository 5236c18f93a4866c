//! Changing the metadata of a file, and nothing else of it.
//!
//! [`Editor::open`] reads the header, [`Editor::plan`] works out the new one and how it gets into
//! the file, [`Plan::apply`] does it: in place, where the tensor data can stay where it is, else by
//! writing a new file that takes the old one's name when it is complete. Entries that no edit names
//! keep their bytes and their order, and so does the tensor data.
//!
//! The data of a GGUF file starts at the first multiple of the alignment after the directory, so a
//! header can only be kept at its length by what it holds: the entry [`RESERVED_KEY`], spaces that
//! mean nothing, grows and shrinks against the edits. [`crate::WriteOptions::reserve`] writes it
//! into new files.

mod backup;
mod danger;
mod digest;
mod draft;
mod in_place;
mod lock;
mod plan;
mod recover;
mod reserve;
mod rewrite;
#[cfg(test)]
mod tests;
mod text;
mod tokens;
mod undo;

use crate::value::Value;

pub use draft::Change;
pub(crate) use lock::Settled;
pub use plan::{EditOptions, Editor, Outcome, Plan, Way};
pub use recover::{Recovered, Recovery, recover, recover_on_open};
pub(crate) use recover::{forget, is_marked, open_settled, undo_is_gone};
pub use reserve::RESERVED_KEY;
pub(crate) use reserve::spaces;
pub use text::{integer_range, value_of, value_type_of};
pub(crate) use tokens::byte_distance;
pub use tokens::{SPECIAL_TOKENS, TokenMatch, find_token, special_token_key};

/// One change of metadata.
#[derive(Clone, Debug, PartialEq)]
pub enum Edit {
    /// Gives a key a value: in its place if the key is there, else as a new entry at the end.
    Set {
        /// The key.
        key: String,
        /// Its new value.
        value: Value,
    },
    /// Adds an entry at the end, whose key must not be there yet.
    Add {
        /// The key.
        key: String,
        /// Its value.
        value: Value,
    },
    /// Gives an entry another key; value and place stay.
    Rename {
        /// The key, which must be there.
        from: String,
        /// The new key, which must not.
        to: String,
    },
    /// Removes an entry, which must be there.
    Remove {
        /// The key.
        key: String,
    },
}
