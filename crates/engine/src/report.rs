//! What loading tells.

use gristmill_gguf::FileType;
use gristmill_tokenizer::Tokenizer;

use crate::cache::CacheTypes;
use crate::context::Context;

/// What was loaded, and what it takes.
#[derive(Clone, Debug)]
pub struct LoadReport {
    /// `general.name`, if the file has one.
    pub name: Option<String>,
    /// `general.architecture`.
    pub architecture: &'static str,
    /// Number of weights.
    pub n_parameters: u64,
    /// Bytes of the file or of all shards.
    pub file_bytes: u64,
    /// Number of files.
    pub n_shards: usize,
    /// The recipe, if the file states one.
    pub recipe: Option<FileType>,
    /// Names of the tensor types with the number of tensors and bytes, by bytes falling.
    pub types: Vec<(&'static str, usize, u64)>,
    /// Positions of the context.
    pub n_ctx: usize,
    /// Context length of the training.
    pub n_context_train: usize,
    /// Types of keys and values.
    pub cache: (&'static str, &'static str),
    /// Bytes of the cache.
    pub cache_bytes: u64,
    /// Bytes of weights.
    pub weight_bytes: u64,
    /// Whether the system maps them from the file, rather than that they were read.
    pub is_mapped: bool,
    /// Bytes of intermediate values.
    pub compute_bytes: u64,
    /// Whether the file has a chat template.
    pub has_template: bool,
    /// Kind of tokenizer and its pre-tokenizer.
    pub tokenizer: String,
    /// Backend.
    pub backend: &'static str,
    /// Instruction set.
    pub isa: &'static str,
    /// Threads.
    pub n_threads: usize,
    /// Threads for batches of more than one token.
    pub n_threads_batch: usize,
}

impl LoadReport {
    /// Describes a context and its model.
    pub fn new(context: &Context, cache: CacheTypes) -> Self {
        let model = context.model();
        let hparams = model.hyperparameters();
        let metadata = model.file().metadata();
        let types = model.types();
        LoadReport {
            name: metadata
                .text("general.name")
                .ok()
                .flatten()
                .map(|name| name.to_str_lossy().into_owned()),
            architecture: hparams.architecture.name,
            n_parameters: model.n_parameters(),
            file_bytes: model.file().size(),
            n_shards: model.file().shards().len(),
            recipe: metadata
                .u32("general.file_type")
                .ok()
                .flatten()
                .map(FileType::from_id),
            is_mapped: model.is_mapped(),
            weight_bytes: types.iter().map(|&(_, _, bytes)| bytes).sum(),
            types: types
                .into_iter()
                .map(|(ty, n, bytes)| (ty.name(), n, bytes))
                .collect(),
            n_ctx: context.n_ctx(),
            n_context_train: hparams.n_context_train,
            cache: (cache.k.name(), cache.v.name()),
            cache_bytes: context.cache_bytes(),
            compute_bytes: context.compute_bytes(),
            has_template: model.template_source(None).is_some(),
            tokenizer: tokenizer_name(model.tokenizer()),
            backend: model.backend_name(),
            isa: model.isa(),
            n_threads: model.n_threads(),
            n_threads_batch: model.n_threads_batch(),
        }
    }
}

fn tokenizer_name(tokenizer: &Tokenizer) -> String {
    match tokenizer.pre_tokenizer() {
        Some(pre) => format!("{} ({pre})", tokenizer.kind()),
        None => tokenizer.kind().to_owned(),
    }
}
