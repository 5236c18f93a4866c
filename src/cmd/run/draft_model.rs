//! A model that drafts: its name and what it takes.

use std::path::{Path, PathBuf};

use gristmill_engine::{CacheTypes, DraftModel, DraftModelOptions, LoadOptions};
use gristmill_hub::ModelName;
use gristmill_quant::TensorType;

use super::flags::cache_types;
use super::placing::PlacingFlags;
use super::speculative::SIZE_MAX;
use crate::memory;
use crate::model_path::ModelPath;
use crate::numbers;

/// The flags of a draft model that its memory depends on.
#[derive(clap::Args)]
#[command(next_help_heading = "Drafts: faster answers, token for token the same")]
pub struct DraftModelFlags {
    /// A smaller model of the same vocabulary, which drafts where the text itself gives no draft
    #[arg(long, visible_alias = "model-draft", value_name = "FILE")]
    spec_draft_model: Option<PathBuf>,
    /// The same from the hub
    #[arg(
        long,
        visible_alias = "hf-repo-draft",
        value_name = "USER/REPO[:QUANT]",
        conflicts_with = "spec_draft_model"
    )]
    spec_draft_hf: Option<ModelName>,
    /// Branch, tag or commit of its repository [default: main]
    #[arg(long, value_name = "REVISION", requires = "spec_draft_hf")]
    spec_draft_revision: Option<String>,
    /// Tokens that it drafts at most [default: 3]
    #[arg(long, value_name = "N", value_parser = numbers::count(1..=SIZE_MAX))]
    spec_draft_n_max: Option<usize>,
    /// Type of its KV cache's keys [default: f16]
    #[arg(long, visible_alias = "cache-type-k-draft", value_name = "TYPE", value_parser = cache_types())]
    spec_draft_type_k: Option<TensorType>,
    /// Type of its values [default: f16]
    #[arg(long, visible_alias = "cache-type-v-draft", value_name = "TYPE", value_parser = cache_types())]
    spec_draft_type_v: Option<TensorType>,
}

impl DraftModelFlags {
    /// The flags that name a model and are given.
    pub fn names(&self) -> Vec<&'static str> {
        let named = [
            ("--spec-draft-model", self.spec_draft_model.is_some()),
            ("--spec-draft-hf", self.spec_draft_hf.is_some()),
        ];
        let given = named.iter().filter(|(_, is_given)| *is_given);
        given.map(|(flag, _)| *flag).collect()
    }

    /// Whether one is named.
    pub fn is_named(&self) -> bool {
        !self.names().is_empty()
    }

    /// The other flags that are given.
    pub fn given(&self) -> Vec<&'static str> {
        let others = [
            ("--spec-draft-n-max", self.spec_draft_n_max.is_some()),
            ("--spec-draft-type-k", self.spec_draft_type_k.is_some()),
            ("--spec-draft-type-v", self.spec_draft_type_v.is_some()),
        ];
        let given = others.iter().filter(|(_, is_given)| *is_given);
        given.map(|(flag, _)| *flag).collect()
    }

    /// Tokens of a draft at most, where they are given.
    pub fn n_max(&self) -> Option<usize> {
        self.spec_draft_n_max
    }

    /// The file, fetched where it is on the hub; none where no model is named.
    ///
    /// # Errors
    /// A download that fails.
    pub fn path(&self, model: &ModelPath) -> anyhow::Result<Option<PathBuf>> {
        match (&self.spec_draft_model, &self.spec_draft_hf) {
            (Some(path), _) => Ok(Some(path.clone())),
            (None, Some(name)) => {
                let revision = self.spec_draft_revision.as_deref();
                model.fetch_another(name, revision).map(Some)
            }
            (None, None) => Ok(None),
        }
    }

    /// How it is loaded beside a model that is loaded so; its context is as long as that one's.
    pub fn load_options(&self, load: &LoadOptions) -> LoadOptions {
        let defaults = LoadOptions::default();
        let n_max = self.spec_draft_n_max;
        LoadOptions {
            n_threads: load.n_threads,
            n_threads_batch: load.n_threads_batch,
            cache: CacheTypes {
                k: self.spec_draft_type_k.unwrap_or(defaults.cache.k),
                v: self.spec_draft_type_v.unwrap_or(defaults.cache.v),
            },
            n_ubatch: load.n_ubatch,
            keeps_all: load.keeps_all,
            n_taken_back: n_max.unwrap_or(DraftModelOptions::default().n_max),
            ..defaults
        }
    }
}

/// Loads a model that drafts, and tells it in words.
///
/// # Errors
/// A file that cannot be loaded, or that has no place in memory.
pub fn drafter(
    path: &Path,
    mut options: LoadOptions,
    how: DraftModelOptions,
    placing: &PlacingFlags,
) -> anyhow::Result<(DraftModel, String)> {
    let model = placing.load(path, &options)?;
    options.n_ctx = options
        .n_ctx
        .map(|n| n.min(model.network().context_length_max()));
    memory::fit_context(&model, &mut options)?;
    let drafter = DraftModel::new(model, &options, how).map_err(|error| {
        anyhow::Error::new(error).context(format!("{}: cannot draft with it", path.display()))
    })?;
    let told = told(&drafter);
    Ok((drafter, told))
}

/// A draft model in words.
fn told(drafter: &DraftModel) -> String {
    let context = drafter.session().context();
    let model = context.model();
    let threads = match (model.n_threads(), model.n_threads_batch()) {
        (n, n_batch) if n == n_batch => format!("{n} threads"),
        (n, n_batch) => format!("{n} threads, {n_batch} for prompts"),
    };
    format!(
        "{} ({:.1} M parameters, KV cache {:.1} MiB, {threads})",
        model.file().path().display(),
        model.n_parameters() as f64 / 1e6,
        context.cache_bytes() as f64 / f64::from(1 << 20)
    )
}
