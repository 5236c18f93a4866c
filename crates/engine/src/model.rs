//! A loaded model: the file's weights in place, its vocabulary and its templates.

use std::sync::Arc;

use gristmill_compute::{Backend, BufferId, CpuBackend, LlamaCppBackend, Tensor};
use gristmill_gguf as gguf;
use gristmill_model::{Hyperparameters, ModelError, RopeOverrides, Slot, TensorSpec};
use gristmill_quant::TensorType;
use gristmill_tokenizer::Tokenizer;

use crate::cache::{CacheTypes, PAGE_LEN, Rotation};
use crate::chat::ChatTemplate;
use crate::error::EngineError;
use crate::network::{self, Network};

/// Without a wish for a context length, the cache takes at most this many bytes.
pub const DEFAULT_CACHE_BYTES_MAX: u64 = 4 << 30;

/// The longest context: slots are 32-bit numbers, with room for the rounding up to whole pages.
pub const CONTEXT_MAX: usize = i32::MAX as usize - PAGE_LEN;

/// Whose order of additions and roundings a model is computed in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arithmetic {
    /// This project's: as exact as is fast, and the same bits however tokens are cut into batches.
    #[default]
    Own,
    /// That of llama.cpp on AVX2, operation by operation; slower.
    LlamaCpp,
}

/// How to load and run a model.
#[derive(Clone, Copy, Debug)]
pub struct LoadOptions {
    /// Threads, the caller's counted; none for one per processor.
    pub n_threads: Option<usize>,
    /// Threads for batches of more than one token, the caller's counted; none for as many as above.
    pub n_threads_batch: Option<usize>,
    /// Positions of the context; none for the model's own, cut so that the cache stays within
    /// [`DEFAULT_CACHE_BYTES_MAX`].
    pub n_ctx: Option<usize>,
    /// Element types of the cache.
    pub cache: CacheTypes,
    /// Most tokens of one execution.
    pub n_ubatch: usize,
    /// Sequences that go on at a time: so many windows are kept.
    pub n_sequences: usize,
    /// Whether layers with a window keep the whole past too, so that a sequence can be cut back to any position.
    pub keeps_all: bool,
    /// Positions at the end of a sequence that windows let be taken back, however they were computed.
    pub n_taken_back: usize,
    /// Whose arithmetic.
    pub arithmetic: Arithmetic,
    /// Rotation in place of the file's own.
    pub rope: RopeOverrides,
}

impl Default for LoadOptions {
    fn default() -> Self {
        LoadOptions {
            n_threads: None,
            n_threads_batch: None,
            n_ctx: None,
            cache: CacheTypes::F16,
            n_ubatch: 512,
            n_sequences: 1,
            keeps_all: false,
            n_taken_back: 0,
            arithmetic: Arithmetic::Own,
            rope: RopeOverrides::default(),
        }
    }
}

/// A loaded model. Its weights stay in the mapped file.
pub struct Model {
    file: gguf::Model,
    network: Network,
    tokenizer: Arc<Tokenizer>,
    backend: Arc<dyn Backend>,
    regions: Vec<BufferId>,
    n_threads: usize,
    n_threads_batch: usize,
    isa: &'static str,
    arithmetic: Arithmetic,
}

impl std::fmt::Debug for Model {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Model")
            .field("path", &self.file.path())
            .finish_non_exhaustive()
    }
}

impl Model {
    /// Checks a file and makes it ready to run on the CPU.
    ///
    /// Errors: a file that is no model (a vocabulary, an importance matrix, an adapter, a projector), an unknown
    /// architecture, a missing, unknown or misshapen tensor, a vocabulary that cannot be used.
    pub fn load(file: gguf::Model, options: &LoadOptions) -> Result<Arc<Self>, EngineError> {
        let isa = gristmill_kernels::select_isa()?.name();
        let n_threads = gristmill_kernels::n_threads(options.n_threads.unwrap_or(0));
        let n_batch = options.n_threads_batch.map(gristmill_kernels::n_threads);
        let n_batch = n_batch.unwrap_or(n_threads);
        let backend: Arc<dyn Backend> = match options.arithmetic {
            Arithmetic::Own => Arc::new(CpuBackend::with_batch_threads(n_threads, n_batch)),
            Arithmetic::LlamaCpp => {
                let n_ubatch = if options.keeps_all {
                    usize::MAX
                } else {
                    options.n_ubatch
                };
                Arc::new(LlamaCppBackend::with_batches(n_threads, n_batch, n_ubatch))
            }
        };
        let mut model = Self::on(backend, file, &options.rope, [n_threads, n_batch], isa)?;
        model.arithmetic = options.arithmetic;
        Ok(Arc::new(model))
    }

    /// As [`Model::load`], on a backend of the caller's.
    ///
    /// Errors: as [`Model::load`].
    pub fn load_on(
        backend: Arc<dyn Backend>,
        file: gguf::Model,
        rope: &RopeOverrides,
        n_threads: usize,
        isa: &'static str,
    ) -> Result<Arc<Self>, EngineError> {
        Self::on(backend, file, rope, [n_threads; 2], isa).map(Arc::new)
    }

    fn on(
        backend: Arc<dyn Backend>,
        file: gguf::Model,
        rope: &RopeOverrides,
        [n_threads, n_threads_batch]: [usize; 2],
        isa: &'static str,
    ) -> Result<Self, EngineError> {
        file.require_weights()?;
        let mut regions = Vec::new();
        for shard in 0..file.shards().len() {
            if let Some(region) = file.region(shard) {
                regions.push(backend.import(region)?);
            }
        }
        Ok(Model {
            network: Network::bound(&file, rope, &regions)?,
            tokenizer: Arc::new(Tokenizer::from_metadata(file.metadata())?),
            file,
            backend,
            regions,
            n_threads,
            n_threads_batch,
            isa,
            arithmetic: Arithmetic::Own,
        })
    }

    /// Its layers.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// The file.
    pub fn file(&self) -> &gguf::Model {
        &self.file
    }

    /// The model's facts.
    pub fn hyperparameters(&self) -> &Hyperparameters {
        &self.network.hparams
    }

    /// The vocabulary.
    pub fn tokenizer(&self) -> &Arc<Tokenizer> {
        &self.tokenizer
    }

    /// Number of tokens, and of logits in a row.
    pub fn n_vocab(&self) -> usize {
        self.network.hparams.n_vocab
    }

    /// Threads in use.
    pub fn n_threads(&self) -> usize {
        self.n_threads
    }

    /// Threads for batches of more than one token.
    pub fn n_threads_batch(&self) -> usize {
        self.n_threads_batch
    }

    /// Whether the system maps the weights from the file, rather than that they were read into memory.
    pub fn is_mapped(&self) -> bool {
        let shards = self.file.shards().iter();
        shards
            .map(gguf::File::region)
            .all(|region| region.is_mapped())
    }

    /// Name of the backend.
    pub fn backend_name(&self) -> &'static str {
        self.backend.name()
    }

    /// Whose arithmetic it is computed in.
    pub fn arithmetic(&self) -> Arithmetic {
        self.arithmetic
    }

    /// Name of the instruction set.
    pub fn isa(&self) -> &'static str {
        self.isa
    }

    /// Number of weights.
    pub fn n_parameters(&self) -> u64 {
        self.file
            .tensors()
            .iter()
            .map(|tensor| tensor.n_elements())
            .sum()
    }

    /// Each tensor type of the file with the number of tensors and their bytes, by bytes falling.
    pub fn types(&self) -> Vec<(TensorType, usize, u64)> {
        let mut types: Vec<(TensorType, usize, u64)> = Vec::new();
        for tensor in self.file.tensors() {
            match types.iter_mut().find(|(ty, _, _)| *ty == tensor.ty) {
                Some((_, n, bytes)) => {
                    *n += 1;
                    *bytes += tensor.bytes;
                }
                None => types.push((tensor.ty, 1, tensor.bytes)),
            }
        }
        types.sort_by_key(|&(_, _, bytes)| std::cmp::Reverse(bytes));
        types
    }

    /// The source of the model's own chat template, of its default one or of a named one.
    pub fn template_source(&self, name: Option<&str>) -> Option<String> {
        let key = match name {
            Some(name) => format!("tokenizer.chat_template.{name}"),
            None => "tokenizer.chat_template".to_owned(),
        };
        let text = self.file.metadata().text(&key).ok()??;
        Some(text.to_str_lossy().into_owned())
    }

    /// The model's own chat template, if it has one.
    ///
    /// Errors: a template that cannot be parsed.
    pub fn chat_template(&self) -> Result<Option<ChatTemplate>, EngineError> {
        self.template_source(None)
            .map(|source| ChatTemplate::new(&source))
            .transpose()
    }

    /// How the keys of each layer turn; none where positions have embeddings, which no turn can change.
    pub(crate) fn rotations(
        &self,
        n_ctx: usize,
    ) -> Result<Option<Vec<Option<Rotation>>>, EngineError> {
        let Some(ropes) =
            gristmill_model::ropes(&self.network.hparams, &self.network.weights, n_ctx)
        else {
            return Ok(None);
        };
        let rotation = |rope: gristmill_compute::Rope| {
            let mut factors = None;
            if let Some(tensor) = &rope.factors {
                let mut bytes = vec![0; tensor.n_bytes()?];
                self.backend
                    .read(tensor.buffer, tensor.offset, &mut bytes)?;
                let floats = bytes.as_chunks().0.iter().copied().map(f32::from_le_bytes);
                factors = Some(floats.collect::<Vec<f32>>());
            }
            let frequencies = rope.frequencies(factors.as_deref()).collect();
            Ok::<_, EngineError>(Rotation {
                style: rope.style,
                frequencies,
                magnitude: rope.magnitude(),
            })
        };
        let rotations = ropes.into_iter().map(|rope| rope.map(rotation).transpose());
        rotations.collect::<Result<_, _>>().map(Some)
    }

    /// Whether a sequence can be computed in one go.
    ///
    /// Errors: a token id outside the vocabulary, more tokens than the model's context.
    pub fn check_tokens(&self, ids: &[u32]) -> Result<(), EngineError> {
        let n_vocab = self.n_vocab();
        if let Some(&id) = ids.iter().find(|&&id| id as usize >= n_vocab) {
            return Err(EngineError::TokenOutOfRange { id, n_vocab });
        }
        let n_context_train = self.network.hparams.n_context_train;
        if ids.len() > n_context_train {
            return Err(EngineError::BeyondTraining {
                n_tokens: ids.len(),
                n_context_train,
                key: format!("{}.context_length", self.network.hparams.architecture.name),
            });
        }
        Ok(())
    }

    /// The weight that a tensor of the table is: where the output projection is the table of embeddings, that one.
    pub(crate) fn weight(&self, spec: &TensorSpec) -> Result<Tensor, EngineError> {
        let named = network::bind(&self.file, &self.regions, spec)?;
        let tied = self
            .network
            .weights
            .token_embd
            .filter(|_| spec.slot == Slot::Output);
        named.or(tied).ok_or_else(|| {
            EngineError::Model(ModelError::AdapterForeign {
                name: format!("{}.lora_a", spec.name),
                base: self.network.hparams.architecture.name,
            })
        })
    }

    pub(crate) fn backend(&self) -> Arc<dyn Backend> {
        self.backend.clone()
    }

    /// Whether the scores of its classifier are shares of 1.
    pub fn scores_are_shares(&self) -> bool {
        self.network.hparams.architecture.choices.scores_are_shares
    }

    /// The names of the classifier's results, in order; numbers where the file has none.
    pub fn labels(&self) -> Vec<String> {
        let key = format!(
            "{}.classifier.output_labels",
            self.network.hparams.architecture.name
        );
        let named = self.file.metadata().strings(&key).ok().flatten();
        let named = named.into_iter().flat_map(|labels| labels.iter());
        let named = named.map(|label| String::from_utf8_lossy(label).into_owned());
        let numbers = (0..self.network.hparams.n_labels).map(|number| number.to_string());
        match self.network.hparams.has_labels {
            true => named.collect(),
            false => numbers.collect(),
        }
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        for &region in &self.regions {
            self.backend.free(region);
        }
    }
}
