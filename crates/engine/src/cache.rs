//! The past of every sequence: keys and values in pages.
//!
//! Layers with the same window share a page table; a table gives each sequence its pages in the order of positions. Pages that
//! a window has passed are handed out again, so that such layers hold no more than their windows. A fork shares the pages of
//! its origin; a page that is shared and not full is copied by the first sequence that appends to it. Page ids are handed out
//! lowest first, and no result depends on which page holds what.

mod layout;
mod paged;
mod remove;
#[cfg(test)]
mod tests;

use std::ops::Range;

pub use layout::{CacheLayout, CacheRoom, CacheTypes, LayerShape, TableLayout};
pub use paged::PagedCache;
pub use remove::Rotation;

use crate::error::EngineError;

/// Positions per page.
pub const PAGE_LEN: usize = 64;

/// Names a sequence of a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SequenceId(pub u32);

/// What a context remembers of its sequences, whatever the kind of layer: a paged cache can be cut back to any
/// position, a window or a recurrent state only to where it still holds what is needed.
pub trait Past {
    /// Number of positions of a sequence; 0 for one that does not exist.
    fn n_past(&self, sequence: SequenceId) -> usize;

    /// Makes room for `n` more positions.
    ///
    /// Errors: [`EngineError::CacheFull`]; then nothing has changed.
    fn append(&mut self, sequence: SequenceId, n: usize) -> Result<(), EngineError>;

    /// Cuts a sequence back to at most `n` positions and returns the position really reached, from which the
    /// caller prefills again.
    fn truncate(&mut self, sequence: SequenceId, n: usize) -> usize;

    /// Takes positions out of a sequence: those behind them move up, and their keys turn to where they are then. Returns the
    /// position really reached, from which the caller prefills again: where keys cannot turn, or what a window sees next is
    /// gone, no more than what stood before `positions` is left.
    ///
    /// Errors: [`EngineError::CacheFull`] where shared pages have to be copied, and then nothing has changed; those of a backend.
    fn remove(
        &mut self,
        sequence: SequenceId,
        positions: Range<usize>,
    ) -> Result<usize, EngineError>;

    /// The state of a sequence as bytes, for [`Past::restore`] into a context of the same model and types, and a sequence
    /// of the same adapters. Nothing of other sequences is in them.
    ///
    /// Errors: those of a backend that has to be read.
    fn save(&self, sequence: SequenceId) -> Result<Vec<u8>, EngineError>;

    /// Replaces a sequence by a saved state.
    ///
    /// Errors: [`EngineError::SavedState`] where the bytes do not fit this cache, [`EngineError::CacheFull`]; then nothing has
    /// changed.
    fn restore(&mut self, sequence: SequenceId, state: &[u8]) -> Result<(), EngineError>;
}
