//! The past of every sequence: keys and values in pages.
//!
//! Pages belong to sequences through page tables. A fork shares the pages of its origin; a page that is
//! shared and not full is copied by the first sequence that appends to it. Page ids are handed out lowest
//! first, and no result depends on which page holds what.

use std::collections::HashMap;
use std::sync::Arc;

use gristmill_compute::{Backend, KvLayer, Shape, Tensor};
use gristmill_quant::TensorType;

use crate::error::EngineError;

/// Positions per page.
pub const PAGE_LEN: usize = 64;

/// Names a sequence of a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SequenceId(pub u32);

/// What a context remembers of its sequences, whatever the kind of layer: a paged cache can be cut back to any
/// position, a window or a recurrent state only to where it has a snapshot.
pub trait Past {
    /// Number of positions of a sequence; 0 for one that does not exist.
    fn n_past(&self, sequence: SequenceId) -> usize;

    /// Makes room for `n` more positions.
    ///
    /// Errors: [`EngineError::CacheFull`]; then nothing has changed.
    fn append(&mut self, sequence: SequenceId, n: usize) -> Result<(), EngineError>;

    /// Makes `to` a copy of `from`, which it replaces.
    ///
    /// Errors: those of a backend that has to copy a state.
    fn fork(&mut self, from: SequenceId, to: SequenceId) -> Result<(), EngineError>;

    /// Cuts a sequence back to at most `n` positions and returns the position really reached, from which the
    /// caller prefills again.
    fn truncate(&mut self, sequence: SequenceId, n: usize) -> usize;

    /// The state of a sequence as bytes, for [`Past::restore`] into a context of the same model and types.
    ///
    /// Errors: those of a backend that has to be read.
    fn save(&self, sequence: SequenceId) -> Result<Vec<u8>, EngineError>;

    /// Replaces a sequence by a saved state.
    ///
    /// Errors: [`EngineError::SavedState`] where the bytes do not fit this cache, [`EngineError::CacheFull`].
    fn restore(&mut self, sequence: SequenceId, state: &[u8]) -> Result<(), EngineError>;
}

#[derive(Default)]
struct Sequence {
    pages: Vec<u32>,
    n_past: usize,
}

/// The paged cache of all layers.
pub struct PagedCache {
    backend: Arc<dyn Backend>,
    layers: Vec<KvLayer>,
    /// How many sequences hold each page.
    holders: Vec<u32>,
    /// Pages that nobody holds, the lowest at the end.
    free: Vec<u32>,
    sequences: HashMap<SequenceId, Sequence>,
}

/// The shape of one layer's cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerShape {
    /// Elements of a key head.
    pub key_dim: usize,
    /// Elements of a value head.
    pub value_dim: usize,
    /// Key and value heads.
    pub n_head_kv: usize,
}

/// Element types of a cache, each one of [`TensorType::for_cache`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheTypes {
    /// Of the keys.
    pub k: TensorType,
    /// Of the values.
    pub v: TensorType,
}

impl CacheTypes {
    /// Half precision, the default.
    pub const F16: CacheTypes = CacheTypes {
        k: gristmill_quant::F16,
        v: gristmill_quant::F16,
    };
    /// Single precision.
    pub const F32: CacheTypes = CacheTypes {
        k: gristmill_quant::F32,
        v: gristmill_quant::F32,
    };

    /// Whether layers can have a cache of these types.
    ///
    /// Errors: [`EngineError::CacheType`], [`EngineError::CacheHeads`].
    pub fn check(&self, layers: &[LayerShape]) -> Result<(), EngineError> {
        for (what, ty) in [("keys", self.k), ("values", self.v)] {
            if !ty.policy().for_cache {
                return Err(EngineError::CacheType { ty: ty.name() });
            }
            let dim = |layer: &LayerShape| match what {
                "keys" => layer.key_dim,
                _ => layer.value_dim,
            };
            let mut dims = layers.iter().map(dim);
            if let Some(head_dim) = dims.find(|dim| !dim.is_multiple_of(ty.block_len())) {
                return Err(EngineError::CacheHeads {
                    what,
                    ty: ty.name(),
                    head_dim,
                    block_len: ty.block_len(),
                });
            }
        }
        Ok(())
    }

    /// Bytes that one position takes in all layers, which [`CacheTypes::check`] has let pass.
    pub fn bytes_per_position(&self, layers: &[LayerShape]) -> u64 {
        let head_bytes =
            |ty: TensorType, dim: usize| dim.div_ceil(ty.block_len()) * ty.block_bytes();
        let layer_bytes = |layer: &LayerShape| {
            let (k, v) = (
                head_bytes(self.k, layer.key_dim),
                head_bytes(self.v, layer.value_dim),
            );
            layer.n_head_kv as u64 * (k + v) as u64
        };
        layers.iter().map(layer_bytes).sum()
    }
}

impl PagedCache {
    /// Reserves `n_pages` pages of every layer on a backend, which is device 0 of the graphs.
    ///
    /// Errors: those of [`CacheTypes::check`]; not enough memory.
    pub fn new(
        backend: Arc<dyn Backend>,
        shapes: &[LayerShape],
        types: CacheTypes,
        n_pages: usize,
    ) -> Result<Self, EngineError> {
        types.check(shapes)?;
        let mut cache = PagedCache {
            backend,
            layers: Vec::with_capacity(shapes.len()),
            holders: vec![0; n_pages],
            free: (0..n_pages as u32).rev().collect(),
            sequences: HashMap::new(),
        };
        for shape in shapes {
            let k = cache.allocate(types.k, [shape.key_dim, PAGE_LEN, shape.n_head_kv, n_pages])?;
            let v = cache.allocate(
                types.v,
                [shape.value_dim, PAGE_LEN, shape.n_head_kv, n_pages],
            )?;
            cache.layers.push(KvLayer {
                k,
                v,
                page_len: PAGE_LEN,
            });
        }
        Ok(cache)
    }

    fn allocate(&self, ty: TensorType, dims: [usize; 4]) -> Result<Tensor, EngineError> {
        let shape = Shape::new(&dims)?;
        let mut tensor = Tensor {
            device: 0,
            buffer: gristmill_compute::BufferId(0),
            offset: 0,
            ty,
            shape,
        };
        tensor.buffer = self.backend.allocate(tensor.n_bytes()?)?;
        Ok(tensor)
    }

    /// The caches, one per layer.
    pub fn layers(&self) -> &[KvLayer] {
        &self.layers
    }

    /// Pages of the cache.
    pub fn n_pages(&self) -> usize {
        self.holders.len()
    }

    /// Bytes of all layers.
    pub fn n_bytes(&self) -> u64 {
        let tensors = self.layers.iter().flat_map(|layer| [layer.k, layer.v]);
        tensors
            .map(|tensor| tensor.n_bytes().unwrap_or(0) as u64)
            .sum()
    }

    /// The pages of a sequence in the order of positions.
    pub fn pages(&self, sequence: SequenceId) -> &[u32] {
        self.sequences
            .get(&sequence)
            .map_or(&[], |sequence| &sequence.pages)
    }

    /// The slot of a position of a sequence; the position must have been appended.
    pub fn slot(&self, sequence: SequenceId, position: usize) -> Option<usize> {
        let page = *self.pages(sequence).get(position / PAGE_LEN)?;
        Some(page as usize * PAGE_LEN + position % PAGE_LEN)
    }

    fn take_page(&mut self) -> Option<u32> {
        let page = self.free.pop()?;
        self.holders[page as usize] = 1;
        Some(page)
    }

    fn drop_page(&mut self, page: u32) {
        self.holders[page as usize] -= 1;
        if self.holders[page as usize] == 0 {
            // kept falling, so that the lowest page is handed out next
            let place = self.free.partition_point(|&other| other > page);
            self.free.insert(place, page);
        }
    }

    /// Gives a sequence whose last page is shared and not full a copy of its own.
    fn own_last_page(&mut self, id: SequenceId) -> Result<(), EngineError> {
        let Some(sequence) = self.sequences.get(&id) else {
            return Ok(());
        };
        let (Some(&page), false) = (
            sequence.pages.last(),
            sequence.n_past.is_multiple_of(PAGE_LEN),
        ) else {
            return Ok(());
        };
        if self.holders[page as usize] == 1 {
            return Ok(());
        }
        let n_free = self.free.len();
        let copy = self.take_page().ok_or(EngineError::CacheFull {
            needed: 1,
            free: n_free,
            page_len: PAGE_LEN,
        })?;
        let mut bytes = Vec::new();
        for tensor in self.layers.iter().flat_map(|layer| [layer.k, layer.v]) {
            bytes.resize(page_bytes(&tensor)?, 0);
            self.backend
                .read(tensor.buffer, page as usize * bytes.len(), &mut bytes)?;
            self.backend
                .write(tensor.buffer, copy as usize * bytes.len(), &bytes)?;
        }
        self.drop_page(page);
        if let Some(last) = self
            .sequences
            .get_mut(&id)
            .and_then(|sequence| sequence.pages.last_mut())
        {
            *last = copy;
        }
        Ok(())
    }
}

/// Bytes of one page of one tensor.
fn page_bytes(tensor: &Tensor) -> Result<usize, EngineError> {
    Ok(tensor.n_bytes()? / tensor.shape.dims()[3].max(1))
}

impl Past for PagedCache {
    fn n_past(&self, sequence: SequenceId) -> usize {
        self.sequences
            .get(&sequence)
            .map_or(0, |sequence| sequence.n_past)
    }

    fn append(&mut self, id: SequenceId, n: usize) -> Result<(), EngineError> {
        let n_past = self.n_past(id);
        let n_needed = (n_past + n).div_ceil(PAGE_LEN) - self.pages(id).len();
        if n_needed > self.free.len() {
            return Err(EngineError::CacheFull {
                needed: n_needed,
                free: self.free.len(),
                page_len: PAGE_LEN,
            });
        }
        if n > 0 {
            self.own_last_page(id)?;
        }
        let mut pages = Vec::with_capacity(n_needed);
        while pages.len() < n_needed {
            match self.take_page() {
                Some(page) => pages.push(page),
                None => {
                    pages.into_iter().for_each(|page| self.drop_page(page));
                    return Err(EngineError::CacheFull {
                        needed: n_needed,
                        free: 0,
                        page_len: PAGE_LEN,
                    });
                }
            }
        }
        let sequence = self.sequences.entry(id).or_default();
        sequence.pages.append(&mut pages);
        sequence.n_past = n_past + n;
        Ok(())
    }

    fn fork(&mut self, from: SequenceId, to: SequenceId) -> Result<(), EngineError> {
        if from == to {
            return Ok(());
        }
        self.truncate(to, 0);
        let (pages, n_past) = (self.pages(from).to_vec(), self.n_past(from));
        for &page in &pages {
            self.holders[page as usize] += 1;
        }
        self.sequences.insert(to, Sequence { pages, n_past });
        Ok(())
    }

    fn truncate(&mut self, id: SequenceId, n: usize) -> usize {
        let Some(sequence) = self.sequences.get_mut(&id) else {
            return 0;
        };
        sequence.n_past = sequence.n_past.min(n);
        let reached = sequence.n_past;
        let dropped = sequence.pages.split_off(reached.div_ceil(PAGE_LEN));
        if reached == 0 {
            self.sequences.remove(&id);
        }
        dropped.into_iter().for_each(|page| self.drop_page(page));
        reached
    }

    /// The number of positions (u64), then per layer the pages of the keys and those of the values.
    fn save(&self, sequence: SequenceId) -> Result<Vec<u8>, EngineError> {
        let mut state = (self.n_past(sequence) as u64).to_le_bytes().to_vec();
        for tensor in self.layers.iter().flat_map(|layer| [layer.k, layer.v]) {
            let bytes = page_bytes(&tensor)?;
            for &page in self.pages(sequence) {
                let start = state.len();
                state.resize(start + bytes, 0);
                self.backend
                    .read(tensor.buffer, page as usize * bytes, &mut state[start..])?;
            }
        }
        Ok(state)
    }

    fn restore(&mut self, sequence: SequenceId, state: &[u8]) -> Result<(), EngineError> {
        let mismatch = || EngineError::SavedState { bytes: state.len() };
        let (n_past, mut rest) = state.split_first_chunk::<8>().ok_or_else(mismatch)?;
        let n_past = usize::try_from(u64::from_le_bytes(*n_past)).map_err(|_| mismatch())?;
        let n_pages = n_past.div_ceil(PAGE_LEN);
        let mut expected = 0usize;
        for tensor in self.layers.iter().flat_map(|layer| [layer.k, layer.v]) {
            let bytes = page_bytes(&tensor)?.checked_mul(n_pages);
            expected = bytes
                .and_then(|bytes| expected.checked_add(bytes))
                .ok_or_else(mismatch)?;
        }
        if expected != rest.len() {
            return Err(mismatch());
        }
        // What it holds stays unless there is room for what it is to hold: its own pages that no fork shares come free.
        let alone = |page: &&u32| self.holders[**page as usize] == 1;
        let n_own = self.pages(sequence).iter().filter(alone).count();
        if n_pages > self.free.len() + n_own {
            return Err(EngineError::CacheFull {
                needed: n_pages,
                free: self.free.len() + n_own,
                page_len: PAGE_LEN,
            });
        }
        self.truncate(sequence, 0);
        self.append(sequence, n_past)?;
        for tensor in self.layers.iter().flat_map(|layer| [layer.k, layer.v]) {
            let bytes = page_bytes(&tensor)?;
            for &page in self.pages(sequence) {
                let (page_state, after) = rest.split_at(bytes);
                self.backend
                    .write(tensor.buffer, page as usize * bytes, page_state)?;
                rest = after;
            }
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

#[cfg(test)]
mod tests {
    use super::*;

    const A: SequenceId = SequenceId(0);
    const B: SequenceId = SequenceId(1);

    fn cache(n_pages: usize) -> PagedCache {
        let shape = LayerShape {
            key_dim: 2,
            value_dim: 3,
            n_head_kv: 1,
        };
        let backend = Arc::new(gristmill_compute::PlainBackend::default());
        PagedCache::new(backend, &[shape; 2], CacheTypes::F32, n_pages).unwrap()
    }

    #[test]
    fn pages_follow_the_length() {
        let mut cache = cache(4);
        cache.append(A, PAGE_LEN + 1).unwrap();
        cache.append(B, 1).unwrap();
        assert_eq!((cache.pages(A), cache.pages(B)), (&[0, 1][..], &[2][..]));
        assert_eq!(cache.slot(A, PAGE_LEN), Some(PAGE_LEN));
        assert_eq!(cache.slot(B, 0), Some(2 * PAGE_LEN));
        assert!(matches!(
            cache.append(B, 2 * PAGE_LEN),
            Err(EngineError::CacheFull {
                needed: 2,
                free: 1,
                ..
            })
        ));
        assert_eq!(cache.n_past(B), 1);
        assert_eq!(cache.truncate(A, PAGE_LEN), PAGE_LEN);
        assert_eq!(cache.truncate(A, PAGE_LEN + 5), PAGE_LEN);
        cache.append(B, 2 * PAGE_LEN).unwrap();
        assert_eq!(cache.pages(B), [2, 1, 3]);
        assert_eq!(cache.truncate(B, 0), 0);
        assert_eq!(cache.free, [3, 2, 1]);
        assert_eq!(cache.n_bytes(), 2 * 4 * (PAGE_LEN * 5 * 4) as u64);
    }

    #[test]
    fn a_fork_shares_pages_until_it_appends() {
        let mut cache = cache(4);
        cache.append(A, PAGE_LEN + 2).unwrap();
        let k = cache.layers[1].k;
        cache.backend.write(k.buffer, 600, &[7; 8]).unwrap(); // in page 1
        cache.fork(A, B).unwrap();
        assert_eq!(cache.pages(B), [0, 1]);
        cache.append(B, 1).unwrap();
        assert_eq!((cache.pages(A), cache.pages(B)), (&[0, 1][..], &[0, 2][..]));
        let mut copied = [0; 8];
        cache
            .backend
            .read(k.buffer, 600 + 512, &mut copied)
            .unwrap();
        assert_eq!(copied, [7; 8]);
        cache.truncate(A, 0);
        assert_eq!(cache.free, [3, 1]);
        cache.truncate(B, 0);
        assert_eq!(cache.free, [3, 2, 1, 0]);
    }

    #[test]
    fn a_saved_state_comes_back() {
        let mut cache = cache(4);
        cache.append(A, PAGE_LEN + 2).unwrap();
        cache
            .backend
            .write(cache.layers[0].v.buffer, 768, &[9; 768])
            .unwrap(); // page 1
        let state = cache.save(A).unwrap();
        cache.restore(B, &state).unwrap();
        assert_eq!(cache.n_past(B), PAGE_LEN + 2);
        assert_eq!(cache.save(B).unwrap(), state);
        assert!(matches!(
            cache.restore(A, &state[..9]),
            Err(EngineError::SavedState { bytes: 9 })
        ));
        assert!(cache.restore(A, &[255; 8]).is_err());
    }

    #[test]
    fn a_state_without_room_leaves_the_sequence_as_it_is() {
        let mut donor = cache(4);
        donor.append(A, 3 * PAGE_LEN).unwrap();
        let state = donor.save(A).unwrap();
        let mut cache = cache(4);
        cache.append(A, PAGE_LEN + 2).unwrap();
        cache.append(B, PAGE_LEN).unwrap();
        cache.fork(A, SequenceId(2)).unwrap();
        // One page is free; those of A are shared.
        let full = |result| {
            matches!(
                result,
                Err(EngineError::CacheFull {
                    needed: 3,
                    free: 1,
                    ..
                })
            )
        };
        assert!(full(cache.restore(A, &state)));
        assert_eq!(
            (cache.n_past(A), cache.pages(A)),
            (PAGE_LEN + 2, &[0, 1][..])
        );
        cache.truncate(SequenceId(2), 0);
        cache.restore(A, &state).unwrap();
        assert_eq!((cache.n_past(A), cache.n_past(B)), (3 * PAGE_LEN, PAGE_LEN));
    }
}
