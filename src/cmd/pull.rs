//! `pull`: a model from the hub into the cache.

use std::io::Write as _;

use gristmill_hub::{ModelName, Plan, Request, Settings, Wanted};

use super::{Invocation, Run};
use crate::display::{counted, printable, size};
use crate::download::{DownloadFlags, DownloadLog};
use crate::{model_path, numbers, stdout};

/// Arguments of `pull`.
#[derive(clap::Args)]
pub struct Pull {
    /// The repository, with the quantization behind a colon; without one its Q4_K_M, else its Q8_0, else its first GGUF file
    #[arg(value_name = "USER/REPO[:QUANT]")]
    name: ModelName,
    /// A file by its path in the repository; of a set of shards, the whole set
    #[arg(long, visible_alias = "file", value_name = "FILE")]
    hf_file: Option<String>,
    /// The checkpoint: config.json, tokenizer and safetensors, for `gristmill convert`
    #[arg(long, conflicts_with = "hf_file")]
    checkpoint: bool,
    /// Branch, tag or commit
    #[arg(long, value_name = "REVISION", default_value = "main")]
    revision: String,
    /// Name the files and their sizes, fetch nothing
    #[arg(long)]
    dry_run: bool,
    /// Parts of a file that are fetched at once
    #[arg(long, value_name = "N", default_value_t = Settings::CONNECTIONS, value_parser = numbers::count(1..=16))]
    connections: usize,
    #[command(flatten)]
    download: DownloadFlags,
}

impl Run for Pull {
    const NAME: &'static str = "pull";
    const ABOUT: &'static str = "Fetch a model from the hub into the cache";
    const EXAMPLES: &'static str = "gristmill pull ggml-org/gemma-3-270m-it-GGUF:Q8_0
        gristmill pull ggml-org/gemma-3-270m-it-GGUF --dry-run
        gristmill pull HuggingFaceTB/SmolLM2-135M --checkpoint
        gristmill pull user/model --revision 0123456789abcdef0123456789abcdef01234567 --hf-file model-f16.gguf";

    fn more_help() -> String {
        "\n\nPrints the path to give to other commands. The cache is the one of Hugging Face's own library and of llama.cpp: \
         HF_HUB_CACHE, HF_HOME and LLAMA_CACHE name another place, HF_ENDPOINT another hub."
            .into()
    }

    fn run(self, _: &Invocation) -> anyhow::Result<()> {
        let settings = Settings {
            connections: self.connections,
            ..self.download.settings()?
        };
        let wanted = match (self.hf_file, self.checkpoint) {
            (Some(file), _) => Wanted::File(file),
            (None, true) => Wanted::Checkpoint,
            (None, false) => Wanted::Model,
        };
        let request = Request {
            name: self.name,
            revision: self.revision,
            wanted,
            or_cached: false,
        };
        let log = DownloadLog::new();
        let plan = Plan::new(&settings, &request, &|event| log.event(event))?;
        model_path::note_left(&plan);
        if self.dry_run {
            return show(&plan);
        }
        let pulled = log.fetch(&plan)?;
        let path = pulled.path.display();
        stdout::tell(Some(format!("{path}: is there")), |out| {
            writeln!(out, "{path}")
        })
    }
}

/// What would be fetched.
fn show(plan: &Plan) -> anyhow::Result<()> {
    let mut out = stdout::lock();
    writeln!(out, "{} at commit {}", plan.repo, plan.commit)?;
    for planned in &plan.files {
        let state = match (planned.is_here, planned.present) {
            (true, _) => "is in the cache".to_owned(),
            (false, 0) => "to fetch".to_owned(),
            (false, present) => format!("to fetch, {} are here", size(present)),
        };
        let (path, bytes) = (printable(&planned.file.path), planned.file.bytes);
        writeln!(out, "  {path}: {bytes} bytes, {state}")?;
    }
    let (n_files, bytes) = (counted(plan.files.len(), "file"), plan.missing_bytes());
    writeln!(out, "{n_files}; {bytes} bytes ({}) to fetch", size(bytes))?;
    Ok(out.flush()?)
}
