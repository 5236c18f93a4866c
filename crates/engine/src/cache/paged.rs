//! The cache of layers that attend: pages and page tables.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use gristmill_compute::{Backend, KvLayer, Tensor};

use super::{CacheLayout, CacheTypes, PAGE_LEN, Past, Rotation, SequenceId};
use crate::error::EngineError;

/// Stands in a page table for a page that a window has passed.
pub(super) const GONE: u32 = u32::MAX;

#[derive(Clone, Default)]
pub(super) struct Sequence {
    pub n_past: usize,
    /// Positions whose keys and values are there: the others are about to be computed.
    pub n_computed: usize,
    /// Of each table, the pages in the order of positions.
    pub pages: Vec<Vec<u32>>,
}

/// The pages of the layers of one table.
#[derive(Clone)]
pub(super) struct Table {
    pub window: Option<usize>,
    pub layers: Vec<usize>,
    /// How many sequences hold each page.
    holders: Vec<u32>,
    /// Pages that nobody holds, the lowest at the end.
    free: Vec<u32>,
}

/// The paged cache of all layers.
pub struct PagedCache {
    pub(super) backend: Arc<dyn Backend>,
    types: CacheTypes,
    layers: Vec<KvLayer>,
    pub(super) tables: Vec<Table>,
    max_pages: usize,
    n_taken_back: usize,
    pub(super) sequences: BTreeMap<SequenceId, Sequence>,
    /// How the keys of each layer turn; none where they depend on their position in another way.
    pub(super) rotations: Option<Vec<Option<Rotation>>>,
}

impl Table {
    /// The first page that a query at this position sees.
    pub fn first_page(&self, position: usize) -> usize {
        let first = |window: usize| (position + 1).saturating_sub(window);
        self.window.map_or(0, first) / PAGE_LEN
    }

    pub fn is_shared(&self, page: u32) -> bool {
        page != GONE && self.holders[page as usize] > 1
    }

    pub fn take_page(&mut self) -> Option<u32> {
        let page = self.free.pop()?;
        self.holders[page as usize] = 1;
        Some(page)
    }

    pub fn n_free(&self) -> usize {
        self.free.len()
    }

    pub fn drop_page(&mut self, page: u32) {
        if page == GONE {
            return;
        }
        self.holders[page as usize] -= 1;
        if self.holders[page as usize] == 0 {
            // kept falling, so that the lowest page is handed out next
            let place = self.free.partition_point(|&other| other > page);
            self.free.insert(place, page);
        }
    }
}

impl PagedCache {
    /// Reserves the pages of every layer on a backend, which is device 0 of the graphs. Without `rotations`, positions cannot
    /// be taken out of a sequence.
    ///
    /// Errors: not enough memory.
    pub fn new(
        backend: Arc<dyn Backend>,
        layout: &CacheLayout,
        rotations: Option<Vec<Option<Rotation>>>,
    ) -> Result<Self, EngineError> {
        let tables = layout.tables.iter().map(|table| Table {
            window: table.window,
            layers: table.layers.clone(),
            holders: vec![0; table.n_pages],
            free: (0..table.n_pages as u32).rev().collect(),
        });
        let mut buffers = Vec::new();
        let layers = layout.kv_layers(|bytes| {
            let buffer = backend.allocate(bytes)?;
            buffers.push(buffer);
            Ok(buffer)
        });
        let layers = layers.inspect_err(|_| buffers.iter().for_each(|&id| backend.free(id)))?;
        Ok(PagedCache {
            backend,
            types: layout.types,
            layers,
            tables: tables.collect(),
            max_pages: layout.max_pages,
            n_taken_back: layout.n_taken_back,
            sequences: BTreeMap::new(),
            rotations,
        })
    }

    /// The caches, one per layer.
    pub fn layers(&self) -> &[KvLayer] {
        &self.layers
    }

    /// Pages of the longest sequence: the length of a row of each page table.
    pub fn max_pages(&self) -> usize {
        self.max_pages
    }

    /// Page tables.
    pub fn n_tables(&self) -> usize {
        self.tables.len()
    }

    /// Types of keys and values.
    pub fn types(&self) -> CacheTypes {
        self.types
    }

    /// Of each layer, the window behind which nothing is kept.
    pub fn windows(&self) -> impl Iterator<Item = Option<usize>> {
        let window = |layer: &KvLayer| self.tables[layer.table].window;
        self.layers.iter().map(window)
    }

    /// Bytes of all layers.
    pub fn n_bytes(&self) -> u64 {
        let tensors = self.layers.iter().flat_map(|layer| [layer.k, layer.v]);
        tensors
            .map(|tensor| tensor.n_bytes().unwrap_or(0) as u64)
            .sum()
    }

    /// The pages of a sequence in one table, in the order of positions; those that its window has passed may be no pages.
    pub fn pages(&self, table: usize, sequence: SequenceId) -> &[u32] {
        let sequence = self.sequences.get(&sequence);
        let pages = sequence.and_then(|sequence| sequence.pages.get(table));
        pages.map_or(&[], Vec::as_slice)
    }

    /// The slot of a position of a sequence in one table; the position must be one of the last that were appended.
    pub fn slot(&self, table: usize, sequence: SequenceId, position: usize) -> Option<usize> {
        let page = *self.pages(table, sequence).get(position / PAGE_LEN)?;
        (page != GONE).then(|| page as usize * PAGE_LEN + position % PAGE_LEN)
    }

    /// The key and value tensors of the layers of a table.
    pub(super) fn tensors(&self, table: usize) -> Vec<Tensor> {
        let layers = self.tables[table].layers.iter();
        layers
            .flat_map(|&layer| [self.layers[layer].k, self.layers[layer].v])
            .collect()
    }

    /// Gives pages back that no window reaches any more.
    pub(super) fn forget(&mut self, index: usize) {
        let table = &mut self.tables[index];
        for sequence in self.sequences.values_mut() {
            let n_back = sequence.n_computed.saturating_sub(self.n_taken_back);
            let n_passed = table.first_page(n_back);
            for page in sequence.pages[index].iter_mut().take(n_passed) {
                table.drop_page(std::mem::replace(page, GONE));
            }
        }
    }

    /// Makes sure that a table has pages to hand out, from those that windows have passed if need be.
    pub(super) fn free_pages(&mut self, table: usize, needed: usize) -> Result<(), EngineError> {
        if needed > self.tables[table].n_free() {
            self.forget(table);
        }
        let free = self.tables[table].n_free();
        match needed > free {
            true => Err(EngineError::CacheFull {
                needed,
                free,
                page_len: PAGE_LEN,
            }),
            false => Ok(()),
        }
    }

    /// The last page of a sequence in a table, where it is not full and shared.
    fn shared_end(&self, table: usize, id: SequenceId) -> Option<u32> {
        let page = *self.pages(table, id).last()?;
        let is_full = self.n_past(id).is_multiple_of(PAGE_LEN);
        (!is_full && self.tables[table].is_shared(page)).then_some(page)
    }

    /// Copies a page, which may be shared, into another.
    fn copy_page(&self, table: usize, from: u32, to: u32) -> Result<(), EngineError> {
        let mut bytes = Vec::new();
        for tensor in self.tensors(table) {
            bytes.resize(page_bytes(&tensor)?, 0);
            self.read_page(&tensor, from, &mut bytes)?;
            self.write_page(&tensor, to, &bytes)?;
        }
        Ok(())
    }

    pub(super) fn read_page(
        &self,
        tensor: &Tensor,
        page: u32,
        out: &mut [u8],
    ) -> Result<(), EngineError> {
        let offset = page as usize * out.len();
        Ok(self.backend.read(tensor.buffer, offset, out)?)
    }

    pub(super) fn write_page(
        &self,
        tensor: &Tensor,
        page: u32,
        bytes: &[u8],
    ) -> Result<(), EngineError> {
        let offset = page as usize * bytes.len();
        Ok(self.backend.write(tensor.buffer, offset, bytes)?)
    }

    /// The first page and the number of pages that a saved state of `n_past` positions has in each table, and its bytes.
    fn saved_parts(&self, n_past: usize) -> Option<(Vec<Range<usize>>, usize)> {
        let n_pages = n_past.div_ceil(PAGE_LEN);
        let mut total = 0usize;
        let mut parts = Vec::new();
        for (index, table) in self.tables.iter().enumerate() {
            let pages = table.first_page(n_past).min(n_pages)..n_pages;
            for tensor in self.tensors(index) {
                let bytes = page_bytes(&tensor).ok()?.checked_mul(pages.len())?;
                total = total.checked_add(bytes)?;
            }
            parts.push(pages);
        }
        Some((parts, total))
    }

    /// Makes `to` a copy of `from`, which it replaces. No part of [`Past`], since a past is only worth something with the adapters
    /// it was computed with: [`crate::Context::fork`] copies both.
    pub(crate) fn fork(&mut self, from: SequenceId, to: SequenceId) {
        if from == to {
            return;
        }
        self.truncate(to, 0);
        let Some(sequence) = self.sequences.get(&from).cloned() else {
            return;
        };
        for (table, pages) in self.tables.iter_mut().zip(&sequence.pages) {
            for &page in pages.iter().filter(|&&page| page != GONE) {
                table.holders[page as usize] += 1;
            }
        }
        self.sequences.insert(to, sequence);
    }
}

/// Bytes of one page of one tensor.
pub(super) fn page_bytes(tensor: &Tensor) -> Result<usize, EngineError> {
    let [_, page_len, n_head_kv, _] = tensor.shape.dims();
    Ok(tensor.row_bytes()? * page_len * n_head_kv)
}

impl Past for PagedCache {
    fn n_past(&self, sequence: SequenceId) -> usize {
        self.sequences
            .get(&sequence)
            .map_or(0, |sequence| sequence.n_past)
    }

    fn append(&mut self, id: SequenceId, n: usize) -> Result<(), EngineError> {
        let n_past = self.n_past(id);
        let n_tables = self.tables.len();
        let sequence = self.sequences.entry(id).or_default();
        sequence.pages.resize_with(n_tables, Vec::new);
        sequence.n_computed = n_past;
        let n_pages = (n_past + n).div_ceil(PAGE_LEN);
        for table in 0..n_tables {
            let n_new = n_pages - self.pages(table, id).len();
            let n_copied = usize::from(n > 0 && self.shared_end(table, id).is_some());
            if let Err(error) = self.free_pages(table, n_new + n_copied) {
                self.truncate(id, n_past);
                return Err(error);
            }
        }
        for table in 0..n_tables {
            let shared = self.shared_end(table, id).filter(|_| n > 0);
            let mut pages = self.pages(table, id).to_vec();
            // There are as many free pages: counted above.
            let mut take = || self.tables[table].take_page().unwrap_or(GONE);
            let copy = shared.map(|from| (from, take()));
            pages.resize_with(n_pages, &mut take);
            if let Some((from, to)) = copy {
                self.copy_page(table, from, to)?;
                self.tables[table].drop_page(from);
                pages[n_past / PAGE_LEN] = to;
            }
            if let Some(sequence) = self.sequences.get_mut(&id) {
                sequence.pages[table] = pages;
            }
        }
        if let Some(sequence) = self.sequences.get_mut(&id) {
            sequence.n_past = n_past + n;
        }
        Ok(())
    }

    fn truncate(&mut self, id: SequenceId, n: usize) -> usize {
        let Some(sequence) = self.sequences.get_mut(&id) else {
            return 0;
        };
        let mut reached = sequence.n_past.min(n);
        if reached < sequence.n_past {
            // What a window sees from there must not be gone.
            let mut tables = self.tables.iter().zip(&sequence.pages);
            let is_gone = tables.any(|(table, pages)| {
                let first = table.first_page(reached);
                first * PAGE_LEN < reached && pages.get(first) == Some(&GONE)
            });
            if is_gone {
                reached = 0;
            }
        }
        sequence.n_past = reached;
        sequence.n_computed = sequence.n_computed.min(reached);
        for (table, pages) in self.tables.iter_mut().zip(&mut sequence.pages) {
            let kept = reached.div_ceil(PAGE_LEN).min(pages.len());
            for page in pages.drain(kept..) {
                table.drop_page(page);
            }
        }
        if reached == 0 {
            self.sequences.remove(&id);
        }
        reached
    }

    fn remove(&mut self, id: SequenceId, positions: Range<usize>) -> Result<usize, EngineError> {
        self.take_out(id, positions)
    }

    /// The number of positions (u64), then of each table per layer the pages of the keys and those of the values.
    fn save(&self, sequence: SequenceId) -> Result<Vec<u8>, EngineError> {
        let n_past = self.n_past(sequence);
        let (parts, total) = self.saved_parts(n_past).unwrap_or_default();
        let mut state = Vec::with_capacity(8 + total);
        state.extend((n_past as u64).to_le_bytes());
        for (table, part) in parts.into_iter().enumerate() {
            let pages = self.pages(table, sequence).get(part).unwrap_or(&[]);
            for tensor in self.tensors(table) {
                let (bytes, row_bytes) = (page_bytes(&tensor)?, tensor.row_bytes()?);
                for &page in pages {
                    let start = state.len();
                    state.resize(start + bytes, 0);
                    self.read_page(&tensor, page, &mut state[start..])?;
                }
                let n_used = n_past % PAGE_LEN;
                if n_used > 0 && !pages.is_empty() {
                    // Slots behind the end may hold what another sequence left there.
                    let end = state.len();
                    for head in state[end - bytes..].chunks_exact_mut((row_bytes * PAGE_LEN).max(1))
                    {
                        head[n_used * row_bytes..].fill(0);
                    }
                }
            }
        }
        Ok(state)
    }

    fn restore(&mut self, id: SequenceId, state: &[u8]) -> Result<(), EngineError> {
        let mismatch = || EngineError::SavedState { bytes: state.len() };
        let (n_past, mut rest) = state.split_first_chunk::<8>().ok_or_else(mismatch)?;
        let n_past = usize::try_from(u64::from_le_bytes(*n_past)).map_err(|_| mismatch())?;
        if n_past.div_ceil(PAGE_LEN) > self.max_pages {
            return Err(mismatch());
        }
        let (parts, expected) = self.saved_parts(n_past).ok_or_else(mismatch)?;
        if expected != rest.len() {
            return Err(mismatch());
        }
        // What it holds stays unless there is room for what it is to hold: its own pages that no fork shares come free.
        for (table, part) in parts.iter().enumerate() {
            let alone = |page: &&u32| **page != GONE && !self.tables[table].is_shared(**page);
            let n_own = self.pages(table, id).iter().filter(alone).count();
            let n_more = part.len().saturating_sub(n_own);
            self.free_pages(table, n_more)?;
        }
        self.truncate(id, 0);
        let mut sequence = Sequence {
            n_past,
            n_computed: n_past,
            pages: Vec::new(),
        };
        for (table, part) in parts.into_iter().enumerate() {
            let mut pages = vec![GONE; part.start];
            // There are as many free pages: counted above.
            let mut take = || self.tables[table].take_page().unwrap_or(GONE);
            pages.resize_with(part.end, &mut take);
            for tensor in self.tensors(table) {
                for &page in &pages[part.clone()] {
                    let (bytes, after) = rest.split_at(page_bytes(&tensor)?);
                    self.write_page(&tensor, page, bytes)?;
                    rest = after;
                }
            }
            sequence.pages.push(pages);
        }
        if n_past > 0 {
            self.sequences.insert(id, sequence);
        }
        Ok(())
    }
}

impl Drop for PagedCache {
    fn drop(&mut self) {
        for layer in &self.layers {
            self.backend.free(layer.k.buffer);
            self.backend.free(layer.v.buffer);
        }
    }
}
