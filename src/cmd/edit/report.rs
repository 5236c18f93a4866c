//! What an edit changes, or has changed, as text and as JSON.

use std::io::{self, Write};
use std::path::Path;

use gristmill_gguf::edit::{Change, Edit, Outcome, Plan, RESERVED_KEY, Way};
use gristmill_gguf::{Metadata, Text, Value};
use serde_json::{Value as Json, json};

use crate::display::printable;
use crate::stdout;
use crate::value_json::shown;
use crate::value_text::{Extent, show, show_pair};

/// How much of a value to show.
const EXTENT: Extent = Extent {
    n_items: 8,
    n_chars: 100,
};

/// What there is to tell.
pub struct Report<'a> {
    pub file: &'a Path,
    pub plan: &'a Plan,
    /// None of a dry run.
    pub outcome: Option<&'a Outcome>,
    /// Ids in the edits and the texts of their tokens.
    pub tokens: &'a [(i128, String)],
    /// The room that was asked for.
    pub reserve: Option<u64>,
    /// SHA-256 of the whole file before and after, where they were asked for.
    pub hashes: (Option<String>, Option<String>),
}

/// Whether the key holds the id of a token.
fn is_token(key: &str) -> bool {
    key.starts_with("tokenizer.ggml.") && key.ends_with("_token_id")
}

/// Ids that edits of special tokens name, old and new, with the texts that these tokens have.
pub fn token_texts(edits: &[Edit], metadata: &Metadata) -> Vec<(i128, String)> {
    let Ok(Some(tokens)) = metadata.strings("tokenizer.ggml.tokens") else {
        return Vec::new();
    };
    let mut texts = Vec::new();
    for edit in edits {
        let (Edit::Set { key, value } | Edit::Add { key, value }) = edit else {
            continue;
        };
        let values = [Some(value), metadata.get(key)];
        for id in values.into_iter().flatten().filter_map(Value::as_integer) {
            let place = usize::try_from(id).ok().filter(|_| is_token(key));
            let text = place.and_then(|place| tokens.iter().nth(place));
            texts.extend(
                text.map(|text| (id, show(&Value::String(Text::from_bytes(text)), EXTENT))),
            );
        }
    }
    texts
}

impl Report<'_> {
    /// Writes the report to standard output.
    pub fn print(&self, as_json: bool) -> anyhow::Result<()> {
        let made = self.outcome.map(|outcome| {
            let path = outcome.path.display();
            format!("{path}: the edit is made")
        });
        stdout::tell(made, |out| {
            let mut out = io::BufWriter::new(out);
            match as_json {
                true => writeln!(out, "{:#}", self.to_json())?,
                false => self.write_text(&mut out)?,
            }
            out.flush()
        })
    }

    fn write_text(&self, out: &mut impl Write) -> io::Result<()> {
        for change in self.plan.changes() {
            writeln!(out, "{}", self.line(change))?;
        }
        let rewritten = matches!(self.plan.way(), Way::Rewrite { .. });
        let (room_before, room) = (self.plan.room_before(), self.plan.room());
        match self.plan.has_reserve() {
            (false, true) => writeln!(
                out,
                "+ {RESERVED_KEY}: spaces, so that the tensor data keeps its place (`--reserve 0` does without)"
            )?,
            (true, false) => writeln!(out, "- {RESERVED_KEY}")?,
            _ if rewritten && room_before != room => writeln!(
                out,
                "~ {RESERVED_KEY}: {room_before} -> {room} bytes of room"
            )?,
            _ if self.plan.changes().is_empty() && rewritten => {
                writeln!(out, "no entry changes")?;
            }
            _ => {}
        }
        writeln!(out, "{}", self.way())?;
        if room > 0 {
            writeln!(out, "room for later edits: {room} bytes")?;
        }
        if let Some(wanted) = self.reserve.filter(|&wanted| wanted > 0 && wanted < room) {
            writeln!(
                out,
                "that is more than the {wanted} that were asked for; for less, give `--reserve 0` first"
            )?;
        }
        if let Some(backup) = self.outcome.and_then(|outcome| outcome.backup.as_ref()) {
            writeln!(
                out,
                "old file: {}",
                printable(&backup.display().to_string())
            )?;
        }
        if matches!(self.plan.way(), Way::Unchanged) {
            return Ok(());
        }
        let (before, after) = self.plan.header_sha256();
        let (bytes_before, bytes_after) = self.plan.header_bytes();
        writeln!(out, "header before: sha256 {before} ({bytes_before} bytes)")?;
        writeln!(out, "header after:  sha256 {after} ({bytes_after} bytes)")?;
        if let Some(sum) = &self.hashes.0 {
            writeln!(out, "file before:   sha256 {sum}")?;
        }
        if let Some(sum) = &self.hashes.1 {
            writeln!(out, "file after:    sha256 {sum}")?;
        }
        Ok(())
    }

    /// One change in one line; of a token's id, with its text.
    fn line(&self, change: &Change) -> String {
        let text = |value: &Option<Value>| {
            let id = value.as_ref()?.as_integer()?;
            self.tokens.iter().find(|(known, _)| *known == id)
        };
        let (Some(before), Some(after)) = (&change.before, &change.after) else {
            return match text(&change.after) {
                Some((_, text)) if is_token(&change.key) => format!("{} {text}", line(change)),
                _ => line(change),
            };
        };
        if !is_token(&change.key) || change.renamed_from.is_some() {
            return line(change);
        }
        let shown = |value: &Value, token: Option<&(i128, String)>| {
            let token = token.map_or(String::new(), |(_, text)| format!(" {text}"));
            format!("{}{token}", show(value, EXTENT))
        };
        let (old, new) = (text(&change.before), text(&change.after));
        let key = printable(&change.key);
        format!("~ {key}: {} -> {}", shown(before, old), shown(after, new))
    }

    /// How, in one sentence; of a dry run, how it would be.
    fn way(&self) -> String {
        let (before, after) = self.plan.file_bytes();
        let (verb, n_bytes) = match self.outcome {
            Some(outcome) => ("wrote", outcome.bytes_written),
            None => ("would write", self.plan.bytes_to_write()),
        };
        match self.plan.way() {
            Way::InPlace => format!(
                "in place: {verb} {n_bytes} bytes, undo file included; the file keeps its {before} bytes, and the \
                 tensor data its place"
            ),
            Way::Rewrite { reason } => {
                format!("a new file: {verb} {after} bytes (before: {before}), as {reason}")
            }
            _ => "nothing changes".to_owned(),
        }
    }

    fn to_json(&self) -> Json {
        let (header_before, header_after) = self.plan.header_bytes();
        let (sum_before, sum_after) = self.plan.header_sha256();
        let (file_before, file_after) = self.plan.file_bytes();
        let (way, reason) = match self.plan.way() {
            Way::InPlace => ("in place", None),
            Way::Rewrite { reason } => ("rewrite", Some(reason)),
            _ => ("unchanged", None),
        };
        let changes: Vec<Json> = self.plan.changes().iter().map(change_json).collect();
        let written = self.outcome.map(|outcome| outcome.bytes_written);
        let path = |path: &Path| path.to_string_lossy().into_owned();
        json!({
            "file": path(self.file),
            "output": self.outcome.map(|outcome| path(&outcome.path)),
            "backup": self.outcome.and_then(|outcome| outcome.backup.as_deref().map(path)),
            "dry_run": self.outcome.is_none(),
            "changes": changes,
            "way": way,
            "reason": reason,
            "bytes_written": written.unwrap_or(self.plan.bytes_to_write()),
            "room": self.plan.room(),
            "reserve": { "before": self.plan.has_reserve().0, "after": self.plan.has_reserve().1 },
            "file_bytes": { "before": file_before, "after": file_after },
            "header_bytes": { "before": header_before, "after": header_after },
            "header_sha256": { "before": sum_before, "after": sum_after },
            "file_sha256": { "before": self.hashes.0, "after": self.hashes.1 },
        })
    }
}

fn change_json(change: &Change) -> Json {
    let value = |value: &Option<Value>| value.as_ref().map(|value| shown(value, EXTENT.n_items));
    json!({
        "key": change.key,
        "renamed_from": change.renamed_from,
        "before": value(&change.before),
        "after": value(&change.after),
    })
}

/// One change in one line.
fn line(change: &Change) -> String {
    let key = printable(&change.key);
    match (&change.renamed_from, &change.before, &change.after) {
        (Some(from), ..) => format!("> {key}: was {}", printable(from)),
        (None, Some(before), Some(after)) => {
            let (before, after) = show_pair(before, after, EXTENT);
            format!("~ {key}: {before} -> {after}")
        }
        (None, None, Some(after)) => {
            format!("+ {key}: {} {}", after.type_name(), show(after, EXTENT))
        }
        (None, Some(before), None) => {
            format!("- {key}: {} {}", before.type_name(), show(before, EXTENT))
        }
        (None, None, None) => key.into_owned(),
    }
}
