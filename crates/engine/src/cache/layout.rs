//! How much a cache holds: types, tables and their pages.

use gristmill_compute::{BufferId, ComputeError, KvLayer, Shape, Tensor};
use gristmill_quant::TensorType;

use super::PAGE_LEN;
use crate::error::EngineError;

/// The shape of one layer's cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerShape {
    /// Elements of a key head.
    pub key_dim: usize,
    /// Elements of a value head.
    pub value_dim: usize,
    /// Key and value heads.
    pub n_head_kv: usize,
    /// Positions that a query sees, its own counted; none for all.
    pub window: Option<usize>,
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

/// What a cache has to have room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheRoom {
    /// Positions of all sequences together.
    pub n_ctx: usize,
    /// Most tokens of one execution.
    pub n_ubatch: usize,
    /// Sequences that go on at a time, whose windows are kept.
    pub n_sequences: usize,
    /// Whether layers with a window keep all positions too.
    pub keeps_all: bool,
    /// Positions at the end of a sequence that can be taken back however they were computed.
    pub n_taken_back: usize,
}

/// The layers that find their pages by one table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableLayout {
    /// Positions that are kept behind a sequence's end; none for all.
    pub window: Option<usize>,
    /// Pages of each layer.
    pub n_pages: usize,
    /// Numbers of the layers.
    pub layers: Vec<usize>,
}

/// The tables of a cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheLayout {
    /// Element types.
    pub types: CacheTypes,
    /// The layers' shapes.
    pub shapes: Vec<LayerShape>,
    /// Tables, in the order of their first layers.
    pub tables: Vec<TableLayout>,
    /// Pages of the longest sequence.
    pub max_pages: usize,
    /// Positions that windows keep beyond what they see, so that they can be taken back.
    pub n_taken_back: usize,
}

impl CacheLayout {
    /// Gives layers of one window a table.
    ///
    /// Errors: those of [`CacheTypes::check`].
    pub fn new(
        shapes: Vec<LayerShape>,
        types: CacheTypes,
        room: &CacheRoom,
    ) -> Result<Self, EngineError> {
        types.check(&shapes)?;
        let max_pages = room.n_ctx.div_ceil(PAGE_LEN);
        let mut tables: Vec<TableLayout> = Vec::new();
        for (index, shape) in shapes.iter().enumerate() {
            let window = shape.window.filter(|_| !room.keeps_all);
            match tables.iter_mut().find(|table| table.window == window) {
                Some(table) => table.layers.push(index),
                None => tables.push(TableLayout {
                    window,
                    n_pages: room.pages_of(window).min(max_pages),
                    layers: vec![index],
                }),
            }
        }
        Ok(CacheLayout {
            types,
            shapes,
            tables,
            max_pages,
            n_taken_back: room.n_taken_back,
        })
    }

    /// The keys' and values' tensors of each layer; `allocate` reserves bytes for one.
    ///
    /// Errors: a cache that no address reaches, those of `allocate`.
    pub(crate) fn kv_layers(
        &self,
        mut allocate: impl FnMut(usize) -> Result<BufferId, ComputeError>,
    ) -> Result<Vec<KvLayer>, EngineError> {
        let mut tensor = |ty, dims: &[usize]| {
            let mut tensor = Tensor {
                device: 0,
                buffer: BufferId(0),
                offset: 0,
                ty,
                shape: Shape::new(dims)?,
            };
            tensor.buffer = allocate(tensor.n_bytes()?)?;
            Ok::<_, EngineError>(tensor)
        };
        let mut layers = Vec::with_capacity(self.shapes.len());
        for (index, shape) in self.shapes.iter().enumerate() {
            let in_table = |table: &TableLayout| table.layers.contains(&index);
            let table = self.tables.iter().position(in_table).unwrap_or(0);
            let n_pages = self.tables[table].n_pages;
            let of_heads = |dim| [dim, PAGE_LEN, shape.n_head_kv, n_pages];
            layers.push(KvLayer {
                k: tensor(self.types.k, &of_heads(shape.key_dim))?,
                v: tensor(self.types.v, &of_heads(shape.value_dim))?,
                page_len: PAGE_LEN,
                table,
            });
        }
        Ok(layers)
    }

    /// Bytes of all layers.
    pub fn n_bytes(&self) -> u64 {
        let bytes = self.tables.iter().map(|table| self.table_bytes(table));
        bytes.fold(0, u64::saturating_add)
    }

    /// Bytes of the layers of a table of this layout.
    pub fn table_bytes(&self, table: &TableLayout) -> u64 {
        let shapes: Vec<LayerShape> = table.layers.iter().map(|&i| self.shapes[i]).collect();
        let per_page = self.types.bytes_per_position(&shapes) * PAGE_LEN as u64;
        per_page.saturating_mul(table.n_pages as u64)
    }
}

impl CacheRoom {
    /// The pages that are enough for the sequences: what the first token of an execution sees, and the tokens themselves.
    fn pages_of(&self, window: Option<usize>) -> usize {
        let Some(window) = window else {
            return usize::MAX;
        };
        let n_positions = [window.saturating_sub(1), self.n_taken_back, self.n_ubatch];
        let n_positions = n_positions.into_iter().fold(0, usize::saturating_add);
        // One more, since positions may begin and end inside a page.
        let n_pages = n_positions.div_ceil(PAGE_LEN) + 1;
        n_pages.saturating_mul(self.n_sequences)
    }
}
