//! Metadata values as JSON.

use gristmill_gguf::{Array, Value};
use serde::ser::{Serialize, SerializeMap as _, Serializer};
use serde_json::{Value as Json, json};

/// A value for a report: arrays by their length and first elements.
pub struct Shown<'a>(pub &'a Value, pub usize);

impl Serialize for Shown<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Shown(value, n_items) = *self;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("type", value.value_type().name())?;
        match value {
            Value::Array(array) => {
                map.serialize_entry("element_type", array.element_type().name())?;
                map.serialize_entry("length", &array.len())?;
                map.serialize_entry("preview", &Items(array, n_items))?;
            }
            scalar => map.serialize_entry("value", &Raw(scalar))?,
        }
        map.end()
    }
}

/// The same as a value of its own.
pub fn shown(value: &Value, n_items: usize) -> Json {
    json!(Shown(value, n_items))
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
            Array::String(items) => serializer.collect_seq(items.iter().take(n).map(Bytes)),
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
            Value::String(text) => Bytes(text.as_bytes()).serialize(serializer),
            Value::Array(array) => Items(array, usize::MAX).serialize(serializer),
        }
    }
}

/// A string: text where it is UTF-8. JSON has no other bytes: those become an object, `{"bytes": "c3ff"}`, which no text
/// looks like.
struct Bytes<'a>(&'a [u8]);

impl Serialize for Bytes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if let Ok(text) = std::str::from_utf8(self.0) {
            return serializer.serialize_str(text);
        }
        let hexadecimal: String = self.0.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut map = serializer.serialize_map(Some(1))?;
        map.serialize_entry(BYTES, &hexadecimal)?;
        map.end()
    }
}

/// The name in the object that stands for a string of bytes that are no text.
const BYTES: &str = "bytes";

/// The bytes that such an object stands for; `None` for any other value, an error for digits that mean no bytes.
pub fn bytes_of(json: &Json) -> Option<Result<Vec<u8>, String>> {
    let object = json.as_object().filter(|object| object.len() == 1)?;
    let digits = object.get(BYTES)?.as_str()?;
    let wrong = || format!("{json}: bytes are two hexadecimal digits each, as in \"c3ff\"");
    let byte = |pair: &[u8; 2]| {
        let digit = |digit: u8| char::from(digit).to_digit(16);
        // Two hexadecimal digits are below 256.
        Some((digit(pair[0])? << 4 | digit(pair[1])?) as u8)
    };
    let (pairs, rest) = digits.as_bytes().as_chunks();
    let bytes: Option<Vec<u8>> = pairs.iter().map(byte).collect();
    Some(bytes.filter(|_| rest.is_empty()).ok_or_else(wrong))
}

/// JSON has no infinities and no NaN: those become strings, so that they are not lost.
pub enum Float {
    /// Of 32 bits.
    Single(f32),
    /// Of 64 bits.
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
