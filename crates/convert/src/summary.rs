//! What a conversion or a quantization did, in lines: what the commands print is what the chain logs.

use crate::{ConvertReport, Event};
use std::path::PathBuf;

/// Names of a list that are shown; the others are counted.
const N_NAMES_SHOWN: usize = 5;

impl ConvertReport {
    /// What was read and made of it, one fact a line.
    pub fn lines(&self) -> Vec<String> {
        let n_files = match self.n_source_files {
            1 => "1 file".to_owned(),
            n => format!("{n} files"),
        };
        // Types are written as GGUF writes them, whoever's they are.
        let sources = self.source_types.iter();
        let sources = counted(sources.map(|(name, n)| (name.to_ascii_lowercase(), *n)));
        let types = counted(self.types.iter().map(|(ty, n)| (ty.to_string(), *n)));
        let output = match self.types.is_empty() {
            true => "vocabulary only, no tensors".to_owned(),
            false => format!(
                "{}, tensors: {types}, {} parameters",
                self.output_type, self.n_params
            ),
        };
        let mut lines = vec![
            format!("architecture: {} ({})", self.architecture, self.class),
            format!("source: {n_files}, tensors: {sources}"),
            format!("output: {output}"),
        ];
        for (what, names) in [
            ("left out", &self.left_out_tensors),
            ("unknown and left out", &self.unknown_tensors),
        ] {
            if !names.is_empty() {
                lines.push(format!("{what}: {}", named(names)));
            }
        }
        let or_none = |text: &Option<String>| text.clone().unwrap_or_else(|| "none".into());
        lines.push(format!(
            "tokenizer: {}, pre-tokenizer {}, {} tokens",
            or_none(&self.tokenizer),
            or_none(&self.pre_tokenizer),
            self.n_tokens
        ));
        let template = match self.has_chat_template {
            true => "written",
            false => "none",
        };
        lines.push(format!("chat template: {template}"));
        lines
    }

    /// A line for each file that was written, or would be.
    pub fn outputs(&self) -> Vec<String> {
        let line = |(path, n_tensors, bytes): &(PathBuf, usize, u64)| {
            let (done, path) = (done(self.dry_run), path.display());
            format!("{done} {path}: {n_tensors} tensors, {bytes} bytes")
        };
        self.files.iter().map(line).collect()
    }
}

impl Event<'_> {
    /// The event as a line of a log: warnings and tensors, of which the run has `n_tensors`.
    pub fn line(&self, n_tensors: usize) -> Option<String> {
        match self {
            Event::Warning(text) => Some(format!("warning: {text}")),
            Event::Measuring { n_tensors, .. } => {
                Some(format!("measuring what types cost {n_tensors} tensors"))
            }
            Event::Tensor {
                index,
                name,
                dims,
                from,
                to,
            } => {
                let (number, from) = (index + 1, from.to_ascii_lowercase());
                Some(format!(
                    "[{number:>4}/{n_tensors:>4}] {name} {dims:?}: {from} -> {to}"
                ))
            }
            Event::Flushed { name, count } => {
                Some(format!("{name}: {count} values too small for f16 become 0"))
            }
            _ => None,
        }
    }
}

/// What was done to an output.
pub fn done(dry_run: bool) -> &'static str {
    match dry_run {
        true => "would write",
        false => "wrote",
    }
}

fn counted(types: impl Iterator<Item = (String, usize)>) -> String {
    let words: Vec<String> = types.map(|(name, n)| format!("{n} {name}")).collect();
    words.join(", ")
}

/// The first names of a list, and how many more there are.
fn named(names: &[String]) -> String {
    let shown = names[..names.len().min(N_NAMES_SHOWN)].join(", ");
    match names.len() - names.len().min(N_NAMES_SHOWN) {
        0 => shown,
        n => format!("{shown} and {n} more"),
    }
}
