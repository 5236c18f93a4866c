//! The differences as one JSON object, written as they are read: however many there are, the text takes no memory.

use std::io::Write;

use gristmill_gguf::{
    ArrayDiff, DataDiff, Diff, EntryChange, EntryDiff, Number, OrderDiff, Shape, TensorChange,
    TensorDiff, Value, ValueChange, ValueDiff,
};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Value as Json, json};

use super::EXTENT;
use crate::value_json::{Float, Shown};

/// Writes the document and a line break.
pub fn write(found: &Diff, out: &mut impl Write) -> anyhow::Result<()> {
    serde_json::to_writer_pretty(&mut *out, &Document(found))?;
    Ok(writeln!(out)?)
}

struct Document<'a>(&'a Diff);

impl Serialize for Document<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let found = self.0;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("equal", &found.is_equal())?;
        map.serialize_entry("metadata", &List(&found.entries, Entry))?;
        map.serialize_entry("metadata_order", &found.entry_order.as_ref().map(order))?;
        map.serialize_entry("n_equal_entries", &found.n_equal_entries)?;
        map.serialize_entry("tensors", &List(&found.tensors, Tensor))?;
        map.serialize_entry("tensor_order", &found.tensor_order.as_ref().map(order))?;
        map.serialize_entry("n_equal_tensors", &found.n_equal_tensors)?;
        map.end()
    }
}

/// A list whose elements are made one after the other.
struct List<'a, T, S>(&'a [T], fn(&'a T) -> S);

impl<T, E: Serialize> Serialize for List<'_, T, E> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(self.1))
    }
}

fn order(order: &OrderDiff) -> Json {
    json!({ "index": order.index, "a": order.a, "b": order.b })
}

struct Entry<'a>(&'a EntryDiff);

impl Serialize for Entry<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("key", &self.0.key)?;
        match &self.0.change {
            EntryChange::Added(value) => change(&mut map, "added", None, Some(&of_value(value)))?,
            EntryChange::Removed(value) => {
                change(&mut map, "removed", Some(&of_value(value)), None)?;
            }
            EntryChange::Changed { a, b } => {
                change(&mut map, "changed", Some(&of_value(a)), Some(&of_value(b)))?;
            }
            EntryChange::Array(array) => of_array(&mut map, array)?,
        }
        map.end()
    }
}

/// What happened, and what is on each side.
fn change<M: SerializeMap, T: Serialize>(
    map: &mut M,
    name: &str,
    a: Option<&T>,
    b: Option<&T>,
) -> Result<(), M::Error> {
    map.serialize_entry("change", name)?;
    if let Some(a) = a {
        map.serialize_entry("a", a)?;
    }
    if let Some(b) = b {
        map.serialize_entry("b", b)?;
    }
    Ok(())
}

fn of_value(value: &Value) -> Shown<'_> {
    Shown(value, EXTENT.n_items)
}

fn of_array<M: SerializeMap>(map: &mut M, array: &ArrayDiff) -> Result<(), M::Error> {
    map.serialize_entry("change", "array")?;
    map.serialize_entry("length_a", &array.len_a)?;
    map.serialize_entry("length_b", &array.len_b)?;
    map.serialize_entry("first", &array.first)?;
    map.serialize_entry("first_a", &array.a.as_ref().map(of_value))?;
    map.serialize_entry("first_b", &array.b.as_ref().map(of_value))?;
    map.serialize_entry("n_different", &array.n_different)
}

struct Tensor<'a>(&'a TensorDiff);

impl Serialize for Tensor<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("name", &self.0.name)?;
        match &self.0.change {
            TensorChange::Added(shape) => change(&mut map, "added", None, Some(&of_shape(shape)))?,
            TensorChange::Removed(shape) => {
                change(&mut map, "removed", Some(&of_shape(shape)), None)?;
            }
            TensorChange::Changed { a, b, data } => {
                change(&mut map, "changed", Some(&of_shape(a)), Some(&of_shape(b)))?;
                of_data(&mut map, data.as_ref())?;
            }
        }
        map.end()
    }
}

fn of_shape(shape: &Shape) -> Json {
    json!({ "type": shape.ty.name(), "dims": shape.dims })
}

fn of_data<M: SerializeMap>(map: &mut M, data: Option<&DataDiff>) -> Result<(), M::Error> {
    let n_bytes = data.and_then(|data| data.n_bytes);
    map.serialize_entry("n_bytes_different", &n_bytes)?;
    let values = data.and_then(|data| data.values.as_ref());
    map.serialize_entry("values", &values.map(of_values))
}

fn number(value: Number) -> Json {
    match value {
        Number::Float(value) => json!(Float::Double(value)),
        Number::Integer(value) => json!(value),
    }
}

fn of_values(values: &ValueDiff) -> Json {
    let most = values.largest.as_ref();
    // Equal values differ by nothing; where only NaN and infinities differ, no number says by how much.
    let largest = match (most, values.n_different) {
        (None, 0) => Some(0.0),
        (most, _) => most.map(ValueChange::difference),
    };
    let not_finite = |change: &ValueChange| {
        let (a, b) = (number(change.a), number(change.b));
        json!({ "index": change.index, "place": change.place, "a": a, "b": b })
    };
    json!({
        "largest": largest.map(Float::Double),
        "index": most.map(|most| most.index),
        "place": most.map(|most| &most.place),
        "a": most.map(|most| number(most.a)),
        "b": most.map(|most| number(most.b)),
        "n_different": values.n_different,
        "n_not_finite": values.n_not_finite,
        "first_not_finite": values.first_not_finite.as_ref().map(not_finite),
    })
}
