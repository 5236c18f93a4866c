//! The metadata of a quantized file.

use gristmill_gguf::{Metadata, Value};

/// The version of the block formats, `general.quantization_version`.
pub(crate) const QUANTIZATION_VERSION: u32 = 2;

/// The key of the recipe's number.
pub(super) const FILE_TYPE_KEY: &str = "general.file_type";

/// The source's metadata as the quantized file has it: in its order, without what tells shards apart, then the
/// version of the block formats, the recipe's number (`None` leaves the source's), and `more`.
///
/// An entry that is set again moves to the end, as in the reference.
pub fn quantized_metadata(
    source: &Metadata,
    file_type: Option<u32>,
    more: &[(String, Value)],
) -> Metadata {
    let mut metadata = source.clone();
    metadata.retain(|key, _| !matches!(key, "split.no" | "split.count" | "split.tensors.count"));
    append(
        &mut metadata,
        "general.quantization_version",
        QUANTIZATION_VERSION.into(),
    );
    let kept = || source.get(FILE_TYPE_KEY).cloned();
    if let Some(value) = file_type.map(Value::from).or_else(kept) {
        append(&mut metadata, FILE_TYPE_KEY, value);
    }
    for (key, value) in more {
        append(&mut metadata, key, value.clone());
    }
    metadata
}

/// Sets an entry at the end.
pub(super) fn append(metadata: &mut Metadata, key: &str, value: Value) {
    metadata.remove(key);
    metadata.set(key, value);
}
