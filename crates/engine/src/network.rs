//! A model's network: its facts, and where its weights lie. Enough to plan what running it takes; nothing is loaded.

use std::sync::Arc;

use gristmill_compute::{
    Backend, BatchShape, BufferId, Changes, CpuBackend, GraphBuilder, KvLayer, Plan, Tensor, Value,
};
use gristmill_gguf as gguf;
use gristmill_model::{
    Hyperparameters, RopeOverrides, TensorSpec, Weights, build_hidden, build_scores,
};
use gristmill_quant::TensorType;

use crate::adapter::view_tensor;
use crate::cache::{CacheLayout, CacheRoom, LayerShape, PAGE_LEN};
use crate::context::Output;
use crate::error::EngineError;
use crate::model::{CONTEXT_MAX, DEFAULT_CACHE_BYTES_MAX, LoadOptions};

/// Short texts that there is room for at once where vectors are made; each takes a page.
const TEXTS_MIN: usize = 32;

/// The layers of a model with handles of their weights.
#[derive(Clone, Debug)]
pub struct Network {
    pub(crate) hparams: Hyperparameters,
    pub(crate) weights: Weights,
}

/// What a context has to have room for, and where its cache's pages are.
pub(crate) struct Room {
    pub(crate) n_ctx: usize,
    /// Most tokens of one execution.
    pub(crate) n_ubatch: usize,
    pub(crate) layout: CacheLayout,
    output: Output,
}

/// What a context takes, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContextBytes {
    /// Positions.
    pub n_ctx: usize,
    /// Of each kind of layers, the window (none for those that keep all positions) and the bytes of its cache.
    pub caches: Vec<(Option<usize>, u64)>,
    /// Intermediate values: the arena of the largest batch.
    pub arena: u64,
    /// What the backend works in besides, and the results.
    pub scratch: u64,
}

impl ContextBytes {
    /// Bytes of all caches.
    pub fn cache(&self) -> u64 {
        let caches = self.caches.iter().map(|&(_, bytes)| bytes);
        caches.fold(0, u64::saturating_add)
    }

    /// Bytes of what computing takes.
    pub fn compute(&self) -> u64 {
        self.arena.saturating_add(self.scratch)
    }
}

impl Room {
    /// The room that these options ask for, where rows of some kind come out.
    ///
    /// Errors: as [`Network::context_length`].
    pub(crate) fn new(
        network: &Network,
        options: &LoadOptions,
        output: Output,
    ) -> Result<Self, EngineError> {
        let n_ctx = network.context_length(options)?;
        let options = &LoadOptions {
            // Texts of one batch lie side by side.
            keeps_all: options.keeps_all || matches!(output, Output::Hidden { .. }),
            ..*options
        };
        let mut layout = network.cache_layout(options, n_ctx)?;
        let n_ubatch = match output {
            Output::Logits => options.n_ubatch.clamp(1, n_ctx),
            Output::Hidden { causal: true, .. } => options.n_ubatch.max(1),
            // A text is seen as a whole, so it is computed as a whole.
            Output::Hidden { .. } => usize::MAX,
        };
        if matches!(output, Output::Hidden { .. }) {
            let tables = layout.tables.iter_mut();
            tables.for_each(|table| table.n_pages = table.n_pages.max(TEXTS_MIN));
        }
        Ok(Room {
            n_ctx,
            n_ubatch,
            layout,
            output,
        })
    }

    /// The shape of a batch of so many tokens of `n_sequences`, of which the last ones' rows are wanted.
    fn batch(&self, n_tokens: usize, n_sequences: usize) -> BatchShape {
        let n_sequences = n_sequences.clamp(1, n_tokens);
        BatchShape {
            n_tokens,
            n_outputs: match self.output {
                Output::Logits => n_sequences,
                Output::Hidden { .. } => n_tokens,
            },
            n_sequences,
            max_pages: self.layout.max_pages,
        }
    }

    /// The largest batches that are computed of so many sequences: a part of a prompt, and a token of each.
    pub(crate) fn batches(&self, n_sequences: usize) -> [BatchShape; 2] {
        let n_tokens = self.n_ubatch.min(self.n_ctx);
        [n_tokens, n_sequences.clamp(1, n_tokens)].map(|n_tokens| self.batch(n_tokens, n_sequences))
    }
}

impl Network {
    /// The network of a file, of which the header is enough. Its weights cannot be read through this.
    ///
    /// Errors: as [`crate::Model::load`], but for the vocabulary.
    pub fn of_file(file: &gguf::Model, rope: &RopeOverrides) -> Result<Self, EngineError> {
        let n_shards = u32::try_from(file.shards().len()).unwrap_or(u32::MAX);
        let regions: Vec<BufferId> = (0..n_shards).map(BufferId).collect();
        Self::bound(file, rope, &regions)
    }

    /// The network of a file whose shards a backend knows under these ids.
    pub(crate) fn bound(
        file: &gguf::Model,
        rope: &RopeOverrides,
        regions: &[BufferId],
    ) -> Result<Self, EngineError> {
        file.require_weights()?;
        let mut hparams = Hyperparameters::from_metadata(file.metadata())?;
        hparams.override_rope(rope);
        let tensors = file.tensors().iter();
        gristmill_model::check_tensors(
            &hparams,
            tensors.map(|tensor| (tensor.name.as_str(), tensor.dims.as_slice())),
        )?;
        let mut failure = None;
        let weights = Weights::bind(&hparams, |spec| {
            bind(file, regions, spec).unwrap_or_else(|error| {
                failure.get_or_insert(error);
                None
            })
        });
        if let Some(error) = failure {
            return Err(error);
        }
        Ok(Network {
            weights: weights?,
            hparams,
        })
    }

    /// The model's facts.
    pub fn hyperparameters(&self) -> &Hyperparameters {
        &self.hparams
    }

    /// The context length that these options give.
    ///
    /// Errors: those of `CacheTypes::check`; zero positions, or more than can be numbered or than the model has embeddings of.
    pub fn context_length(&self, options: &LoadOptions) -> Result<usize, EngineError> {
        options.cache.check(&self.layer_shapes())?;
        let n_ctx = match options.n_ctx {
            Some(n_ctx) => n_ctx,
            None => self.longest_context(options, DEFAULT_CACHE_BYTES_MAX),
        };
        let max = self.context_length_max();
        if n_ctx == 0 || n_ctx > max {
            return Err(EngineError::ContextLength { n_ctx, max });
        }
        Ok(n_ctx)
    }

    /// The most positions that a context can have.
    pub fn context_length_max(&self) -> usize {
        let max = self.hparams.max_positions().unwrap_or(CONTEXT_MAX);
        max.min(CONTEXT_MAX)
    }

    /// The longest context, up to the model's own, whose cache takes at most so many bytes with these options; one page at least.
    pub fn longest_context(&self, options: &LoadOptions, n_bytes_max: u64) -> usize {
        let fits = |n_pages: usize| {
            let layout = self.cache_layout(options, n_pages.saturating_mul(PAGE_LEN));
            layout.is_ok_and(|layout| layout.n_bytes() <= n_bytes_max)
        };
        let longest = self.hparams.n_context_train.min(self.context_length_max());
        // Longer contexts take more: halved until what fits and what does not are neighbours.
        let (mut low, mut high) = (1, longest.div_ceil(PAGE_LEN) + 1);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            match fits(middle) {
                true => low = middle,
                false => high = middle,
            }
        }
        longest.min(low * PAGE_LEN)
    }

    /// The cache of a context of `n_ctx` positions.
    ///
    /// Errors: those of `CacheTypes::check`.
    pub fn cache_layout(
        &self,
        options: &LoadOptions,
        n_ctx: usize,
    ) -> Result<CacheLayout, EngineError> {
        let room = CacheRoom {
            n_ctx,
            n_ubatch: options.n_ubatch.clamp(1, n_ctx.max(1)),
            n_sequences: options.n_sequences.max(1),
            keeps_all: options.keeps_all,
            n_taken_back: options.n_taken_back,
        };
        CacheLayout::new(self.layer_shapes(), options.cache, &room)
    }

    /// The shapes of the caches, one per layer.
    pub fn layer_shapes(&self) -> Vec<LayerShape> {
        let hparams = &self.hparams;
        let layers = hparams.layers.iter().enumerate();
        layers
            .map(|(index, layer)| LayerShape {
                key_dim: hparams.key_length,
                value_dim: hparams.value_length,
                n_head_kv: layer.n_head_kv,
                window: hparams.window_of(index),
            })
            .collect()
    }

    /// What a context with these options takes on the CPU, without reserving any of it: of a decoder what
    /// [`crate::Context::new`] makes, of an encoder what one text of the context's length needs.
    ///
    /// Errors: as [`Network::context_length`]; a model that cannot be computed.
    pub fn context_bytes(&self, options: &LoadOptions) -> Result<ContextBytes, EngineError> {
        let output = match self.hparams.causal {
            true => Output::Logits,
            false => Output::Hidden {
                causal: false,
                scores: false,
            },
        };
        let room = Room::new(self, options, output)?;
        // It computes nothing.
        let devices: [Arc<dyn Backend>; 1] = [Arc::new(CpuBackend::new(1))];
        let layers = room.layout.kv_layers(|_| Ok(BufferId(0)))?;
        let (mut arena, mut scratch) = (0, 0);
        for shape in room.batches(options.n_sequences) {
            let plan = self.plan(&layers, (room.n_ctx, output), shape, None, &devices)?;
            arena = arena.max(plan.arena_bytes(0) as u64);
            scratch = scratch.max(plan.host_bytes(&devices));
        }
        let tables = room.layout.tables.iter();
        Ok(ContextBytes {
            n_ctx: room.n_ctx,
            caches: tables
                .map(|table| (table.window, room.layout.table_bytes(table)))
                .collect(),
            arena,
            scratch,
        })
    }

    /// The plan of a batch.
    pub(crate) fn plan(
        &self,
        caches: &[KvLayer],
        (n_ctx, output): (usize, Output),
        shape: BatchShape,
        changes: Option<&Arc<Changes>>,
        devices: &[Arc<dyn Backend>],
    ) -> Result<Plan, EngineError> {
        let mut graph = GraphBuilder::new(shape);
        if let Some(changes) = changes {
            graph.change(changes.clone());
        }
        let rows = self.build(caches, n_ctx, output, &mut graph)?;
        let graph = graph.finish(&[rows])?;
        Ok(Plan::new(&graph, devices)?)
    }

    /// Builds the graph for the builder's batch, in a context of so many positions.
    fn build(
        &self,
        caches: &[KvLayer],
        n_ctx: usize,
        output: Output,
        graph: &mut GraphBuilder,
    ) -> Result<Value, EngineError> {
        let (hparams, weights) = (&self.hparams, &self.weights);
        Ok(match output {
            Output::Logits => gristmill_model::build(hparams, weights, caches, n_ctx, graph)?,
            Output::Hidden { causal, scores } => {
                let hparams = Hyperparameters {
                    causal,
                    ..hparams.clone()
                };
                match scores {
                    true => build_scores(&hparams, weights, caches, n_ctx, graph)?,
                    false => build_hidden(&hparams, weights, caches, n_ctx, graph)?,
                }
            }
        })
    }

    /// Whether it has a classifier, which gives scores.
    pub fn has_classifier(&self) -> bool {
        self.weights.cls.is_some() || self.weights.cls_output.is_some()
    }

    /// Whether the classifier ends in a row per label.
    pub(crate) fn has_labels(&self) -> bool {
        self.weights.cls_output.is_some()
    }
}

/// The handle of a tensor in its shard's region; nothing if the file lacks it.
pub(crate) fn bind(
    file: &gguf::Model,
    regions: &[BufferId],
    spec: &TensorSpec,
) -> Result<Option<Tensor>, EngineError> {
    let Some(view) = file.tensor(&spec.name) else {
        return Ok(None);
    };
    usable(&spec.name, spec.dims.len(), view.info.ty)?;
    view_tensor(&view, regions).map(Some)
}

/// Whether the graph can read a tensor of this type at its place.
pub(crate) fn usable(name: &str, n_dims: usize, ty: TensorType) -> Result<(), EngineError> {
    let reason = match n_dims {
        0 | 1 if ty != gristmill_quant::F32 => "but norms, biases and divisors must be f32",
        2.. if !ty.can_decode() => "which no product can be computed with",
        _ => return Ok(()),
    };
    Err(EngineError::TensorType {
        name: name.to_owned(),
        ty: ty.name(),
        reason,
    })
}
