//! Rotary embeddings in `config.json`, of whichever generation.

use super::{Config, Entries, bad, integer, kind};
use crate::ModelError;
use crate::tensors::Slot;
use serde_json::{Map, Value};

/// The parameters of rotary embeddings, whichever generation of configuration states them.
#[derive(Clone, Debug, Default)]
pub(super) struct RopeConfig {
    /// Layers with full attention.
    pub full: Map<String, Value>,
    /// Windowed layers.
    pub windowed: Map<String, Value>,
}

impl RopeConfig {
    /// # Errors
    /// Parameters that are no object.
    pub fn new(values: &Map<String, Value>) -> Result<Self, ModelError> {
        let names = ["rope_parameters", "rope_scaling"];
        let of = |name| Some((name, value(values, name)?));
        let (name, stated) = match names.into_iter().find_map(of) {
            Some((name, stated)) => (name, object(name, stated)?.clone()),
            None => ("", Map::new()),
        };
        let part = |kind| {
            let part = stated.get(kind);
            part.map(|part| object(&format!("{name}.{kind}"), part).cloned())
                .transpose()
        };
        let (full, windowed) = (part("full_attention")?, part("sliding_attention")?);
        if full.is_some() || windowed.is_some() {
            return Ok(Self {
                full: full.unwrap_or_else(|| stated.clone()),
                windowed: windowed.unwrap_or_default(),
            });
        }
        let theta = first(values, LOCAL_THETA);
        let windowed = theta.map(|theta| Map::from_iter([("rope_theta".to_owned(), theta)]));
        Ok(Self {
            full: completed(stated, values),
            windowed: windowed.unwrap_or_default(),
        })
    }
}

/// Takes out kinds of attention without parameters, and bases that are `null` because they stand among the parameters.
pub(super) fn drop_empty(values: &mut Map<String, Value>) {
    let mut has_base = false;
    for name in ["rope_parameters", "rope_scaling"] {
        let Some(Value::Object(stated)) = values.get_mut(name) else {
            continue;
        };
        let is_part = |key: &str| ["full_attention", "sliding_attention"].contains(&key);
        stated.retain(|key, value| !(is_part(key) && value.is_null()));
        for part in stated.values().filter_map(Value::as_object) {
            has_base |= value(part, "rope_theta").is_some();
        }
        has_base |= value(stated, "rope_theta").is_some();
    }
    for key in THETA.iter().chain(LOCAL_THETA) {
        if has_base && values.get(*key).is_some_and(Value::is_null) {
            values.remove(*key);
        }
    }
}

/// A value, if it is there and not `null`.
pub(super) fn value<'a>(values: &'a Map<String, Value>, key: &str) -> Option<&'a Value> {
    values.get(key).filter(|value| !value.is_null())
}

fn object<'a>(key: &str, value: &'a Value) -> Result<&'a Map<String, Value>, ModelError> {
    value
        .as_object()
        .ok_or_else(|| bad(key, "an object", &kind(value)))
}

/// Names of the base in layers with full attention.
const THETA: &[&str] = &[
    "global_rope_theta",
    "rope_global_theta",
    "rope_theta_global",
    "rope_theta",
    "rotary_emb_base",
];

/// Names of the base in windowed layers.
const LOCAL_THETA: &[&str] = &[
    "local_rope_theta",
    "rope_local_theta",
    "rope_theta_local",
    "swa_rope_theta",
    "rope_local_base_freq",
];

/// The value of the first of these keys that has one.
fn first(values: &Map<String, Value>, keys: &[&str]) -> Option<Value> {
    keys.iter().find_map(|key| value(values, key)).cloned()
}

/// The parameters, with what older configurations state beside them or under another name.
fn completed(mut stated: Map<String, Value>, values: &Map<String, Value>) -> Map<String, Value> {
    let original = "original_max_position_embeddings";
    let beside = [
        ("rope_theta", first(values, THETA)),
        (original, first(values, &[original])),
        ("rope_type", stated.get("type").cloned()),
    ];
    for (key, value) in beside {
        if let Some(value) = value
            && !stated.contains_key(key)
        {
            stated.insert(key.to_owned(), value);
        }
    }
    stated
}

/// A number among the parameters of rotary embeddings, unless it is missing or `null`.
///
/// # Errors
/// A value of another kind.
pub(crate) fn number(rope: &Map<String, Value>, key: &str) -> Result<Option<f64>, ModelError> {
    value(rope, key)
        .map(|value| super::number(&format!("rope_scaling.{key}"), value))
        .transpose()
}

/// The base of the frequencies, without which there are none.
fn theta(rope: &Map<String, Value>) -> Result<Option<f64>, ModelError> {
    let key = "rope_theta";
    match rope.get(key) {
        Some(Value::Null) => Err(bad(key, "a number", &"null")),
        _ => number(rope, key),
    }
}

/// `rope.freq_base`, by itself.
pub(crate) fn base(config: &Config, entries: &mut Entries<'_>) -> Result<(), ModelError> {
    if let Some(theta) = theta(config.rope())? {
        entries.set("rope.freq_base", theta as f32);
    }
    Ok(())
}

/// The kind of scaling with its numbers, and the bases.
pub(crate) fn entries(config: &Config, entries: &mut Entries<'_>) -> Result<(), ModelError> {
    let rope = config.rope();
    let factor = number(rope, "factor")?;
    let has_divisors = config.architecture.has(Slot::RopeFreqs);
    match (rope_type(rope)?, factor) {
        ("linear", Some(factor)) => {
            entries.set("rope.scaling.type", "linear");
            entries.set("rope.scaling.factor", factor as f32);
        }
        ("yarn", Some(factor)) => yarn_entries(&config.values, rope, factor, entries)?,
        ("linear" | "yarn", None) => {
            return Err(bad("rope_scaling.factor", "a number", &"missing"));
        }
        ("default" | "none" | DYNAMIC, _) => {}
        // It becomes a tensor.
        (other, _) if other.eq_ignore_ascii_case("llama3") && has_divisors => {}
        (other, _) => {
            let supported = if has_divisors {
                "default, linear, yarn or llama3"
            } else {
                "default, linear or yarn"
            };
            return Err(config.unsupported("rope_scaling.rope_type", &other, supported));
        }
    }
    match rope_type(&config.rope.windowed)? {
        "default" => {}
        other => {
            let key = "rope_parameters.sliding_attention.rope_type";
            return Err(config.unsupported(key, &other, "default"));
        }
    }
    base(config, entries)?;
    if let Some(theta) = theta(&config.rope.windowed)? {
        entries.set("rope.freq_base_swa", theta as f32);
    }
    Ok(())
}

/// Changes nothing within the trained context, and has no place in GGUF.
const DYNAMIC: &str = "dynamic";

/// What gets lost beyond the trained context.
pub(super) fn warning(config: &Config) -> Option<String> {
    let is_dynamic = rope_type(config.rope()).is_ok_and(|kind| kind == DYNAMIC);
    is_dynamic.then(|| {
        "config.json: `rope_scaling.rope_type` is dynamic, which GGUF cannot say: beyond the trained context the model \
         will answer worse"
            .to_owned()
    })
}

/// The kind of scaling; `default` where nothing is said.
pub(crate) fn rope_type(rope: &Map<String, Value>) -> Result<&str, ModelError> {
    match rope.get("rope_type") {
        None => Ok("default"),
        Some(Value::String(kind)) => Ok(kind),
        Some(other) => Err(bad("rope_scaling.rope_type", "a name", &kind(other))),
    }
}

fn yarn_entries(
    values: &Map<String, Value>,
    rope: &Map<String, Value>,
    factor: f64,
    entries: &mut Entries<'_>,
) -> Result<(), ModelError> {
    let key = "original_max_position_embeddings";
    // The authors' code takes the context that the model has where the one before scaling is not stated.
    let (name, original) = match value(rope, key) {
        Some(original) => (format!("rope_scaling.{key}"), original),
        None => {
            let name = "max_position_embeddings";
            let missing = || bad(name, "a non-negative integer", &"missing");
            (name.to_owned(), value(values, name).ok_or_else(missing)?)
        }
    };
    entries.set("rope.scaling.type", "yarn");
    entries.set("rope.scaling.factor", factor as f32);
    entries.set(
        "rope.scaling.original_context_length",
        integer(&name, original)?,
    );
    let attention = if rope.contains_key("attention_factor") {
        "attention_factor"
    } else {
        "attn_factor"
    };
    for (suffix, name) in [
        ("yarn_ext_factor", "extrapolation_factor"),
        ("yarn_attn_factor", attention),
        ("yarn_beta_fast", "beta_fast"),
        ("yarn_beta_slow", "beta_slow"),
    ] {
        if let Some(value) = number(rope, name)? {
            entries.set(&format!("rope.scaling.{suffix}"), value as f32);
        }
    }
    Ok(())
}

/// `rope.dimension_count`: the whole head.
pub(crate) fn rotary_dimensions(
    config: &Config,
    entries: &mut Entries<'_>,
) -> Result<(), ModelError> {
    entries.set("rope.dimension_count", config.head_length()?);
    Ok(())
}

/// `rope.dimension_count`: a share of the width of the stream per head.
pub(crate) fn partial_dimensions(
    config: &Config,
    entries: &mut Entries<'_>,
) -> Result<(), ModelError> {
    let key = "partial_rotary_factor";
    let share = match number(config.rope(), key)? {
        Some(share) => share,
        None => match config.get(key) {
            Some(share) => super::number(key, share)?,
            None => 1.0,
        },
    };
    let width = config.integer("hidden_size")?.unwrap_or(0);
    // What is no number of dimensions is refused as such by the loader.
    let rotated = (share * f64::from(width)) as u32;
    let n_heads = config.integer("num_attention_heads")?.unwrap_or(0);
    let per_head = rotated.checked_div(n_heads);
    entries.set(
        "rope.dimension_count",
        per_head.ok_or_else(|| bad("num_attention_heads", "a positive integer", &n_heads))?,
    );
    Ok(())
}
