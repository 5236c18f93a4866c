//! From values to the bytes of a file, in either byte order: the reverse of `parse`.

use gristmill_quant::TensorType;

use crate::cursor::{Endian, Number};
use crate::value::{Array, Value};

/// The first 24 bytes: magic number, version and counts.
pub(crate) fn start(
    version: u32,
    n_tensors: u64,
    n_entries: u64,
    endian: Endian,
    out: &mut Vec<u8>,
) {
    out.extend_from_slice(b"GGUF");
    version.write(endian, out);
    n_tensors.write(endian, out);
    n_entries.write(endian, out);
}

/// An entry of metadata.
pub(crate) fn entry(key: &str, value: &Value, endian: Endian, out: &mut Vec<u8>) {
    string(key.as_bytes(), endian, out);
    typed_value(value, endian, out);
}

/// An entry of the tensor directory.
pub(crate) fn tensor(
    name: &str,
    dims: &[u64],
    ty: TensorType,
    offset: u64,
    endian: Endian,
    out: &mut Vec<u8>,
) {
    string(name.as_bytes(), endian, out);
    (dims.len() as u32).write(endian, out);
    dims.iter().for_each(|dim| dim.write(endian, out));
    ty.id().write(endian, out);
    offset.write(endian, out);
}

/// The length and the bytes of a string.
pub(crate) fn string(bytes: &[u8], endian: Endian, out: &mut Vec<u8>) {
    (bytes.len() as u64).write(endian, out);
    out.extend_from_slice(bytes);
}

/// What follows the key in an entry: the type and the value.
pub(crate) fn typed_value(value: &Value, endian: Endian, out: &mut Vec<u8>) {
    value.value_type().id().write(endian, out);
    match value {
        Value::U8(value) => value.write(endian, out),
        Value::I8(value) => value.write(endian, out),
        Value::U16(value) => value.write(endian, out),
        Value::I16(value) => value.write(endian, out),
        Value::U32(value) => value.write(endian, out),
        Value::I32(value) => value.write(endian, out),
        Value::F32(value) => value.write(endian, out),
        Value::U64(value) => value.write(endian, out),
        Value::I64(value) => value.write(endian, out),
        Value::F64(value) => value.write(endian, out),
        Value::Bool(value) => out.push((*value).into()),
        Value::String(text) => string(text.as_bytes(), endian, out),
        Value::Array(array) => elements(array, endian, out),
    }
}

fn elements(array: &Array, endian: Endian, out: &mut Vec<u8>) {
    fn all<T: Number>(items: &[T], endian: Endian, out: &mut Vec<u8>) {
        items.iter().for_each(|item| item.write(endian, out));
    }
    array.element_type().id().write(endian, out);
    (array.len() as u64).write(endian, out);
    match array {
        Array::U8(items) => all(items, endian, out),
        Array::I8(items) => all(items, endian, out),
        Array::U16(items) => all(items, endian, out),
        Array::I16(items) => all(items, endian, out),
        Array::U32(items) => all(items, endian, out),
        Array::I32(items) => all(items, endian, out),
        Array::F32(items) => all(items, endian, out),
        Array::U64(items) => all(items, endian, out),
        Array::I64(items) => all(items, endian, out),
        Array::F64(items) => all(items, endian, out),
        Array::Bool(items) => items.iter().for_each(|&item| out.push(item.into())),
        Array::String(strings) => strings.iter().for_each(|bytes| string(bytes, endian, out)),
    }
}

/// Whether two values have the same type and bytes; a NaN is the same as itself.
pub(crate) fn is_same(a: &Value, b: &Value) -> bool {
    let bytes = |value| {
        let mut out = Vec::new();
        typed_value(value, Endian::Little, &mut out);
        out
    };
    // Not by `==`, for which zero is minus zero.
    typed_value_bytes(a) == typed_value_bytes(b) && bytes(a) == bytes(b)
}

/// The bytes that [`typed_value`] writes.
pub(crate) fn typed_value_bytes(value: &Value) -> u64 {
    4 + match value {
        Value::String(text) => 8 + text.len() as u64,
        Value::Array(array) => 12 + elements_bytes(array),
        scalar => scalar.value_type().min_bytes(),
    }
}

fn elements_bytes(array: &Array) -> u64 {
    match array {
        Array::String(strings) => strings.len() as u64 * 8 + strings.n_bytes() as u64,
        other => other.len() as u64 * other.element_type().min_bytes(),
    }
}

/// The bytes that [`tensor`] writes.
pub(crate) fn tensor_entry_bytes(name: &str, n_dims: usize) -> u64 {
    (8 + name.len() + 4 + n_dims * 8 + 4 + 8) as u64
}
