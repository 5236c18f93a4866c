//! LongRoPE in `config.json`: divisors for short and for long contexts, and what cosines and sines are multiplied by.

use super::rope::{rope_type, value};
use super::{Config, Entries, bad, integer, kind, number, rope_number};
use crate::{Hyperparameters, ModelError};
use serde_json::Value;

/// Divisors of the frequencies in contexts longer than the original one.
pub(crate) fn long_factors(
    config: &Config,
    hparams: &Hyperparameters,
) -> Result<Option<Vec<f32>>, ModelError> {
    factors(config, hparams, "long_factor")
}

/// Divisors of the frequencies in contexts up to the original one.
pub(crate) fn short_factors(
    config: &Config,
    hparams: &Hyperparameters,
) -> Result<Option<Vec<f32>>, ModelError> {
    factors(config, hparams, "short_factor")
}

fn factors(
    config: &Config,
    hparams: &Hyperparameters,
    key: &str,
) -> Result<Option<Vec<f32>>, ModelError> {
    if !is_stretched(config)? {
        return Ok(None);
    }
    let name = format!("rope_scaling.{key}");
    let expected = "a list of positive numbers, one for each pair of rotated dimensions";
    let stated = value(config.rope(), key);
    let list = stated.and_then(Value::as_array);
    let Some(list) = list.filter(|list| list.len() == hparams.n_rot / 2) else {
        let found = stated.map_or_else(|| "missing".to_owned(), kind);
        return Err(bad(&name, expected, &found));
    };
    let factor = |item: &Value| {
        let factor = number(&name, item)? as f32;
        match factor > 0.0 && (1.0 / factor).is_finite() {
            true => Ok(factor),
            false => Err(bad(&name, expected, item)),
        }
    };
    list.iter().map(factor).collect::<Result<_, _>>().map(Some)
}

/// The context before it was stretched, in tokens.
pub(crate) fn original_context(config: &Config) -> Result<u32, ModelError> {
    let key = "original_max_position_embeddings";
    let name = format!("rope_scaling.{key}");
    let stated = value(config.rope(), key);
    let length = stated.map(|stated| integer(&name, stated)).transpose()?;
    // Logarithms of it are divided by.
    length.filter(|&length| length > 1).ok_or_else(|| {
        let found = stated.map_or_else(|| "missing".to_owned(), kind);
        bad(&name, "a number of tokens, at least 2", &found)
    })
}

/// `rope.scaling.attn_factor`.
pub(crate) fn attention_factor(
    config: &Config,
    entries: &mut Entries<'_>,
) -> Result<(), ModelError> {
    if !is_stretched(config)? {
        return Ok(());
    }
    let rope = config.rope();
    let original = original_context(config)?;
    let stretched = config
        .integer("max_position_embeddings")?
        .unwrap_or(original);
    let scale = f64::from(stretched) / f64::from(original);
    let factor = match rope_number(rope, "attention_factor")? {
        Some(stated) => stated,
        None if scale <= 1.0 => 1.0,
        None if rope_type(rope)? == "yarn" => 0.1 * scale.ln() + 1.0,
        None => (1.0 + scale.ln() / f64::from(original).ln()).sqrt(),
    };
    entries.set("rope.scaling.attn_factor", factor as f32);
    Ok(())
}

/// Whether there are divisors.
///
/// # Errors
/// A kind of scaling other than those that have them.
fn is_stretched(config: &Config) -> Result<bool, ModelError> {
    match rope_type(config.rope())? {
        "default" | "none" => Ok(false),
        "longrope" | "su" | "yarn" => Ok(true),
        other => {
            let key = "rope_scaling.rope_type";
            Err(config.unsupported(key, &other, "default, longrope, su or yarn"))
        }
    }
}
