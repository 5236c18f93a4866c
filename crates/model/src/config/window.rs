//! Which layers see a window only, in `config.json`, and how metadata says it.

use super::{Config, Entries, bad, kind};
use crate::ModelError;
use crate::hyperparameters::MAX_LAYERS;
use gristmill_gguf::Value as Entry;
use serde_json::Value;

/// The window, and which layers have it where that is not what a loader assumes.
pub(crate) fn window_entries(config: &Config, entries: &mut Entries<'_>) -> Result<(), ModelError> {
    let Some(choice) = config.architecture.choices.window else {
        return Ok(());
    };
    let windowed = windowed_layers(config)?;
    // Without a window of their own some loaders assume one.
    if choice.length.is_none() && !windowed.contains(&true) {
        return Ok(());
    }
    if let Some(window) = config.integer("sliding_window")? {
        entries.set("attention.sliding_window", window);
        window_pattern(&windowed, choice.pattern, entries);
    }
    Ok(())
}

/// Whether each layer is windowed: as `layer_types` says, or all but each `pattern`-th, which is the architecture's where
/// nothing is said.
///
/// # Errors
/// A list of another length than the model has layers, a kind of layer that is neither, more layers than a model may
/// have.
pub(crate) fn windowed_layers(config: &Config) -> Result<Vec<bool>, ModelError> {
    let n_layers = config.integer("num_hidden_layers")?.unwrap_or(0) as usize;
    if n_layers > MAX_LAYERS {
        return Err(bad("num_hidden_layers", "at most 512", &n_layers));
    }
    if let Some(types) = config.get("layer_types") {
        let types = types.as_array().filter(|types| types.len() == n_layers);
        let Some(types) = types else {
            let found = config.get("layer_types").map_or(String::new(), kind);
            return Err(bad("layer_types", "a list with each layer's kind", &found));
        };
        let windowed = types.iter().map(|layer| match layer.as_str() {
            Some("sliding_attention") => Ok(true),
            Some("full_attention") => Ok(false),
            _ => Err(bad(
                "layer_types",
                "sliding_attention or full_attention for each layer",
                &kind(layer),
            )),
        });
        return windowed.collect();
    }
    let keys = ["sliding_window_pattern", "_sliding_window_pattern"];
    let pattern = match config.first(&keys).or_else(|| config.stated(&keys)) {
        Some((key, value)) => match super::integer(key, value)? {
            0 => return Err(bad(key, "a positive integer", &Value::from(0))),
            pattern => pattern as usize,
        },
        None => {
            let choice = config.architecture.choices.window;
            choice.map_or(1, |choice| choice.pattern)
        }
    };
    Ok(by_pattern(n_layers, pattern))
}

/// Says which layers are windowed, unless a loader assumes it anyway: `default` is the pattern that it assumes.
fn window_pattern(windowed: &[bool], default: usize, entries: &mut Entries<'_>) {
    let n_layers = windowed.len();
    let is = |pattern: &usize| by_pattern(n_layers, *pattern) == windowed;
    if is(&default) {
        return;
    }
    let value = match (2..=n_layers + 1).find(is) {
        Some(pattern) => Entry::from(pattern as u32),
        None => Entry::from(windowed.to_vec()),
    };
    entries.set("attention.sliding_window_pattern", value);
}

/// All but each `pattern`-th.
fn by_pattern(n_layers: usize, pattern: usize) -> Vec<bool> {
    (1..=n_layers).map(|layer| layer % pattern != 0).collect()
}
