//! Key-value metadata: ordered, typed, and read through getters that say what they expected.

use std::collections::HashMap;

use crate::error::{Error, Result};
use crate::value::{Array, StringArray, Text, Value};

/// The metadata of a file: keys and typed values in the order of the file.
#[derive(Clone, Debug, Default)]
pub struct Metadata {
    entries: Vec<(String, Value)>,
    /// Key to its place in `entries`; always complete.
    places: HashMap<String, usize>,
}

impl PartialEq for Metadata {
    fn eq(&self, other: &Metadata) -> bool {
        self.entries == other.entries
    }
}

impl Metadata {
    /// Metadata without entries.
    pub fn new() -> Metadata {
        Metadata::default()
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.places.get(key).map(|&place| &self.entries[place].1)
    }

    /// Whether the key is present.
    pub fn contains(&self, key: &str) -> bool {
        self.places.contains_key(key)
    }

    /// Keys and values in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Value)> + '_ {
        self.entries
            .iter()
            .map(|(key, value)| (key.as_str(), value))
    }

    /// Sets a key: replaces the value in place, or adds the entry at the end. Returns the value
    /// that stood there.
    pub fn set(&mut self, key: impl Into<String>, value: impl Into<Value>) -> Option<Value> {
        let (key, value) = (key.into(), value.into());
        if let Some(&place) = self.places.get(&key) {
            return Some(std::mem::replace(&mut self.entries[place].1, value));
        }
        self.places.insert(key.clone(), self.entries.len());
        self.entries.push((key, value));
        None
    }

    /// Puts a new entry at `place` (clamped to the end); a key that is present moves there.
    pub fn insert(&mut self, place: usize, key: impl Into<String>, value: impl Into<Value>) {
        let key = key.into();
        self.remove(&key);
        let place = place.min(self.entries.len());
        self.entries.insert(place, (key, value.into()));
        self.index_from(place);
    }

    /// Removes a key and returns its value; the others keep their order.
    pub fn remove(&mut self, key: &str) -> Option<Value> {
        let place = self.places.remove(key)?;
        let (_, value) = self.entries.remove(place);
        self.index_from(place);
        Some(value)
    }

    /// Gives an entry another key; value and place stay. Returns whether that was done: not where
    /// `from` is missing or `to` is taken.
    pub fn rename(&mut self, from: &str, to: impl Into<String>) -> bool {
        let to = to.into();
        if self.contains(&to) {
            return false;
        }
        let Some(place) = self.places.remove(from) else {
            return false;
        };
        self.entries[place].0.clone_from(&to);
        self.places.insert(to, place);
        true
    }

    /// Keeps only the entries for which `keep` says so, in order.
    pub fn retain(&mut self, mut keep: impl FnMut(&str, &Value) -> bool) {
        self.entries.retain(|(key, value)| keep(key, value));
        self.places.clear();
        self.index_from(0);
    }

    fn index_from(&mut self, first: usize) {
        for (place, (key, _)) in self.entries.iter().enumerate().skip(first) {
            self.places.insert(key.clone(), place);
        }
    }
}

/// One getter in three forms: optional, with a default, required.
macro_rules! getters {
    ($($(#[$doc:meta])* $name:ident, $name_or:ident, $required:ident -> $type:ty, $expected:literal, $read:expr;)*) => {
        /// Typed getters. Each fails when the key is there with another type, naming the key, what
        /// was expected and what was found; `required_…` fails when the key is missing, too.
        impl Metadata {$(
            $(#[$doc])*
            pub fn $name(&self, key: &str) -> Result<Option<$type>> {
                self.typed(key, $expected, $read)
            }

            /// Like the getter of the same type, with a value for when the key is missing.
            pub fn $name_or(&self, key: &str, default: $type) -> Result<$type> {
                Ok(self.$name(key)?.unwrap_or(default))
            }

            /// Like the getter of the same type; a missing key is an error.
            pub fn $required(&self, key: &str) -> Result<$type> {
                self.$name(key)?.ok_or_else(|| Error::MissingKey { key: key.to_owned() })
            }
        )*}
    };
}

getters! {
    /// An integer of any width that fits.
    u32, u32_or, required_u32 -> u32, "an integer from 0 to 4294967295", integer;
    /// An integer of any width that fits.
    u64, u64_or, required_u64 -> u64, "an integer from 0 to 18446744073709551615", integer;
    /// An integer of any width that fits.
    i32, i32_or, required_i32 -> i32, "an integer from -2147483648 to 2147483647", integer;
    /// An integer of any width that fits.
    i64, i64_or, required_i64 -> i64, "a signed 64-bit integer", integer;
    /// An integer of any width that fits.
    usize, usize_or, required_usize -> usize, "a non-negative integer", integer;
    /// A FLOAT32, or a FLOAT64 rounded to it.
    f32, f32_or, required_f32 -> f32, "FLOAT32", |value| match *value {
        Value::F32(value) => Some(value),
        Value::F64(value) => Some(value as f32),
        _ => None,
    };
    /// A BOOL.
    bool, bool_or, required_bool -> bool, "BOOL", |value| match *value {
        Value::Bool(value) => Some(value),
        _ => None,
    };
}

/// Getters that borrow.
impl Metadata {
    /// A STRING as the file has it.
    pub fn text(&self, key: &str) -> Result<Option<&Text>> {
        self.typed(key, "STRING", Value::as_text)
    }

    /// A STRING that is valid UTF-8.
    pub fn str(&self, key: &str) -> Result<Option<&str>> {
        self.typed(key, "STRING of valid UTF-8", |value| {
            value.as_text()?.to_str()
        })
    }

    /// A STRING that is valid UTF-8 and must be there.
    pub fn required_str(&self, key: &str) -> Result<&str> {
        self.str(key)?.ok_or_else(|| Error::MissingKey {
            key: key.to_owned(),
        })
    }

    /// An ARRAY of any element type.
    pub fn array(&self, key: &str) -> Result<Option<&Array>> {
        self.typed(key, "ARRAY", Value::as_array)
    }

    /// An ARRAY of STRING.
    pub fn strings(&self, key: &str) -> Result<Option<&StringArray>> {
        self.typed(key, "ARRAY of STRING", |value| {
            value.as_array()?.as_strings()
        })
    }

    /// An ARRAY of STRING that must be there.
    pub fn required_strings(&self, key: &str) -> Result<&StringArray> {
        self.strings(key)?.ok_or_else(|| Error::MissingKey {
            key: key.to_owned(),
        })
    }

    /// An ARRAY of FLOAT32.
    pub fn f32s(&self, key: &str) -> Result<Option<&[f32]>> {
        self.typed(key, "ARRAY of FLOAT32", |value| match value.as_array()? {
            Array::F32(items) => Some(items.as_slice()),
            _ => None,
        })
    }

    /// An ARRAY of UINT8, such as a character map.
    pub fn u8s(&self, key: &str) -> Result<Option<&[u8]>> {
        self.typed(key, "ARRAY of UINT8", |value| match value.as_array()? {
            Array::U8(items) => Some(items.as_slice()),
            _ => None,
        })
    }

    /// An ARRAY of integers of any width, all of which fit.
    pub fn i32s(&self, key: &str) -> Result<Option<Vec<i32>>> {
        self.typed(key, "ARRAY of integers of 32 bits", |value| {
            integers(value.as_array()?)
        })
    }

    /// An ARRAY of integers of any width, all of which fit.
    pub fn u32s(&self, key: &str) -> Result<Option<Vec<u32>>> {
        self.typed(key, "ARRAY of non-negative integers of 32 bits", |value| {
            integers(value.as_array()?)
        })
    }

    /// An ARRAY of BOOL, or of integers that are 0 or 1.
    pub fn bools(&self, key: &str) -> Result<Option<Vec<bool>>> {
        self.typed(key, "ARRAY of BOOL", |value| match value.as_array()? {
            Array::Bool(items) => Some(items.clone()),
            other => other
                .integers()?
                .map(|item| [false, true].get(usize::try_from(item).ok()?).copied())
                .collect(),
        })
    }

    fn typed<'a, T>(
        &'a self,
        key: &str,
        expected: &'static str,
        read: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        match read(value) {
            Some(read) => Ok(Some(read)),
            None => Err(Error::WrongType {
                key: key.to_owned(),
                expected,
                found: found(value),
            }),
        }
    }
}

/// The type of a value, and the value where it is a number that may be out of range.
fn found(value: &Value) -> String {
    match (value.as_integer(), value.as_text()) {
        (Some(number), _) => format!("{} {number}", value.type_name()),
        (_, Some(text)) if text.to_str().is_none() => "STRING with invalid UTF-8".to_owned(),
        _ => value.type_name(),
    }
}

fn integer<T: TryFrom<i128>>(value: &Value) -> Option<T> {
    T::try_from(value.as_integer()?).ok()
}

fn integers<T: TryFrom<i128>>(array: &Array) -> Option<Vec<T>> {
    array
        .integers()?
        .map(|item| T::try_from(item).ok())
        .collect()
}
