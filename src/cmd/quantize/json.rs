//! What was done, for machines.

use gristmill_convert::quantize::{Quality, QuantizeReport, QuantizedTensor, Target};
use serde_json::{Map, Value as Json, json};

/// The report as one object.
pub fn of(report: &QuantizeReport) -> Json {
    let target = report.target.map(|target| match target {
        Target::BitsPerWeight(bits) => json!({ "bits_per_weight": bits }),
        Target::FileBytes(bytes) => json!({ "file_bytes": bytes }),
    });
    let files = report.files.iter().map(|(path, n_tensors, bytes)| {
        json!({ "path": path.display().to_string(), "tensors": n_tensors, "bytes": bytes })
    });
    let types = report.histogram().into_iter().map(|(ty, (n_tensors, bytes))| {
        json!({ "type": ty.name(), "tensors": n_tensors, "bytes": bytes })
    });
    let fallbacks = report.fallback_kinds();
    let fallbacks = fallbacks.iter().map(|kind| {
        json!({
            "wanted": kind.wanted.name(), "got": kind.got.name(), "row_length": kind.row_len,
            "weights": kind.n_elements, "tensors": kind.tensors,
        })
    });
    let newest = report.newest_formats().into_iter();
    let newest = newest.map(|(ty, isas)| json!({ "type": ty.name(), "kernels": isas }));
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "recipe": report.recipe,
        "target": target,
        "dry_run": report.dry_run,
        "files": files.collect::<Vec<_>>(),
        "file_bytes": report.file_bytes,
        "weights": report.n_elements,
        "source_bytes": report.source_bytes(),
        "bytes": report.bytes(),
        "source_bits_per_weight": report.source_bits_per_weight(),
        "bits_per_weight": report.bits_per_weight(),
        "types": types.collect::<Vec<_>>(),
        "fallbacks": fallbacks.collect::<Vec<_>>(),
        "newest_formats": newest.collect::<Vec<_>>(),
        "warnings": report.warnings,
        "resumed_tensors": report.n_resumed,
        "quality": report.quality().map(|quality| Json::Object(losses(&quality))),
        "tensors": report.tensors.iter().map(tensor).collect::<Vec<_>>(),
    })
}

fn tensor(tensor: &QuantizedTensor) -> Json {
    let mut entry = Map::new();
    entry.insert("name".into(), json!(tensor.name));
    entry.insert("shape".into(), json!(tensor.dims));
    entry.insert("from".into(), json!(tensor.from.name()));
    entry.insert("to".into(), json!(tensor.to.name()));
    entry.insert("bytes".into(), json!(tensor.bytes));
    if let Some(quality) = &tensor.quality {
        entry.extend(losses(quality));
    }
    Json::Object(entry)
}

fn losses(quality: &Quality) -> Map<String, Json> {
    let mut entry = Map::new();
    let (plain, weighted) = (quality.relative_error(), quality.weighted_relative_error());
    entry.insert("relative_error".into(), json!(plain));
    entry.insert("weighted_relative_error".into(), json!(weighted));
    entry
}
