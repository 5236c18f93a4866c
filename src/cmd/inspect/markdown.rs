//! The file as Markdown: a table of facts, then types, roles, metadata and tensors, for a model card or an issue.

use std::io::{self, Write};

use gristmill_gguf::{Model, Summary};

use super::text::{facts, percent, types, weight};
use super::{Extent, dims, shown};
use crate::display::{printable, size};

/// Writes the document.
pub fn write(model: &Model, extent: Extent, out: &mut impl Write) -> io::Result<()> {
    let summary = Summary::of(model);
    let facts = facts(&summary);
    let file = summary.path().file_name().unwrap_or_default();
    writeln!(out, "# {}\n", inline(&file.to_string_lossy()))?;
    writeln!(out, "| | |\n|---|---|")?;
    for (label, text) in &facts {
        writeln!(out, "| {label} | {} |", cell(text))?;
    }
    write_types(&summary, out)?;
    write_metadata(model, extent, out)?;
    write_tensors(model, &summary, extent, out)
}

fn write_types(summary: &Summary, out: &mut impl Write) -> io::Result<()> {
    if summary.types.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n## Types\n")?;
    writeln!(
        out,
        "| type | tensors | elements | size | share |\n|---|--:|--:|--:|--:|"
    )?;
    for share in &summary.types {
        let (ty, n_tensors, n_elements) = (share.ty, share.n_tensors, share.n_elements);
        let (bytes, percent) = (size(share.bytes), percent(share.bytes, summary));
        writeln!(
            out,
            "| {ty} | {n_tensors} | {n_elements} | {bytes} | {percent:.2}% |"
        )?;
    }
    writeln!(out, "\n## Roles\n")?;
    writeln!(
        out,
        "| role | size | share | bits per weight | types |\n|---|--:|--:|--:|---|"
    )?;
    for role in &summary.roles {
        let (bytes, bits) = weight(&role.types);
        let (name, share) = (code(&role.role), percent(bytes, summary));
        let (bytes, types) = (size(bytes), types(&role.types));
        writeln!(
            out,
            "| {name} | {bytes} | {share:.2}% | {bits:.4} | {types} |"
        )?;
    }
    Ok(())
}

fn write_metadata(model: &Model, extent: Extent, out: &mut impl Write) -> io::Result<()> {
    let (n, n_shown) = (model.metadata().len(), extent.n_entries);
    writeln!(out, "\n## Metadata ({n_shown} of {n} entries)\n")?;
    writeln!(out, "| key | type | value |\n|---|---|---|")?;
    for (key, value) in model.metadata().iter().take(n_shown) {
        let (key, ty, shown) = (
            code(key),
            value.type_name(),
            code(&shown(key, value, extent)),
        );
        writeln!(out, "| {key} | {ty} | {shown} |")?;
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
    if n_shown == 0 {
        return Ok(());
    }
    writeln!(out, "\n## Tensors ({n_shown} of {n})\n")?;
    writeln!(
        out,
        "Dimensions in the file's order, the contiguous one first; `byte` counts from the start of the tensor's file.\n"
    )?;
    let with_shards = model.shards().len() > 1;
    let (head, rule) = if with_shards {
        ("| file ", "|--:")
    } else {
        ("", "")
    };
    writeln!(
        out,
        "{head}| name | type | dimensions | bits per weight | bytes | byte |"
    )?;
    writeln!(out, "{rule}|---|---|---|--:|--:|--:|")?;
    for view in model.views().take(n_shown) {
        let info = view.info;
        let shard = if with_shards {
            format!("| {} ", summary.shard_number(view.shard))
        } else {
            String::new()
        };
        let (name, dims) = (code(&info.name), dims(&info.dims));
        let (bits, bytes) = (info.ty.bits_per_weight(), info.bytes);
        writeln!(
            out,
            "{shard}| {name} | {} | {dims} | {bits:.4} | {bytes} | {} |",
            info.ty, view.offset
        )?;
    }
    Ok(())
}

/// Text of a file as code in a cell of a table, within more backticks than it has in a row.
fn code(text: &str) -> String {
    let text = printable(text).replace('|', "\\|");
    let longest = text
        .split(|c| c != '`')
        .map(str::len)
        .max()
        .unwrap_or_default();
    let fence = "`".repeat(longest + 1);
    let space = if longest > 0 { " " } else { "" };
    format!("{fence}{space}{text}{space}{fence}")
}

/// Text of a file in a cell of a table: on one line, and nothing in it is taken for Markdown or HTML.
fn cell(text: &str) -> String {
    inline(text).replace('|', "\\|")
}

fn inline(text: &str) -> String {
    let text = printable(text);
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' | '`' | '*' | '[' | ']' | '~' | '#' | '$' => out.extend(['\\', c]),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_taken_for_markdown() {
        assert_eq!(code("a|b"), "`a\\|b`");
        assert_eq!(code("a``b"), "``` a``b ```");
        assert_eq!(cell("<b>|*x*"), "&lt;b&gt;\\|\\*x\\*");
    }
}
