//! `inspect`: what a GGUF file is and holds, without touching its weights.

use std::io::{self, Write};
use std::path::PathBuf;

use gristmill_gguf::{Array, Endian, Model, Summary, TensorView, TypeShare, Value};
use serde_json::{Map, Value as Json, json};

use super::{Invocation, Run};

/// Arguments of `inspect`.
#[derive(clap::Args)]
pub struct Inspect {
    /// GGUF file; any shard opens its whole set
    model: PathBuf,
    /// List the metadata: type, key and value of every entry
    #[arg(long)]
    metadata: bool,
    /// List the tensors: type, dimensions (the contiguous one first), offset and name
    #[arg(long)]
    tensors: bool,
    /// Print everything as one JSON object
    #[arg(long)]
    json: bool,
    /// Entries to list, 0 for all [default: 50 with --json, else all]
    #[arg(long, value_name = "N")]
    metadata_limit: Option<usize>,
    /// Tensors to list, 0 for all [default: 50 with --json, else all]
    #[arg(long, value_name = "N")]
    tensor_limit: Option<usize>,
}

/// Entries and tensors in JSON where no limit is given.
const JSON_LIMIT: usize = 50;
/// Elements of an array to show.
const PREVIEW: usize = 12;
/// Characters of a string to show in text.
const TEXT_CHARS: usize = 80;

impl Run for Inspect {
    const NAME: &'static str = "inspect";
    const ABOUT: &'static str =
        "Show what a GGUF file is: metadata, tensors, types by role, exact bits per weight";
    const EXAMPLES: &'static str = "gristmill inspect model.gguf\n\
        gristmill inspect model-00001-of-00003.gguf --tensors\n\
        gristmill inspect model.gguf --json --metadata-limit 0";

    fn run(self, _: &Invocation) -> anyhow::Result<()> {
        let model = Model::open(&self.model)?;
        let mut out = io::BufWriter::new(io::stdout().lock());
        if self.json {
            serde_json::to_writer_pretty(&mut out, &self.to_json(&model))?;
            writeln!(out)?;
        } else {
            self.write_text(&model, &mut out)?;
        }
        out.flush()?;
        Ok(())
    }
}

/// How many of `n` to list under a limit, of which 0 means all.
fn shown(limit: Option<usize>, default: usize, n: usize) -> usize {
    match limit.unwrap_or(default) {
        0 => n,
        limit => limit.min(n),
    }
}

impl Inspect {
    fn write_text(&self, model: &Model, out: &mut impl Write) -> io::Result<()> {
        write_summary(&Summary::of(model), out)?;
        if self.metadata {
            let n = model.metadata().len();
            let n_shown = shown(self.metadata_limit, 0, n);
            writeln!(out, "\nmetadata ({n_shown} of {n} entries)")?;
            for (key, value) in model.metadata().iter().take(n_shown) {
                writeln!(out, "  {:<16}  {key} = {}", value.type_name(), show(value))?;
            }
        }
        if self.tensors {
            let n = model.tensors().len();
            let n_shown = shown(self.tensor_limit, 0, n);
            writeln!(
                out,
                "\ntensors ({n_shown} of {n}): type, dimensions, file and byte, name"
            )?;
            for view in model.views().take(n_shown) {
                let dims = dims(&view.info.dims);
                let (ty, name) = (view.info.ty.name(), printable(&view.info.name));
                writeln!(
                    out,
                    "  {ty:<8}  {dims:<20}  {}:{:<12}  {name}",
                    view.shard + 1,
                    view.offset
                )?;
            }
        }
        Ok(())
    }

    fn to_json(&self, model: &Model) -> Json {
        let (n_entries, n_tensors) = (model.metadata().len(), model.tensors().len());
        let entries_shown = shown(self.metadata_limit, JSON_LIMIT, n_entries);
        let tensors_shown = shown(self.tensor_limit, JSON_LIMIT, n_tensors);
        let entry = |(key, value): (&str, &Value)| (key.to_owned(), entry_json(value));
        let metadata: Map<String, Json> = model
            .metadata()
            .iter()
            .take(entries_shown)
            .map(entry)
            .collect();
        let tensors: Vec<Json> = model
            .views()
            .take(tensors_shown)
            .map(|view| tensor_json(&view))
            .collect();
        let first = &model.shards()[0];
        json!({
            "path": first.path().to_string_lossy(),
            "file_size": first.size(),
            "version": first.version(),
            "endian": endian(first.endian()),
            "tensor_count": n_tensors,
            "metadata_count": n_entries,
            "alignment": first.alignment(),
            "directory_end": first.directory_end(),
            "tensor_data_offset": first.data_offset(),
            "summary": summary_json(&Summary::of(model)),
            "metadata": metadata,
            "metadata_truncated": entries_shown < n_entries,
            "tensors": tensors,
            "tensors_truncated": tensors_shown < n_tensors,
        })
    }
}

fn write_summary(summary: &Summary, out: &mut impl Write) -> io::Result<()> {
    let mut line = |label: &str, text: String| writeln!(out, "{label:<16} {}", printable(&text));
    let known = |text: &Option<String>| text.clone().unwrap_or_else(|| "not given".to_owned());
    let number = |number: Option<u64>| {
        number.map_or_else(|| "not given".to_owned(), |number| number.to_string())
    };
    line("file", summary.path().display().to_string())?;
    let (version, order) = (summary.version, endian(summary.endian));
    let n_files = summary.shards.len();
    let files = if n_files == 1 {
        String::new()
    } else {
        format!(" in {n_files} shards")
    };
    line(
        "container",
        format!(
            "GGUF version {version}, {order}-endian, {}{files}",
            size(summary.file_bytes)
        ),
    )?;
    line("kind", summary.kind.description().to_owned())?;
    line("name", known(&summary.name))?;
    line("architecture", known(&summary.architecture))?;
    line(
        "parameters",
        format!(
            "{} ({} tensors)",
            count(summary.n_parameters),
            summary.n_tensors()
        ),
    )?;
    line("layers", number(summary.n_blocks))?;
    line("embedding", number(summary.embedding_length))?;
    line("context", number(summary.context_length))?;
    line("vocabulary", vocabulary(summary))?;
    line(
        "chat template",
        if summary.has_template {
            "present"
        } else {
            "none"
        }
        .to_owned(),
    )?;
    line("recipe label", recipe(summary))?;
    if let (Some(data), Some(file)) = (summary.bits_per_weight(), summary.file_bits_per_weight()) {
        let bytes = size(summary.data_bytes);
        line(
            "bits per weight",
            format!("{data:.4} in {bytes} of tensor data; {file:.4} with metadata and padding"),
        )?;
    }
    write_types(summary, out)
}

fn write_types(summary: &Summary, out: &mut impl Write) -> io::Result<()> {
    if !summary.types.is_empty() {
        writeln!(
            out,
            "\ntype       tensors        elements            size   share"
        )?;
    }
    for share in &summary.types {
        let percent = share.bytes as f64 * 100.0 / summary.data_bytes as f64;
        let (ty, n_tensors, n_elements) = (share.ty.name(), share.n_tensors, share.n_elements);
        writeln!(
            out,
            "{ty:<8} {n_tensors:>9} {n_elements:>15} {:>15} {percent:>6.2}%",
            size(share.bytes)
        )?;
    }
    if !summary.roles.is_empty() {
        writeln!(out, "\nrole             types (tensors of each)")?;
    }
    for role in &summary.roles {
        let share = |share: &TypeShare| format!("{} × {}", share.ty, share.n_tensors);
        let types = role.types.iter().map(share).collect::<Vec<_>>().join(", ");
        writeln!(out, "{:<16} {types}", printable(&role.role))?;
    }
    if summary.shards.len() > 1 {
        writeln!(out, "\nshard                    size  tensors  file")?;
    }
    for (index, shard) in summary
        .shards
        .iter()
        .enumerate()
        .filter(|_| summary.shards.len() > 1)
    {
        let (bytes, n_tensors, path) = (size(shard.bytes), shard.n_tensors, shard.path.display());
        writeln!(out, "{:>5} {bytes:>22} {n_tensors:>8}  {path}", index + 1)?;
    }
    Ok(())
}

fn vocabulary(summary: &Summary) -> String {
    let Some(n_tokens) = summary.n_tokens else {
        return "none".to_owned();
    };
    let names: Vec<&str> = [&summary.tokenizer, &summary.pre_tokenizer]
        .into_iter()
        .flatten()
        .map(String::as_str)
        .collect();
    if names.is_empty() {
        return format!("{n_tokens} tokens");
    }
    format!("{n_tokens} tokens ({})", names.join(", "))
}

fn recipe(summary: &Summary) -> String {
    let Some(file_type) = summary.file_type else {
        return "not given".to_owned();
    };
    let label = file_type.label.unwrap_or("unknown");
    let guessed = if file_type.guessed { "guessed, " } else { "" };
    format!("{label} ({guessed}general.file_type {})", file_type.id)
}

fn endian(endian: Endian) -> &'static str {
    match endian {
        Endian::Little => "little",
        Endian::Big => "big",
    }
}

/// A size in binary units; the exact number below a KiB.
fn size(bytes: u64) -> String {
    let units = [
        (1u64 << 40, "TiB"),
        (1 << 30, "GiB"),
        (1 << 20, "MiB"),
        (1 << 10, "KiB"),
    ];
    match units.into_iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) => format!("{:.2} {name}", bytes as f64 / unit as f64),
        None => format!("{bytes} bytes"),
    }
}

/// A count, with a rounded form where it is large.
fn count(n: u64) -> String {
    let units = [(1e12, "T"), (1e9, "B"), (1e6, "M")];
    match units.into_iter().find(|(unit, _)| n as f64 >= *unit) {
        Some((unit, name)) => format!("{n} = {:.2} {name}", n as f64 / unit),
        None => n.to_string(),
    }
}

fn dims(dims: &[u64]) -> String {
    dims.iter()
        .map(u64::to_string)
        .collect::<Vec<_>>()
        .join(" × ")
}

/// Text from a file, safe to print: control characters, which could steer a terminal, are escaped.
fn printable(text: &str) -> String {
    let escape = |c: char| {
        if c.is_control() {
            c.escape_default().to_string()
        } else {
            c.to_string()
        }
    };
    text.chars().map(escape).collect()
}

/// A value in one line: long strings are cut, long arrays shown from their start.
fn show(value: &Value) -> String {
    match value {
        Value::String(text) => {
            let text = printable(&text.to_str_escaped());
            match text.char_indices().nth(TEXT_CHARS) {
                Some((end, _)) => format!("\"{}…\" ({} bytes)", &text[..end], value_bytes(value)),
                None => format!("\"{text}\""),
            }
        }
        Value::Array(array) => {
            let items: Vec<String> = array.iter().take(PREVIEW).map(|item| show(&item)).collect();
            let more = if array.len() > PREVIEW { ", …" } else { "" };
            format!("[{}{more}] ({})", items.join(", "), array.len())
        }
        Value::U8(value) => value.to_string(),
        Value::I8(value) => value.to_string(),
        Value::U16(value) => value.to_string(),
        Value::I16(value) => value.to_string(),
        Value::U32(value) => value.to_string(),
        Value::I32(value) => value.to_string(),
        Value::U64(value) => value.to_string(),
        Value::I64(value) => value.to_string(),
        Value::F32(value) => value.to_string(),
        Value::F64(value) => value.to_string(),
        Value::Bool(value) => value.to_string(),
    }
}

fn value_bytes(value: &Value) -> usize {
    value.as_text().map_or(0, |text| text.len())
}

fn entry_json(value: &Value) -> Json {
    let shown = match value {
        Value::Array(array) => array_json(array),
        scalar => scalar_json(scalar),
    };
    json!({ "type": value.value_type().name(), "value": shown })
}

fn array_json(array: &Array) -> Json {
    let preview: Vec<Json> = array
        .iter()
        .take(PREVIEW)
        .map(|item| scalar_json(&item))
        .collect();
    json!({
        "element_type": array.element_type().id(),
        "element_type_name": array.element_type().name(),
        "length": array.len(),
        "preview": preview,
    })
}

/// JSON has no infinities and no NaN: those become null.
fn scalar_json(value: &Value) -> Json {
    match value {
        Value::U8(value) => json!(value),
        Value::I8(value) => json!(value),
        Value::U16(value) => json!(value),
        Value::I16(value) => json!(value),
        Value::U32(value) => json!(value),
        Value::I32(value) => json!(value),
        Value::U64(value) => json!(value),
        Value::I64(value) => json!(value),
        Value::F32(value) => json!(value),
        Value::F64(value) => json!(value),
        Value::Bool(value) => json!(value),
        Value::String(text) => json!(text.to_str_escaped()),
        Value::Array(_) => Json::Null,
    }
}

fn tensor_json(view: &TensorView) -> Json {
    json!({
        "name": view.info.name,
        "dimensions": view.info.dims,
        "ggml_type": view.info.ty.id(),
        "ggml_type_name": view.info.ty.name(),
        "relative_offset": view.info.offset,
        "absolute_offset": view.offset,
        "bytes": view.info.bytes,
        "shard": view.shard,
    })
}

fn summary_json(summary: &Summary) -> Json {
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
        |shard| json!({ "path": shard.path.to_string_lossy(), "file_size": shard.bytes, "tensors": shard.n_tensors }),
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
