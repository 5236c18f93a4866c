//! `config.json`, and how it becomes metadata: the entries, in the order in which the reference writes them.

mod fact;
mod fallback;
mod longrope;
mod reverse;
mod rope;
mod shared;
mod window;

use crate::arch::{self, Architecture, Class};
use crate::{ModelError, Pooling};
use gristmill_gguf::{Metadata, Value as Entry};
use rope::RopeConfig;
use serde_json::{Map, Value};

pub use fact::{Fact, Otherwise};
pub use fallback::Fallback;
pub use reverse::{ReverseSource, Reversed};

pub(crate) use fact::{
    GELU_TANH, NO_ATTENTION_BIAS, NO_ATTENTION_CAP, NO_WINDOW, NO_WINDOW_SWITCHED_ON,
    ONE_DIRECTION, QUERY_SCALE, SILU, WHOLE_HEADS,
};
pub(crate) use fallback::ALL_HEADS;
pub(crate) use longrope::{attention_factor, long_factors, original_context, short_factors};
pub(crate) use rope::{base as rope_base, entries as rope_entries, number as rope_number};
pub(crate) use rope::{partial_dimensions, rope_type, rotary_dimensions};
pub(crate) use shared::*;
pub(crate) use window::{window_entries, windowed_layers};

/// A model's `config.json`.
#[derive(Clone, Debug)]
pub struct Config {
    values: Map<String, Value>,
    /// The architecture that its class converts to.
    pub architecture: &'static Architecture,
    /// The Hugging Face class.
    pub class: &'static Class,
    /// How the rows of a text become one, which other files of the folder say.
    pub pooling: Option<Pooling>,
    rope: RopeConfig,
}

/// How an entry of the metadata comes about. `key` is below the architecture's prefix; of the names in `from`, the
/// first that the configuration has a value for counts, and without one nothing is written.
#[derive(Clone, Copy)]
pub enum Rule {
    /// An integer.
    U32 {
        /// Metadata key.
        key: &'static str,
        /// Names in the configuration.
        from: &'static [&'static str],
    },
    /// A number.
    F32 {
        /// Metadata key.
        key: &'static str,
        /// Names in the configuration.
        from: &'static [&'static str],
    },
    /// A number that 0 turns off.
    F32Unless0 {
        /// Metadata key.
        key: &'static str,
        /// Names in the configuration.
        from: &'static [&'static str],
    },
    /// `general.file_type`.
    FileType,
    /// Anything else.
    With(fn(&Config, &mut Entries<'_>) -> Result<(), ModelError>),
}

/// Writes entries below an architecture's prefix.
pub struct Entries<'a> {
    metadata: &'a mut Metadata,
    prefix: &'static str,
}

impl Entries<'_> {
    /// Sets `PREFIX.suffix`, in place if it is there.
    pub fn set(&mut self, suffix: &str, value: impl Into<Entry>) {
        self.metadata
            .set(format!("{}.{suffix}", self.prefix), value);
    }
}

impl Config {
    /// Parses the text of a `config.json` and finds its architecture.
    ///
    /// # Errors
    /// Text that is no JSON object, no class name, or a class that is not supported.
    pub fn parse(text: &str) -> Result<Self, ModelError> {
        let whole = serde_json::from_str(text)
            .map_err(|error| bad("(whole file)", "a JSON object", &error))?;
        Self::from_value(whole)
    }

    /// Finds the architecture of a `config.json` that has been read.
    ///
    /// # Errors
    /// As [`Config::parse`].
    pub fn from_value(whole: Value) -> Result<Self, ModelError> {
        let Value::Object(mut values) = whole else {
            return Err(bad("(whole file)", "a JSON object", &kind(&whole)));
        };
        let text_config = match values.get("text_config") {
            Some(Value::Object(text)) => text.clone(),
            _ => Map::new(),
        };
        let class = |values: &Map<String, Value>| {
            values
                .get("architectures")?
                .get(0)?
                .as_str()
                .map(str::to_owned)
        };
        let name = class(&text_config).or_else(|| class(&values));
        values.extend(text_config);
        let name =
            name.ok_or_else(|| bad("architectures", "a list with the model's class", &"missing"))?;
        let known = arch::architecture_of_config(&name);
        let (architecture, class) =
            known.ok_or_else(|| arch::unknown(&name, arch::class_names()))?;
        rope::drop_empty(&mut values);
        fallback::complete(class, &mut values)?;
        let rope = RopeConfig::new(&values)?;
        Ok(Self {
            values,
            architecture,
            class,
            pooling: None,
            rope,
        })
    }

    /// A value, if it is there and not `null`.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.values.get(key).filter(|value| !value.is_null())
    }

    /// The first of these keys that has a value, with it.
    fn first(&self, keys: &[&'static str]) -> Option<(&'static str, &Value)> {
        keys.iter().find_map(|key| Some((*key, self.get(key)?)))
    }

    /// The first of these keys that is there, with its value, which may be `null`.
    fn stated(&self, keys: &[&'static str]) -> Option<(&'static str, &Value)> {
        keys.iter()
            .find_map(|key| Some((*key, self.values.get(*key)?)))
    }

    /// The key that a metadata entry was made from.
    pub fn origin(&self, metadata_key: &str) -> Option<&'static str> {
        let suffix = metadata_key
            .strip_prefix(self.architecture.name)?
            .strip_prefix('.')?;
        let computed = COMPUTED_FROM.iter().find(|(key, _)| *key == suffix);
        let stated = self.architecture.rules().find_map(|rule| match *rule {
            Rule::U32 { key, from } | Rule::F32 { key, from } | Rule::F32Unless0 { key, from }
                if key == suffix =>
            {
                self.first(from).map(|(name, _)| name)
            }
            _ => None,
        });
        stated.or(computed.map(|(_, name)| *name))
    }

    /// The error of a loader, with the key of the configuration in place of the one that its value became.
    pub fn blamed(&self, error: ModelError) -> ModelError {
        match error {
            ModelError::Hyperparameter { key, value, reason } => match self.origin(&key) {
                Some(name) => ModelError::ConfigValue {
                    key: name.to_owned(),
                    value,
                    reason,
                },
                None => ModelError::Hyperparameter { key, value, reason },
            },
            error => error,
        }
    }

    /// A non-negative integer.
    ///
    /// # Errors
    /// A value of another kind or size.
    pub fn integer(&self, key: &str) -> Result<Option<u32>, ModelError> {
        self.get(key).map(|value| integer(key, value)).transpose()
    }

    /// Whether the output projection is the embedding matrix.
    pub fn ties_embeddings(&self) -> bool {
        self.get("tie_word_embeddings")
            .and_then(Value::as_bool)
            .unwrap_or(false)
    }

    /// Parameters of rotary embeddings in layers with full attention.
    pub fn rope(&self) -> &Map<String, Value> {
        &self.rope.full
    }

    /// The error for a value that the architecture has no place for.
    fn unsupported(
        &self,
        key: &str,
        found: &dyn std::fmt::Display,
        supported: &'static str,
    ) -> ModelError {
        ModelError::UnsupportedConfig {
            key: key.to_owned(),
            found: found.to_string(),
            architecture: self.architecture.name,
            supported,
        }
    }

    /// Length of a head: `head_dim`, or the width over the number of heads.
    ///
    /// # Errors
    /// Values of another kind, or no way to tell.
    pub fn head_length(&self) -> Result<u32, ModelError> {
        if let Some(length) = self.integer("head_dim")? {
            return Ok(length);
        }
        let length = self.width_per_head()?;
        length.ok_or_else(|| bad("head_dim", "a positive integer", &"missing"))
    }

    /// The width over the number of heads, where both are stated.
    fn width_per_head(&self) -> Result<Option<u32>, ModelError> {
        let width = self.integer("hidden_size")?;
        let heads = self.integer("num_attention_heads")?;
        Ok(width
            .zip(heads)
            .and_then(|(width, heads)| width.checked_div(heads)))
    }

    /// Adds the entries that describe the model, in the reference's order. `file_type` is the value of
    /// `general.file_type`.
    ///
    /// # Errors
    /// A missing value, one of another kind, or a fact that the architecture has no place for.
    pub fn write_metadata(
        &self,
        file_type: u32,
        metadata: &mut Metadata,
    ) -> Result<(), ModelError> {
        fact::check(self)?;
        for rule in self.architecture.rules() {
            self.apply(rule, file_type, metadata)?;
        }
        Ok(())
    }

    /// Adds the entries that belong to computed tensors alone; the reference writes them first.
    ///
    /// # Errors
    /// As [`Config::write_metadata`].
    pub fn write_tensor_metadata(&self, metadata: &mut Metadata) -> Result<(), ModelError> {
        for rule in self.architecture.tensor_metadata {
            self.apply(rule, 0, metadata)?;
        }
        Ok(())
    }

    /// What the metadata does not say though the configuration does, a sentence each.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = fact::warnings(self);
        warnings.extend(rope::warning(self));
        warnings
    }

    fn apply(
        &self,
        rule: &Rule,
        file_type: u32,
        metadata: &mut Metadata,
    ) -> Result<(), ModelError> {
        let mut entries = Entries {
            metadata,
            prefix: self.architecture.name,
        };
        match *rule {
            Rule::U32 { key, from } => {
                if let Some((name, value)) = self.first(from) {
                    entries.set(key, integer(name, value)?);
                }
            }
            Rule::F32 { key, from } => {
                if let Some((name, value)) = self.first(from) {
                    entries.set(key, number(name, value)? as f32);
                }
            }
            Rule::F32Unless0 { key, from } => {
                if let Some((name, value)) = self.first(from)
                    && number(name, value)? != 0.0
                {
                    entries.set(key, number(name, value)? as f32);
                }
            }
            Rule::FileType => {
                metadata.set("general.file_type", file_type);
            }
            Rule::With(write) => write(self, &mut entries)?,
        }
        Ok(())
    }
}

fn integer(key: &str, value: &Value) -> Result<u32, ModelError> {
    let whole = |number: f64| {
        (number.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&number))
            .then_some(number as u32)
    };
    let found = value
        .as_u64()
        .and_then(|number| u32::try_from(number).ok())
        .or_else(|| whole(value.as_f64()?));
    found.ok_or_else(|| bad(key, "a non-negative integer", &kind(value)))
}

fn number(key: &str, value: &Value) -> Result<f64, ModelError> {
    value
        .as_f64()
        .filter(|number| number.is_finite())
        .ok_or_else(|| bad(key, "a number", &kind(value)))
}

/// A value as errors show it: short ones themselves, long ones by kind.
fn kind(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("a list of {}", items.len()),
        Value::Object(_) => "an object".to_owned(),
        Value::String(text) if text.len() > 60 => "a long string".to_owned(),
        short => short.to_string(),
    }
}

fn bad(key: &str, expected: &'static str, found: &dyn std::fmt::Display) -> ModelError {
    ModelError::Config {
        key: key.to_owned(),
        expected,
        found: found.to_string(),
    }
}
