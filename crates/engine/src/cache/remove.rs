//! Positions taken out of a sequence: what stands behind them moves up.

use std::ops::Range;

use gristmill_compute::{RopeStyle, Tensor};
use gristmill_kernels as kernels;

use super::paged::{GONE, page_bytes};
use super::{PAGE_LEN, PagedCache, Past, SequenceId};
use crate::error::EngineError;

/// How the keys of a layer turn with their position.
#[derive(Clone, Debug, PartialEq)]
pub struct Rotation {
    /// Which elements pair up.
    pub style: RopeStyle,
    /// Radians per position of each pair.
    pub frequencies: Vec<f32>,
    /// What cosine and sine were multiplied by. A key keeps it when it turns again.
    pub magnitude: f32,
}

/// Rows of a layer on the move.
struct Move<'a> {
    /// The first page that changes.
    first: usize,
    /// Positions that go.
    positions: Range<usize>,
    /// Positions that are left.
    n_left: usize,
    /// The sequence's pages from `first` on, before and after.
    old: &'a [u32],
    new: &'a [u32],
}

impl PagedCache {
    /// See [`Past::remove`].
    pub(super) fn take_out(
        &mut self,
        id: SequenceId,
        positions: Range<usize>,
    ) -> Result<usize, EngineError> {
        let n_past = self.n_past(id);
        let positions = positions.start.min(n_past)..positions.end.min(n_past);
        if positions.is_empty() {
            return Ok(n_past);
        }
        let n_left = n_past - positions.len();
        if self.rotations.is_none() || !self.holds_window(id, positions.start, n_left) {
            return Ok(self.truncate(id, positions.start));
        }
        let first = positions.start / PAGE_LEN;
        let n_pages = n_left.div_ceil(PAGE_LEN);
        for table in 0..self.n_tables() {
            let (alone, _) = self.pages_from(table, id, first);
            let seen = self.tables[table].first_page(n_left).max(first);
            let n_new = n_pages.saturating_sub(seen).saturating_sub(alone.len());
            self.free_pages(table, n_new)?;
        }
        for table in 0..self.n_tables() {
            self.take_out_of_table(table, id, &positions, n_left)?;
        }
        if let Some(sequence) = self.sequences.get_mut(&id) {
            (sequence.n_past, sequence.n_computed) = (n_left, n_left);
        }
        Ok(n_left)
    }

    /// The pages of a sequence from page `first` on: those that are its own, and those that others share.
    fn pages_from(&self, table: usize, id: SequenceId, first: usize) -> (Vec<u32>, Vec<u32>) {
        let pages = self.pages(table, id).iter().skip(first);
        let pages = pages.copied().filter(|&page| page != GONE);
        pages.partition(|&page| !self.tables[table].is_shared(page))
    }

    /// Whether all that windows see from position `n_left` on, and that stands before position `start`, is still there.
    fn holds_window(&self, id: SequenceId, start: usize, n_left: usize) -> bool {
        (0..self.n_tables()).all(|table| {
            let pages = self.tables[table].first_page(n_left)..start.div_ceil(PAGE_LEN);
            let mut seen = self
                .pages(table, id)
                .iter()
                .take(pages.end)
                .skip(pages.start);
            seen.all(|&page| page != GONE)
        })
    }

    fn take_out_of_table(
        &mut self,
        index: usize,
        id: SequenceId,
        positions: &Range<usize>,
        n_left: usize,
    ) -> Result<(), EngineError> {
        let first = positions.start / PAGE_LEN;
        let old = self.pages(index, id).to_vec();
        let (alone, shared) = self.pages_from(index, id, first);
        let mut alone = alone.into_iter();
        let table = &mut self.tables[index];
        let first_seen = table.first_page(n_left);
        // There are as many free pages: `take_out` has counted.
        let mut next = |page_index| match page_index < first_seen {
            true => GONE,
            false => alone.next().or_else(|| table.take_page()).unwrap_or(GONE),
        };
        let new: Vec<u32> = (first..n_left.div_ceil(PAGE_LEN)).map(&mut next).collect();
        let moved = Move {
            first,
            positions: positions.clone(),
            n_left,
            old: &old[first..],
            new: &new,
        };
        for layer in self.tables[index].layers.clone() {
            let rotation = self.rotations.as_ref();
            let rotation = rotation.and_then(|rotations| rotations.get(layer)?.as_ref());
            self.move_rows(&self.layers()[layer].k, &moved, rotation)?;
            self.move_rows(&self.layers()[layer].v, &moved, None)?;
        }
        for page in alone.chain(shared) {
            self.tables[index].drop_page(page);
        }
        if let Some(sequence) = self.sequences.get_mut(&id) {
            sequence.pages[index].truncate(first);
            sequence.pages[index].extend(new);
        }
        Ok(())
    }

    /// Writes the rows of one tensor to their new places.
    fn move_rows(
        &self,
        tensor: &Tensor,
        moved: &Move<'_>,
        rotation: Option<&Rotation>,
    ) -> Result<(), EngineError> {
        let (bytes, row_bytes) = (page_bytes(tensor)?, tensor.row_bytes()?);
        let mut before = vec![0; bytes * moved.old.len()];
        let mut after = vec![0; bytes * moved.new.len()];
        let old = moved.old.iter().zip(before.chunks_exact_mut(bytes));
        for (&page, out) in old.filter(|(page, _)| **page != GONE) {
            self.read_page(tensor, page, out)?;
        }
        let [head_dim, _, n_head_kv, _] = tensor.shape.dims();
        let mut turn =
            rotation.map(|rotation| Turn::new(rotation, moved.positions.len(), head_dim));
        let place = |position: usize, head: usize| {
            let page = position / PAGE_LEN - moved.first;
            ((page * n_head_kv + head) * PAGE_LEN + position % PAGE_LEN) * row_bytes
        };
        for position in moved.first * PAGE_LEN..moved.n_left {
            let moves = position >= moved.positions.start;
            let from = position + if moves { moved.positions.len() } else { 0 };
            for head in 0..n_head_kv {
                let row = &before[place(from, head)..][..row_bytes];
                let out = &mut after[place(position, head)..][..row_bytes];
                match &mut turn {
                    Some(turn) if moves => turn.row(tensor, row, out)?,
                    _ => out.copy_from_slice(row),
                }
            }
        }
        let new = moved.new.iter().zip(after.chunks_exact(bytes));
        for (&page, bytes) in new.filter(|(page, _)| **page != GONE) {
            self.write_page(tensor, page, bytes)?;
        }
        Ok(())
    }
}

/// A turn back by some positions.
struct Turn {
    kernel: fn(&mut [f32], &[f32], &[f32]),
    cosines: Vec<f32>,
    sines: Vec<f32>,
    key: Vec<f32>,
}

impl Turn {
    fn new(rotation: &Rotation, n_positions: usize, head_dim: usize) -> Self {
        let angles = rotation.frequencies.iter();
        let angles = angles.map(|&frequency| -(n_positions as f64) * f64::from(frequency));
        let (sines, cosines) = angles
            .map(f64::sin_cos)
            .map(|(sin, cos)| (sin as f32, cos as f32))
            .unzip();
        Turn {
            kernel: match rotation.style {
                RopeStyle::Normal => kernels::rope_normal,
                RopeStyle::NeoX => kernels::rope_neox,
            },
            cosines,
            sines,
            key: vec![0.0; head_dim],
        }
    }

    fn row(&mut self, tensor: &Tensor, row: &[u8], out: &mut [u8]) -> Result<(), EngineError> {
        kernels::decode_row(tensor.ty, row, &mut self.key)?;
        (self.kernel)(&mut self.key, &self.cosines, &self.sines);
        let head_dim = self.key.len();
        Ok(kernels::encode_rows(
            tensor.ty, &self.key, head_dim, None, out,
        )?)
    }
}
