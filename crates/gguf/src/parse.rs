//! From bytes to header, metadata and tensor directory.
//!
//! ```text
//! "GGUF" | u32 version | u64 n_tensors | u64 n_entries
//! n_entries × ( u64 length, key | u32 type | value )
//! n_tensors × ( u64 length, name | u32 n_dims | n_dims × u64 | u32 type | u64 offset )
//! zeros up to the alignment | data, each tensor padded to the alignment
//! ```
//!
//! Nothing is reserved on the word of a count: every count is first compared with the bytes left,
//! at the smallest size that its elements can have.

use std::collections::HashSet;
use std::path::Path;

use gristmill_quant::TensorType;

use crate::cursor::{Cursor, Endian, Number};
use crate::diagnose::diagnose;
use crate::error::{Error, Result};
use crate::faults::Faults;
use crate::limits;
use crate::metadata::Metadata;
use crate::value::{Array, StringArray, Text, Value, ValueType, escape_invalid};

/// What the directory says of one tensor, before it is checked against the rest of the file.
pub(crate) struct RawTensor {
    pub(crate) name: String,
    pub(crate) dims: Vec<u64>,
    pub(crate) ty: TensorType,
    pub(crate) offset: u64,
}

/// Everything before the data section.
pub(crate) struct Parsed {
    pub(crate) version: u32,
    pub(crate) endian: Endian,
    pub(crate) metadata: Metadata,
    pub(crate) tensors: Vec<RawTensor>,
    /// Where the tensor directory ends.
    pub(crate) directory_end: u64,
}

/// Parses the bytes of a whole file. `path` is for messages; entries and tensors at fault are left out where `faults`
/// lets the reading go on.
pub(crate) fn parse(bytes: &[u8], path: &Path, faults: &mut Faults) -> Result<Parsed> {
    if !bytes.starts_with(b"GGUF") {
        return Err(diagnose(bytes, path));
    }
    let (version, endian) = version(bytes, path)?;
    let mut cursor = Cursor::new(bytes, path, endian);
    cursor.take(8, || "the header".to_owned())?;
    let n_tensors = count(&mut cursor, "tensors", limits::TENSORS)?;
    let n_entries = count(&mut cursor, "metadata entries", limits::ENTRIES)?;
    fits(&cursor, "tensors", n_tensors, limits::TENSOR_BYTES_MIN, 8)?;
    fits(
        &cursor,
        "metadata entries",
        n_entries,
        limits::ENTRY_BYTES_MIN,
        16,
    )?;
    let mut metadata = Metadata::new();
    for index in 0..n_entries {
        entry(&mut cursor, index, &mut metadata, faults)?;
    }
    fits(&cursor, "tensors", n_tensors, limits::TENSOR_BYTES_MIN, 8)?;
    let mut tensors = Vec::with_capacity(n_tensors as usize);
    let mut names = HashSet::with_capacity(n_tensors as usize);
    for index in 0..n_tensors {
        tensors.extend(tensor(&mut cursor, index, &mut names, faults)?);
    }
    Ok(Parsed {
        version,
        endian,
        metadata,
        tensors,
        directory_end: cursor.place(),
    })
}

/// Version and byte order: the version is small, so in the wrong order its low half is zero.
fn version(bytes: &[u8], path: &Path) -> Result<(u32, Endian)> {
    let word =
        Cursor::new(&bytes[4..], path, Endian::Little).number::<u32>(|| "the version".to_owned());
    let word = word.map_err(|_| Error::Truncated {
        path: path.to_owned(),
        what: "the header".to_owned(),
        offset: 4,
        needed: 20,
        available: bytes.len() as u64 - 4,
    })?;
    let path = path.to_owned();
    let (version, endian) = if word & 0xffff == 0 {
        (word.swap_bytes(), Endian::Big)
    } else {
        (word, Endian::Little)
    };
    match version {
        2 | 3 => Ok((version, endian)),
        1 => Err(Error::Version1 { path }),
        4..=0xffff => Err(Error::NewerVersion { path, version }),
        _ => Err(Error::BadVersion {
            path,
            version: word,
        }),
    }
}

fn count(cursor: &mut Cursor, what: &'static str, limit: u64) -> Result<u64> {
    let offset = cursor.place();
    let count = cursor.number::<u64>(|| "the header".to_owned())?;
    if count > limit {
        let reason = format!("the limit is {limit}");
        return Err(bad_count(cursor, what, count, offset, reason));
    }
    Ok(count)
}

fn bad_count(
    cursor: &Cursor,
    what: &'static str,
    count: u64,
    offset: u64,
    reason: String,
) -> Error {
    let path = cursor.path.to_owned();
    Error::BadCount {
        path,
        what,
        count,
        offset,
        reason,
    }
}

/// Whether `count` things of at least `bytes_min` bytes can be in what is left of the file.
fn fits(
    cursor: &Cursor,
    what: &'static str,
    count: u64,
    bytes_min: u64,
    offset: u64,
) -> Result<()> {
    if count > cursor.remaining() / bytes_min {
        let reason = format!(
            "only {} bytes are left and each takes at least {bytes_min}",
            cursor.remaining()
        );
        return Err(bad_count(cursor, what, count, offset, reason));
    }
    Ok(())
}

fn entry(
    cursor: &mut Cursor,
    index: u64,
    metadata: &mut Metadata,
    faults: &mut Faults,
) -> Result<()> {
    let offset = cursor.place();
    let bad = |cursor: &Cursor, reason: String| Error::BadKey {
        path: cursor.path.to_owned(),
        index,
        offset,
        reason,
    };
    let what = || format!("the key of metadata entry {index}");
    let length = cursor.number::<u64>(what)?;
    if length == 0 {
        faults.meet(bad(cursor, "empty key".to_owned()))?;
    }
    if length > limits::KEY_BYTES {
        return Err(bad(
            cursor,
            format!("key of {length} bytes (the limit is {})", limits::KEY_BYTES),
        ));
    }
    let key = cursor.take(length, what)?;
    let shown = escape_invalid(key);
    if !key.is_ascii() {
        faults.meet(bad(cursor, format!("key \"{shown}\" that is not ASCII")))?;
    } else if metadata.contains(&shown) {
        faults.meet(Error::DuplicateKey {
            path: cursor.path.to_owned(),
            key: shown.clone().into_owned(),
            index,
            offset,
        })?;
    }
    let value = value(cursor, &shown, faults)?;
    // Of what is left to read after a fault, the first of two equal keys counts.
    if length > 0 && key.is_ascii() && !metadata.contains(&shown) {
        metadata.set(shown, value);
    }
    Ok(())
}

fn value(cursor: &mut Cursor, key: &str, faults: &mut Faults) -> Result<Value> {
    let what = || format!("the value of key {key:?}");
    Ok(match value_type(cursor, key)? {
        ValueType::U8 => Value::U8(cursor.number(what)?),
        ValueType::I8 => Value::I8(cursor.number(what)?),
        ValueType::U16 => Value::U16(cursor.number(what)?),
        ValueType::I16 => Value::I16(cursor.number(what)?),
        ValueType::U32 => Value::U32(cursor.number(what)?),
        ValueType::I32 => Value::I32(cursor.number(what)?),
        ValueType::F32 => Value::F32(cursor.number(what)?),
        ValueType::U64 => Value::U64(cursor.number(what)?),
        ValueType::I64 => Value::I64(cursor.number(what)?),
        ValueType::F64 => Value::F64(cursor.number(what)?),
        ValueType::Bool => {
            let offset = cursor.place();
            let byte = cursor.number::<u8>(what)?;
            Value::Bool(truth(cursor, key, offset, byte, faults)?)
        }
        ValueType::String => {
            Value::String(Text::from_bytes(string(cursor, key, "a STRING", what)?))
        }
        ValueType::Array => Value::Array(array(cursor, key, faults)?),
    })
}

fn value_type(cursor: &mut Cursor, key: &str) -> Result<ValueType> {
    let offset = cursor.place();
    let id = cursor.number::<u32>(|| format!("the type of key {key:?}"))?;
    ValueType::from_id(id)
        .ok_or_else(|| bad_value(cursor, key, offset, format!("unknown value type {id}")))
}

fn bad_value(cursor: &Cursor, key: &str, offset: u64, reason: String) -> Error {
    Error::BadValue {
        path: cursor.path.to_owned(),
        key: key.to_owned(),
        offset,
        reason,
    }
}

fn truth(cursor: &Cursor, key: &str, offset: u64, byte: u8, faults: &mut Faults) -> Result<bool> {
    if byte > 1 {
        let reason = format!("a BOOL of {byte}, neither 0 nor 1");
        faults.meet(bad_value(cursor, key, offset, reason))?;
    }
    Ok(byte != 0)
}

fn array(cursor: &mut Cursor, key: &str, faults: &mut Faults) -> Result<Array> {
    let offset = cursor.place();
    let element = value_type(cursor, key)?;
    if element == ValueType::Array {
        return Err(bad_value(
            cursor,
            key,
            offset,
            "an array of arrays".to_owned(),
        ));
    }
    let count = cursor.number::<u64>(|| format!("the length of array {key:?}"))?;
    if count > limits::ARRAY_ITEMS {
        let reason = format!(
            "an array of {count} elements (the limit is {})",
            limits::ARRAY_ITEMS
        );
        return Err(bad_value(cursor, key, offset, reason));
    }
    // At most the limit of elements times 8 bytes: cannot overflow.
    let needed = count * element.min_bytes();
    if needed > cursor.remaining() {
        let left = cursor.remaining();
        let reason = format!(
            "an array of {count} elements of {element} takes at least {needed} bytes, and {left} are left"
        );
        return Err(bad_value(cursor, key, offset, reason));
    }
    Ok(match element {
        ValueType::U8 => Array::U8(numbers(cursor, key, count)?),
        ValueType::I8 => Array::I8(numbers(cursor, key, count)?),
        ValueType::U16 => Array::U16(numbers(cursor, key, count)?),
        ValueType::I16 => Array::I16(numbers(cursor, key, count)?),
        ValueType::U32 => Array::U32(numbers(cursor, key, count)?),
        ValueType::I32 => Array::I32(numbers(cursor, key, count)?),
        ValueType::F32 => Array::F32(numbers(cursor, key, count)?),
        ValueType::U64 => Array::U64(numbers(cursor, key, count)?),
        ValueType::I64 => Array::I64(numbers(cursor, key, count)?),
        ValueType::F64 => Array::F64(numbers(cursor, key, count)?),
        ValueType::Bool => Array::Bool(truths(cursor, key, count, faults)?),
        ValueType::String | ValueType::Array => Array::String(strings(cursor, key, count)?),
    })
}

/// An array of numbers in one piece; the caller has checked that it fits.
fn numbers<T: Number>(cursor: &mut Cursor, key: &str, count: u64) -> Result<Vec<T>> {
    let size = size_of::<T>();
    let bytes = cursor.take(count * size as u64, || format!("the array {key:?}"))?;
    // `chunks_exact` gives exactly the bytes of a `T`, so every read is `Some`.
    Ok(bytes
        .chunks_exact(size)
        .filter_map(|bytes| T::read(bytes, cursor.endian))
        .collect())
}

/// Of an array, one fault tells of all its elements: each would hold the key again.
fn truths(cursor: &mut Cursor, key: &str, count: u64, faults: &mut Faults) -> Result<Vec<bool>> {
    let offset = cursor.place();
    let bytes = cursor.take(count, || format!("the array {key:?}"))?;
    let mut bad = (offset..).zip(bytes).filter(|&(_, &byte)| byte > 1);
    if let Some((offset, byte)) = bad.next() {
        let more = match bad.count() {
            0 => String::new(),
            n => format!(", and {n} more of its elements"),
        };
        let reason = format!("a BOOL of {byte}, neither 0 nor 1{more}");
        faults.meet(bad_value(cursor, key, offset, reason))?;
    }
    Ok(bytes.iter().map(|&byte| byte != 0).collect())
}

/// A length and that many bytes; above the limit it is wrong, however long the file is.
fn string<'a>(
    cursor: &mut Cursor<'a>,
    key: &str,
    kind: &str,
    what: impl Fn() -> String,
) -> Result<&'a [u8]> {
    let offset = cursor.place();
    let length: u64 = cursor.number(&what)?;
    if length > limits::STRING_BYTES {
        let limit = limits::STRING_BYTES;
        let reason = format!("{kind} has {length} bytes (the limit is {limit})");
        return Err(bad_value(cursor, key, offset, reason));
    }
    cursor.take(length, what)
}

fn strings(cursor: &mut Cursor, key: &str, count: u64) -> Result<StringArray> {
    // The caller has checked that `count` lengths of 8 bytes are in the file, so the places of the
    // strings take no more memory than the file has bytes.
    let mut strings = StringArray::with_capacity(count as usize, 0);
    for index in 0..count {
        let what = || format!("string {index} of array {key:?}");
        strings.push(string(cursor, key, "a string of the array", what)?);
    }
    Ok(strings)
}

/// The next tensor, or none where it is at fault.
fn tensor<'a>(
    cursor: &mut Cursor<'a>,
    index: u64,
    names: &mut HashSet<&'a str>,
    faults: &mut Faults,
) -> Result<Option<RawTensor>> {
    let start = cursor.place();
    let name = tensor_name(cursor, index, faults)?;
    let shown = name.unwrap_or("?");
    let is_new = name.is_none_or(|name| names.insert(name));
    if !is_new {
        faults.meet(Error::DuplicateTensor {
            path: cursor.path.to_owned(),
            tensor: shown.to_owned(),
            index,
            offset: start,
        })?;
    }
    let what = || format!("the directory entry of tensor {shown:?}");
    let n_dims = cursor.number::<u32>(what)?;
    let has_shape = (1..=limits::DIMS).contains(&n_dims);
    if !has_shape {
        let reason = format!("{n_dims} dimensions; a tensor has 1 to {}", limits::DIMS);
        faults.meet(Error::BadShape {
            path: cursor.path.to_owned(),
            tensor: shown.to_owned(),
            reason,
        })?;
    }
    // Where reading goes on, a number of dimensions that cannot be ends it here, at the latest.
    cursor.skip(u64::from(n_dims.saturating_sub(limits::DIMS)) * 8, what)?;
    let dims = (0..n_dims.min(limits::DIMS))
        .map(|_| cursor.number::<u64>(what))
        .collect::<Result<Vec<u64>>>()?;
    let type_offset = cursor.place();
    let id = cursor.number::<u32>(what)?;
    let ty = faults.pass(tensor_type(cursor.path, shown, id, type_offset))?;
    let offset = cursor.number::<u64>(what)?;
    let (Some(name), Some(ty), true) = (name, ty, is_new && has_shape) else {
        return Ok(None);
    };
    Ok(Some(RawTensor {
        name: name.to_owned(),
        dims,
        ty,
        offset,
    }))
}

/// The name of the next tensor, or none where it cannot be one.
fn tensor_name<'a>(
    cursor: &mut Cursor<'a>,
    index: u64,
    faults: &mut Faults,
) -> Result<Option<&'a str>> {
    let offset = cursor.place();
    let what = || format!("the name of tensor {index}");
    let bad = |cursor: &Cursor, reason: String| Error::BadTensorName {
        path: cursor.path.to_owned(),
        index,
        offset,
        reason,
    };
    let length = cursor.number::<u64>(what)?;
    if length == 0 {
        faults.meet(bad(cursor, "empty name".to_owned()))?;
        return Ok(None);
    }
    if length > limits::READ_NAME_BYTES {
        let limit = limits::READ_NAME_BYTES;
        faults.meet(bad(
            cursor,
            format!("name of {length} bytes (the limit is {limit})"),
        ))?;
        // Where reading goes on, a length that cannot be ends it here.
        return cursor.skip(length, what).map(|()| None);
    }
    let name = cursor.take(length, what)?;
    faults.pass(std::str::from_utf8(name).map_err(|_| {
        let shown = escape_invalid(name);
        bad(cursor, format!("name \"{shown}\" that is not UTF-8"))
    }))
}

fn tensor_type(path: &Path, name: &str, id: u32, offset: u64) -> Result<TensorType> {
    let (path, tensor) = (path.to_owned(), name.to_owned());
    if let Some((name, remedy)) = TensorType::removed(id) {
        return Err(Error::RemovedTensorType {
            path,
            tensor,
            id,
            name,
            remedy,
        });
    }
    TensorType::from_id(id).ok_or(Error::UnknownTensorType {
        path,
        tensor,
        id,
        offset,
    })
}
