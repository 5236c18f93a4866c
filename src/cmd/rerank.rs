//! `rerank`: documents by how well they answer a query.

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::Context as _;
use gristmill_engine::{EmbedOptions, EngineError, Pooling};
use serde_json::json;

use super::embed::{EmbedLoadFlags, split};
use super::run::{input, of_adapted};
use super::{Invocation, Run};
use crate::display::printable;
use crate::failure::Hint;
use crate::gpu::GpuFlags;
use crate::model_path::ModelPath;
use crate::numbers;
use crate::stdout;

/// Arguments of `rerank`.
#[derive(clap::Args)]
pub struct Rerank {
    #[command(flatten)]
    model: ModelPath,
    /// What is asked
    #[arg(long, short, value_name = "TEXT", allow_hyphen_values = true)]
    query: String,
    /// A document; may be given more than once
    #[arg(
        long,
        short,
        value_name = "TEXT",
        allow_hyphen_values = true,
        conflicts_with = "file"
    )]
    document: Vec<String>,
    /// Read the documents from a file, one in each line
    #[arg(long, short, value_name = "FILE")]
    file: Option<PathBuf>,
    /// How many of the best to print; 0 for all
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = numbers::count(0..=i32::MAX as usize))]
    top_n: usize,
    /// Print one JSON object, as of the reranking endpoints
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    load: EmbedLoadFlags,
    #[command(flatten)]
    gpu: GpuFlags,
}

impl Run for Rerank {
    const NAME: &'static str = "rerank";
    const ABOUT: &'static str = "Order documents by how well they answer a query";
    const EXAMPLES: &'static str =
        "gristmill rerank -m reranker.gguf -q 'What do owls eat?' -d 'Owls eat mice.' -d 'Rain is wet.'
        gristmill rerank -m reranker.gguf -q 'What do owls eat?' -f documents.txt --top-n 3 --json";

    fn more_help() -> String {
        "\n\nA score is what the model's classifier gives, unchanged: for most rerankers a number without bounds, of which \
         the logistic function makes a probability; for those that answer yes or no the share of yes, from 0 to 1."
            .to_owned()
    }

    fn run(self, _: &Invocation) -> anyhow::Result<()> {
        let documents = self.documents()?;
        self.gpu.note();
        crate::environment::note();
        self.load.note();
        self.model.fetch()?;
        let path = self.model.path();
        let options = EmbedOptions {
            pooling: Some(Pooling::Rank),
            causal: None,
        };
        let mut embedder = self.load.embedder(path, &options)?;
        let truncate = self.load.truncate();
        let pair =
            |document: &Vec<u8>| embedder.encode_pair(self.query.as_bytes(), document, truncate);
        let ids: Result<Vec<Vec<u32>>, EngineError> = documents.iter().map(pair).collect();
        let ids = ids?;
        let n_tokens: usize = ids.iter().map(Vec::len).sum();
        let adapters = embedder.adapters().clone();
        let scores = embedder
            .embed(&ids, self.load.n_batch())
            .map_err(|error| match error {
                EngineError::Item { index, source } => {
                    of_adapted(*source, path, Some(&adapters)).context(self.name(index))
                }
                error => of_adapted(error, path, Some(&adapters)),
            })?;
        let first = scores.iter().flatten().filter_map(|row| row.first());
        let mut ranked: Vec<(usize, f32)> = first.copied().enumerate().collect();
        ranked.sort_by(|a, b| b.1.total_cmp(&a.1));
        if self.top_n > 0 {
            ranked.truncate(self.top_n);
        }
        let mut out = stdout::lock();
        if self.json {
            let results = ranked.iter();
            let results: Vec<_> = results
                .map(|(index, score)| json!({"index": index, "relevance_score": score}))
                .collect();
            let name = path.display().to_string();
            let usage = json!({"prompt_tokens": n_tokens, "total_tokens": n_tokens});
            let whole =
                json!({"model": name, "object": "list", "usage": usage, "results": results});
            writeln!(out, "{whole:#}")?;
        } else {
            for (index, score) in ranked {
                let text = String::from_utf8_lossy(&documents[index]);
                writeln!(out, "{score:8.3}  {index:4}  {}", printable(&text))?;
            }
        }
        Ok(out.flush()?)
    }
}

impl Rerank {
    /// A document by its number in the results, and where it stands.
    fn name(&self, index: usize) -> String {
        match self.document.is_empty() {
            true => format!("document {index} (line {})", index + 1),
            false => format!("document {index}"),
        }
    }

    /// The documents. Case B104: an empty one is an error that names it.
    fn documents(&self) -> anyhow::Result<Vec<Vec<u8>>> {
        let hint = "give them with -d, -f FILE with a line for each, or through a pipe";
        let lines = |text: Vec<u8>| {
            let text = text.strip_suffix(b"\n").unwrap_or(&text).to_vec();
            let lines = split(&text, b"\n").into_iter();
            lines.map(<[u8]>::to_vec).collect::<Vec<_>>()
        };
        let documents = match &self.file {
            _ if !self.document.is_empty() => {
                let given = self.document.iter();
                given.map(|text| text.clone().into_bytes()).collect()
            }
            Some(path) => lines(
                std::fs::read(path)
                    .with_context(|| format!("{}: cannot read the documents", path.display()))?,
            ),
            None => input::piped()?.map(lines).unwrap_or_default(),
        };
        let is_empty = |text: &Vec<u8>| text.trim_ascii().is_empty();
        match documents.iter().position(is_empty) {
            Some(index) if documents.len() > 1 => {
                Err(anyhow::anyhow!("{} is empty", self.name(index))
                    .context(Hint::new("leave it out, or give it a text")))
            }
            None if !documents.is_empty() => Ok(documents),
            _ => Err(anyhow::anyhow!("there are no documents").context(Hint::new(hint))),
        }
    }
}
