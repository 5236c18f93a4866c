//! The file as lines of text.

use std::io::{self, Write};

use gristmill_gguf::{Model, Summary, TypeShare};

use super::{Extent, dims, shown};
use crate::display::{count, counted, cut, pad, printable, size, width};

/// Characters of a text in the summary; a name may have megabytes.
const TEXT_CHARS: usize = 200;
/// Columns that a role takes where all are short.
const ROLE_COLUMNS_MIN: usize = 16;

/// Writes the summary, and the lists that are asked for.
pub fn write(
    model: &Model,
    extent: Extent,
    with_metadata: bool,
    with_tensors: bool,
    out: &mut impl Write,
) -> io::Result<()> {
    let summary = Summary::of(model);
    for (label, text) in facts(&summary) {
        writeln!(out, "{label:<16} {}", printable(&text))?;
    }
    write_types(&summary, out)?;
    write_roles(&summary, out)?;
    write_shards(&summary, out)?;
    if with_metadata {
        write_metadata(model, extent, out)?;
    }
    if with_tensors {
        write_tensors(model, &summary, extent, out)?;
    }
    Ok(())
}

/// What the file is, in the order in which one asks; texts as the file has them, to be made safe by the caller.
pub fn facts(summary: &Summary) -> Vec<(&'static str, String)> {
    let known = |text: &Option<String>| match text {
        Some(text) => cut(text, TEXT_CHARS).into_owned(),
        None => "not given".to_owned(),
    };
    let number = |number: Option<u64>| {
        number.map_or_else(|| "not given".to_owned(), |number| number.to_string())
    };
    let template = if summary.has_template {
        "present"
    } else {
        "none"
    };
    let mut facts = vec![
        ("file", summary.path().display().to_string()),
        ("container", container(summary)),
        ("kind", summary.kind.description().to_owned()),
        ("name", known(&summary.name)),
        ("architecture", known(&summary.architecture)),
        (
            "parameters",
            format!(
                "{} ({})",
                count(summary.n_parameters),
                counted(summary.n_tensors(), "tensor")
            ),
        ),
        ("layers", number(summary.n_blocks)),
        ("embedding", number(summary.embedding_length)),
        ("context", number(summary.context_length)),
        ("vocabulary", vocabulary(summary)),
        ("chat template", template.to_owned()),
        ("recipe label", recipe(summary)),
    ];
    if let (Some(data), Some(file)) = (summary.bits_per_weight(), summary.file_bits_per_weight()) {
        let bytes = size(summary.data_bytes);
        facts.push((
            "bits per weight",
            format!("{data:.4} in {bytes} of tensor data; {file:.4} with metadata and padding"),
        ));
    }
    facts
}

fn container(summary: &Summary) -> String {
    let (version, order) = (summary.version, summary.endian.name());
    let files = match summary.shards.len() {
        1 => String::new(),
        n_files => format!(" in {n_files} shards"),
    };
    let bytes = size(summary.file_bytes);
    format!("GGUF version {version}, {order}-endian, {bytes}{files}")
}

fn vocabulary(summary: &Summary) -> String {
    let Some(n_tokens) = summary.n_tokens else {
        return "none".to_owned();
    };
    let names: Vec<_> = [&summary.tokenizer, &summary.pre_tokenizer]
        .into_iter()
        .flatten()
        .map(|name| cut(name, TEXT_CHARS))
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
    let label = file_type.name.unwrap_or("unknown");
    let guessed = if file_type.guessed { "guessed, " } else { "" };
    format!("{label} ({guessed}general.file_type {})", file_type.id)
}

/// The share of a type or role in all tensor data, in percent.
pub fn percent(bytes: u64, summary: &Summary) -> f64 {
    bytes as f64 * 100.0 / summary.data_bytes.max(1) as f64
}

/// Types with the number of tensors of each: `q4_K × 12, q6_K × 2`.
pub fn types(shares: &[TypeShare]) -> String {
    let share = |share: &TypeShare| format!("{} × {}", share.ty, share.n_tensors);
    shares.iter().map(share).collect::<Vec<_>>().join(", ")
}

/// Bytes, and bits per weight, of several types together.
pub fn weight(shares: &[TypeShare]) -> (u64, f64) {
    let sum = |number: fn(&TypeShare) -> u64| {
        let add = |sum: u64, share: &TypeShare| sum.saturating_add(number(share));
        shares.iter().fold(0, add)
    };
    let (bytes, n_elements) = (sum(|share| share.bytes), sum(|share| share.n_elements));
    (bytes, bytes as f64 * 8.0 / n_elements.max(1) as f64)
}

fn write_types(summary: &Summary, out: &mut impl Write) -> io::Result<()> {
    if !summary.types.is_empty() {
        let head = "\ntype       tensors        elements            size   share";
        writeln!(out, "{head}")?;
    }
    for share in &summary.types {
        let (ty, n_tensors, n_elements) = (share.ty.name(), share.n_tensors, share.n_elements);
        let (bytes, percent) = (size(share.bytes), percent(share.bytes, summary));
        writeln!(
            out,
            "{ty:<8} {n_tensors:>9} {n_elements:>15} {bytes:>15} {percent:>6.2}%"
        )?;
    }
    Ok(())
}

fn write_roles(summary: &Summary, out: &mut impl Write) -> io::Result<()> {
    let names: Vec<_> = summary
        .roles
        .iter()
        .map(|role| printable(&role.role))
        .collect();
    let Some(widest) = names.iter().map(|name| width(name)).max() else {
        return Ok(());
    };
    let n_columns = widest.max(ROLE_COLUMNS_MIN);
    let head = pad("role", n_columns);
    writeln!(
        out,
        "\n{head}            size   share  bits/weight  types (tensors of each)"
    )?;
    for (name, role) in names.iter().zip(&summary.roles) {
        let (bytes, bits) = weight(&role.types);
        let (name, share) = (pad(name, n_columns), percent(bytes, summary));
        writeln!(
            out,
            "{name} {:>15} {share:>6.2}% {bits:>12.4}  {}",
            size(bytes),
            types(&role.types)
        )?;
    }
    Ok(())
}

fn write_shards(summary: &Summary, out: &mut impl Write) -> io::Result<()> {
    if summary.shards.len() < 2 {
        return Ok(());
    }
    writeln!(out, "\nshard                    size  tensors  file")?;
    for shard in &summary.shards {
        let path = shard.path.to_string_lossy();
        let (bytes, n_tensors, path) = (size(shard.bytes), shard.n_tensors, printable(&path));
        let number = shard.number;
        writeln!(out, "{number:>5} {bytes:>22} {n_tensors:>8}  {path}")?;
    }
    Ok(())
}

fn write_metadata(model: &Model, extent: Extent, out: &mut impl Write) -> io::Result<()> {
    let (n, n_shown) = (model.metadata().len(), extent.n_entries);
    writeln!(out, "\nmetadata ({n_shown} of {n} entries)")?;
    for (key, value) in model.metadata().iter().take(n_shown) {
        let shown = shown(key, value, extent);
        let (ty, key) = (value.type_name(), printable(key));
        writeln!(out, "  {ty:<16}  {key} = {shown}")?;
    }
    Ok(())
}

fn write_tensors(
    model: &Model,
    summary: &Summary,
    extent: Extent,
    out: &mut impl Write,
) -> io::Result<()> {
    let (n, n_shown) = (model.tensors().len(), extent.n_tensors);
    writeln!(
        out,
        "\ntensors ({n_shown} of {n}): type, dimensions, file and byte, name"
    )?;
    for view in model.views().take(n_shown) {
        let dims = dims(&view.info.dims);
        let (ty, name) = (view.info.ty.name(), printable(&view.info.name));
        let (shard, offset) = (summary.shard_number(view.shard), view.offset);
        writeln!(out, "  {ty:<8}  {dims:<20}  {shard}:{offset:<12}  {name}")?;
    }
    Ok(())
}
