//! What a class's configuration means where `config.json` is silent, and where it says `null`: the one place that decides
//! about `null`, but for facts, which decide for themselves.
//!
//! To the authors' code `null` is a value. Where it means something, a [`Fallback`] says what; where the code could do
//! nothing with it, it is refused. Keys without a line here may be `null` as they may be missing.

use super::{bad, kind};
use crate::ModelError;
use crate::arch::Class;
use serde_json::{Map, Value};

/// What a class's configuration means where `config.json` is silent. `null` is refused unless the variant says what it
/// means; a second line for a key is what `null` means where the first does not say.
#[derive(Clone, Copy, Debug)]
pub enum Fallback {
    /// This integer.
    Integer(u64),
    /// This number.
    Float(f64),
    /// This truth value; `null` counts as false.
    Bool(bool),
    /// The value of another key, also in place of `null`.
    SameAs(&'static str),
    /// A multiple of the integer of another key, also in place of `null`.
    Times(u64, &'static str),
    /// `hidden_size / num_attention_heads`, also in place of `null`.
    WidthPerHead,
}

/// Without a number of key and value heads of its own there are as many as query heads.
pub(crate) const ALL_HEADS: (&str, Fallback) = (
    "num_key_value_heads",
    Fallback::SameAs("num_attention_heads"),
);

/// Fills in what is missing, and decides what `null` means.
///
/// # Errors
/// `Config` for a key whose value can be nothing that the class understands.
pub(super) fn complete(class: &Class, values: &mut Map<String, Value>) -> Result<(), ModelError> {
    let lines = || class.defaults.iter().copied().flatten();
    for (key, fallback) in lines() {
        fallback.fill(key, values);
    }
    for (key, fallback) in lines() {
        let value = values.get(*key);
        match (fallback, value) {
            (Fallback::Bool(_), Some(Value::Bool(_))) | (_, None) => {}
            (Fallback::Bool(_), Some(value)) => {
                return Err(bad(key, "true or false", &kind(value)));
            }
            (Fallback::Float(_), Some(Value::Null)) => return Err(bad(key, "a number", &"null")),
            (_, Some(Value::Null)) => return Err(bad(key, "a non-negative integer", &"null")),
            _ => {}
        }
    }
    Ok(())
}

impl Fallback {
    fn fill(self, key: &str, values: &mut Map<String, Value>) {
        let is_null = match values.get(key) {
            None => false,
            Some(Value::Null) => true,
            Some(_) => return,
        };
        let integer = |key: &str| values.get(key).and_then(Value::as_u64);
        let value = match self {
            Fallback::Integer(_) | Fallback::Float(_) if is_null => None,
            Fallback::Integer(value) => Some(Value::from(value)),
            Fallback::Float(value) => Some(Value::from(value)),
            Fallback::Bool(value) => Some(Value::from(value && !is_null)),
            Fallback::SameAs(other) => values.get(other).cloned(),
            Fallback::Times(factor, other) => integer(other)
                .and_then(|value| value.checked_mul(factor))
                .map(Value::from),
            Fallback::WidthPerHead => integer("hidden_size")
                .zip(integer("num_attention_heads"))
                .and_then(|(width, heads)| width.checked_div(heads))
                .map(Value::from),
        };
        if let Some(value) = value {
            values.insert(key.to_owned(), value);
        }
    }
}
