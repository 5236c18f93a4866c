//! How much memory a model takes, from its header alone.
//!
//! The context's share is no formula of its own: the graph is built and planned as [`gristmill_engine::Context`] does it, on
//! handles without memory behind them.

mod generic;
mod recipes;
mod remedy;

use gristmill_engine::{
    CacheTypes, ContextBytes, EngineError, LoadOptions, Network, PAGE_LEN, RopeOverrides,
};
use gristmill_gguf as gguf;
use gristmill_gguf::Value;
use serde::Serialize;

pub use generic::{Generic, GenericEstimate};
pub use recipes::RecipeEstimate;
pub use remedy::{Remedy, Setting};

/// What the program takes before it opens a model: its own code as far as it runs, and its heap.
const PROGRAM_BYTES: u64 = 14 << 20;

/// What a string of the metadata takes, in the metadata and in the tokenizer's tables: measured on vocabularies of 49 to 262
/// thousand tokens, where it is 120 to 160.
const BYTES_PER_STRING: u64 = 130;

/// Estimates for one model.
pub struct Estimator {
    network: Network,
    weights: u64,
    beside: u64,
    program: u64,
    tensors: recipes::Tensors,
    draft: Option<(Box<Estimator>, LoadOptions)>,
}

/// What running a model takes, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// The tensors of the file.
    pub weights: u64,
    /// Those of adapters and control vectors beside it.
    pub beside: u64,
    /// Cache and intermediate values.
    pub context: ContextBytes,
    /// The program itself, the metadata and the vocabulary.
    pub program: u64,
    /// What a model that drafts takes beside it, the program itself not counted again.
    pub draft: Option<Box<Estimate>>,
}

/// Which of it has to be in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Demand {
    /// All of it.
    All,
    /// All but weights, which the system can read from the file again.
    Anonymous,
}

impl Estimate {
    /// What is the process's own: the system cannot take it back where nothing is swapped out.
    pub fn anonymous(&self) -> u64 {
        let context = self.context.cache().saturating_add(self.context.compute());
        let draft = self.draft.as_deref().map_or(0, Estimate::anonymous);
        context.saturating_add(self.program).saturating_add(draft)
    }

    /// What is mapped from files: the weights, those of adapters and of a model that drafts.
    pub fn mapped(&self) -> u64 {
        let draft = self.draft.as_deref().map_or(0, Estimate::mapped);
        let own = self.weights.saturating_add(self.beside);
        own.saturating_add(draft)
    }

    /// All of it.
    pub fn total(&self) -> u64 {
        self.anonymous().saturating_add(self.mapped())
    }

    /// All of it, with weights of another size.
    pub fn total_with(&self, weights: u64) -> u64 {
        let others = self.total().saturating_sub(self.weights);
        others.saturating_add(weights)
    }

    /// What a demand asks for.
    pub fn of(&self, demand: Demand) -> u64 {
        match demand {
            Demand::All => self.total(),
            Demand::Anonymous => self.anonymous(),
        }
    }
}

impl Estimator {
    /// Reads what is needed of a file, of which the header is enough.
    ///
    /// Errors: as [`Network::of_file`].
    pub fn new(file: &gguf::Model, rope: &RopeOverrides) -> Result<Self, EngineError> {
        let n_strings: u64 = file
            .metadata()
            .iter()
            .map(|(_, value)| match value {
                Value::Array(array) if array.as_strings().is_some() => array.len() as u64,
                _ => 0,
            })
            .sum();
        Ok(Estimator {
            network: Network::of_file(file, rope)?,
            weights: file.tensors().iter().map(|tensor| tensor.bytes).sum(),
            beside: 0,
            program: PROGRAM_BYTES + BYTES_PER_STRING * n_strings,
            tensors: recipes::Tensors::of(file),
            draft: None,
        })
    }

    /// The same with so many bytes of tensors in adapters beside the model.
    #[must_use]
    pub fn beside(self, n_bytes: u64) -> Self {
        Estimator {
            beside: n_bytes,
            ..self
        }
    }

    /// With a model that drafts, loaded as `options` say: its context is as long as the model's where it can be, its batches and
    /// what its windows keep are the model's.
    #[must_use]
    pub fn with_draft(mut self, draft: Estimator, options: LoadOptions) -> Self {
        self.draft = Some((Box::new(draft), options));
        self
    }

    /// The model's layers.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// The options as the model is run with: vectors of an encoder are made with a cache in full precision.
    pub fn options(&self, options: &LoadOptions) -> LoadOptions {
        match self.network.hyperparameters().causal {
            true => *options,
            false => LoadOptions {
                cache: CacheTypes::F32,
                ..*options
            },
        }
    }

    /// What running with these options takes.
    ///
    /// Errors: as [`Network::context_bytes`].
    pub fn estimate(&self, options: &LoadOptions) -> Result<Estimate, EngineError> {
        let context = self.network.context_bytes(options)?;
        let of_draft = |(draft, load): &(Box<Estimator>, LoadOptions)| {
            let longest = draft.network.context_length_max();
            let mut estimate = draft.estimate(&LoadOptions {
                n_ctx: Some(context.n_ctx.min(longest)),
                n_ubatch: options.n_ubatch,
                keeps_all: options.keeps_all,
                ..*load
            })?;
            estimate.program = estimate.program.saturating_sub(PROGRAM_BYTES);
            Ok::<_, EngineError>(Box::new(estimate))
        };
        let draft = self.draft.as_ref().map(of_draft).transpose()?;
        Ok(Estimate {
            weights: self.weights,
            beside: self.beside,
            context,
            program: self.program,
            draft,
        })
    }

    /// The longest context, up to the model's own, with which a demand fits; none where not even a page does.
    pub fn longest_context(
        &self,
        options: &LoadOptions,
        demand: Demand,
        memory: u64,
    ) -> Option<usize> {
        let longest = self.network.hyperparameters().n_context_train;
        let longest = longest.min(self.network.context_length_max());
        let at = |n_ctx| LoadOptions {
            n_ctx: Some(n_ctx),
            ..*options
        };
        let fits = |n_ctx: usize| self.fits(&at(n_ctx.clamp(1, longest)), demand, memory);
        if fits(longest) {
            return Some(longest);
        }
        // Longer contexts take more: halved until what fits and what does not are neighbours.
        let (mut low, mut high) = (0, longest.div_ceil(PAGE_LEN));
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            match fits(middle * PAGE_LEN) {
                true => low = middle,
                false => high = middle,
            }
        }
        Some(low * PAGE_LEN).filter(|&n_ctx| n_ctx > 0)
    }

    fn fits(&self, options: &LoadOptions, demand: Demand, memory: u64) -> bool {
        self.estimate(options)
            .is_ok_and(|estimate| estimate.of(demand) <= memory)
    }
}
