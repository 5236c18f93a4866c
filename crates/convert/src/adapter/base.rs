//! The base model of an adapter: only its description is needed.

use super::{AdapterError, ConvertLoraOptions};
use crate::ConvertError;
use crate::checkpoint::read_description;
use crate::convert::{hyperparameters, without_tokenizer};
use crate::output::float;
use gristmill_gguf::Model;
use gristmill_model::Hyperparameters;
use safetensors::Dtype;
use std::path::{Path, PathBuf};

/// Where the base model's description is: given by the user, or by name.
pub(super) fn find(
    options: &ConvertLoraOptions,
    stated: Option<&str>,
) -> Result<PathBuf, AdapterError> {
    let name = match (&options.base_model_id, &options.base) {
        (Some(id), _) => Some(id.as_str()),
        (None, Some(base)) => return Ok(base.clone()),
        (None, None) => stated,
    };
    let folder = |name: &str| {
        let cached = || in_cache(options.hub_cache.as_deref()?, name);
        let is_model = |path: &PathBuf| path.join("config.json").is_file();
        // As it is written, or seen from the adapter.
        [PathBuf::from(name), options.folder.join(name)]
            .into_iter()
            .find(is_model)
            .or_else(cached)
    };
    name.and_then(folder).ok_or_else(|| AdapterError::NoBase {
        path: options.folder.clone(),
        name: name.map(str::to_owned),
    })
}

/// The newest snapshot of a repository in the hub's cache, where it has a description.
fn in_cache(cache: &Path, id: &str) -> Option<PathBuf> {
    let repository = cache.join(format!("models--{}", id.replace('/', "--")));
    let main = std::fs::read_to_string(repository.join("refs/main")).ok()?;
    let snapshot = repository.join("snapshots").join(main.trim());
    snapshot.join("config.json").is_file().then_some(snapshot)
}

/// The hyperparameters of a base model: a checkpoint's folder or a GGUF file.
///
/// # Errors
/// No description there, or one that is not supported.
pub(super) fn describe(base: &Path) -> Result<Hyperparameters, ConvertError> {
    if base.is_file() {
        let file = Model::open(base)?;
        let hparams = Hyperparameters::from_metadata(file.metadata());
        return hparams.map_err(|error| ConvertError::from(error).of(base));
    }
    let config = read_description(base)?;
    let hparams = without_tokenizer(&config)
        .and_then(|tokenizer| hyperparameters(&config, float(Dtype::F32), &tokenizer));
    hparams.map_err(|error| error.of(base))
}
