//! Metadata values as JSON.

use gristmill_gguf::{Array, Value, escape_invalid};
use serde::ser::{Serialize, Serializer};
use serde_json::{Value as Json, json};

/// A value for a report: arrays by their length and first elements.
pub fn shown(value: &Value, n_items: usize) -> Json {
    match value {
        Value::Array(array) => json!({
            "type": "ARRAY",
            "element_type": array.element_type().name(),
            "length": array.len(),
            "preview": Items(array, n_items),
        }),
        scalar => json!({ "type": scalar.value_type().name(), "value": Raw(scalar) }),
    }
}

/// The first elements of an array, without a value of its own for each.
pub struct Items<'a>(pub &'a Array, pub usize);

impl Serialize for Items<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Items(array, n) = *self;
        match array {
            Array::U8(items) => serializer.collect_seq(items.iter().take(n)),
            Array::I8(items) => serializer.collect_seq(items.iter().take(n)),
            Array::U16(items) => serializer.collect_seq(items.iter().take(n)),
            Array::I16(items) => serializer.collect_seq(items.iter().take(n)),
            Array::U32(items) => serializer.collect_seq(items.iter().take(n)),
            Array::I32(items) => serializer.collect_seq(items.iter().take(n)),
            Array::U64(items) => serializer.collect_seq(items.iter().take(n)),
            Array::I64(items) => serializer.collect_seq(items.iter().take(n)),
            Array::Bool(items) => serializer.collect_seq(items.iter().take(n)),
            Array::F32(items) => {
                serializer.collect_seq(items.iter().take(n).map(|&x| Float::Single(x)))
            }
            Array::F64(items) => {
                serializer.collect_seq(items.iter().take(n).map(|&x| Float::Double(x)))
            }
            Array::String(items) => {
                serializer.collect_seq(items.iter().take(n).map(escape_invalid))
            }
        }
    }
}

/// A value as plain JSON, whole.
pub struct Raw<'a>(pub &'a Value);

impl Serialize for Raw<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::U8(value) => value.serialize(serializer),
            Value::I8(value) => value.serialize(serializer),
            Value::U16(value) => value.serialize(serializer),
            Value::I16(value) => value.serialize(serializer),
            Value::U32(value) => value.serialize(serializer),
            Value::I32(value) => value.serialize(serializer),
            Value::U64(value) => value.serialize(serializer),
            Value::I64(value) => value.serialize(serializer),
            Value::Bool(value) => value.serialize(serializer),
            Value::F32(value) => Float::Single(*value).serialize(serializer),
            Value::F64(value) => Float::Double(*value).serialize(serializer),
            Value::String(text) => text.to_str_escaped().serialize(serializer),
            Value::Array(array) => Items(array, usize::MAX).serialize(serializer),
        }
    }
}

/// JSON has no infinities and no NaN: those become strings, so that they are not lost.
enum Float {
    Single(f32),
    Double(f64),
}

impl Serialize for Float {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let wide = match *self {
            Float::Single(value) if value.is_finite() => return serializer.serialize_f32(value),
            Float::Double(value) if value.is_finite() => return serializer.serialize_f64(value),
            Float::Single(value) => f64::from(value),
            Float::Double(value) => value,
        };
        serializer.serialize_str(match wide {
            f64::INFINITY => "Infinity",
            f64::NEG_INFINITY => "-Infinity",
            _ => "NaN",
        })
    }
}
