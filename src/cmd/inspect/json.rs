//! The file as one JSON object, written as it is read: a vocabulary of any length takes no memory of its own.

use std::io::Write;

use gristmill_gguf::{Array, Model, Summary, TensorView, TypeShare, Value};
use serde::ser::{Serialize, SerializeMap as _, Serializer};
use serde_json::{Map, Value as Json, json};

use super::Extent;
use crate::value_json::{Items, Raw};

/// Writes the document and a line break.
pub fn write(model: &Model, extent: Extent, out: &mut impl Write) -> anyhow::Result<()> {
    let summary = &Summary::of(model);
    let document = Document {
        model,
        summary,
        extent,
    };
    serde_json::to_writer_pretty(&mut *out, &document)?;
    Ok(writeln!(out)?)
}

struct Document<'a> {
    model: &'a Model,
    summary: &'a Summary,
    extent: Extent,
}

impl Serialize for Document<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (model, extent) = (self.model, self.extent);
        let (n_entries, n_tensors) = (model.metadata().len(), model.tensors().len());
        let first = &model.shards()[0];
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("path", &first.path().to_string_lossy())?;
        // Of all files, as the number of tensors is.
        map.serialize_entry("file_size", &model.size())?;
        map.serialize_entry("version", &first.version())?;
        map.serialize_entry("endian", first.endian().name())?;
        map.serialize_entry("tensor_count", &n_tensors)?;
        map.serialize_entry("metadata_count", &n_entries)?;
        map.serialize_entry("alignment", &first.alignment())?;
        map.serialize_entry("directory_end", &first.directory_end())?;
        map.serialize_entry("tensor_data_offset", &first.data_offset())?;
        map.serialize_entry("summary", &summary(self.summary))?;
        map.serialize_entry("metadata", &Entries(self))?;
        map.serialize_entry("metadata_truncated", &(extent.n_entries < n_entries))?;
        map.serialize_entry("tensors", &Tensors(self))?;
        map.serialize_entry("tensors_truncated", &(extent.n_tensors < n_tensors))?;
        map.end()
    }
}

struct Entries<'a>(&'a Document<'a>);

impl Serialize for Entries<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let extent = self.0.extent;
        let mut map = serializer.serialize_map(None)?;
        for (key, value) in self.0.model.metadata().iter().take(extent.n_entries) {
            map.serialize_entry(key, &Entry(value, extent.values.n_items))?;
        }
        map.end()
    }
}

/// A value with its type, and how many elements of an array to show.
struct Entry<'a>(&'a Value, usize);

impl Serialize for Entry<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("type", self.0.value_type().name())?;
        match self.0 {
            Value::Array(array) => map.serialize_entry("value", &Preview(array, self.1))?,
            scalar => map.serialize_entry("value", &Raw(scalar))?,
        }
        map.end()
    }
}

/// An array with its type and length: all `items`, or a `preview`.
struct Preview<'a>(&'a Array, usize);

impl Serialize for Preview<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Preview(array, n_items) = *self;
        let mut map = serializer.serialize_map(Some(4))?;
        map.serialize_entry("element_type", &array.element_type().id())?;
        map.serialize_entry("element_type_name", array.element_type().name())?;
        map.serialize_entry("length", &array.len())?;
        let name = if n_items == usize::MAX {
            "items"
        } else {
            "preview"
        };
        map.serialize_entry(name, &Items(array, n_items))?;
        map.end()
    }
}

struct Tensors<'a>(&'a Document<'a>);

impl Serialize for Tensors<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let views = self.0.model.views().take(self.0.extent.n_tensors);
        let summary = self.0.summary;
        serializer.collect_seq(views.map(|view| tensor(&view, summary)))
    }
}

fn tensor(view: &TensorView, summary: &Summary) -> Json {
    json!({
        "name": view.info.name,
        "dimensions": view.info.dims,
        "ggml_type": view.info.ty.id(),
        "ggml_type_name": view.info.ty.name(),
        "relative_offset": view.info.offset,
        "absolute_offset": view.offset,
        "bytes": view.info.bytes,
        "shard": summary.shard_number(view.shard) - 1,
    })
}

fn summary(summary: &Summary) -> Json {
    let share = |share: &TypeShare| {
        json!({
            "type": share.ty.name(),
            "tensors": share.n_tensors,
            "elements": share.n_elements,
            "bytes": share.bytes,
        })
    };
    let shares = |shares: &[TypeShare]| shares.iter().map(share).collect::<Vec<Json>>();
    let roles: Map<String, Json> = summary
        .roles
        .iter()
        .map(|role| (role.role.clone(), json!(shares(&role.types))))
        .collect();
    let shards = summary.shards.iter().map(
        |shard| json!({ "shard": shard.number - 1, "path": shard.path.to_string_lossy(), "file_size": shard.bytes, "tensors": shard.n_tensors }),
    );
    json!({
        "kind": summary.kind.name(),
        "name": summary.name,
        "architecture": summary.architecture,
        "parameters": summary.n_parameters,
        "context_length": summary.context_length,
        "block_count": summary.n_blocks,
        "embedding_length": summary.embedding_length,
        "vocabulary_size": summary.n_tokens,
        "tokenizer": summary.tokenizer,
        "pre_tokenizer": summary.pre_tokenizer,
        "chat_template": summary.has_template,
        "file_type": summary.file_type.map(|file_type| file_type.id),
        "file_type_name": summary.file_type.and_then(|file_type| file_type.label),
        "file_bytes": summary.file_bytes,
        "data_bytes": summary.data_bytes,
        "bits_per_weight": summary.bits_per_weight(),
        "file_bits_per_weight": summary.file_bits_per_weight(),
        "types": shares(&summary.types),
        "roles": roles,
        "shards": shards.collect::<Vec<Json>>(),
    })
}
