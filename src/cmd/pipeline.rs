//! `pipeline`: the whole chain from a checkpoint to a checked quantized file, with reports and a manifest.

use std::io::Write as _;
use std::path::PathBuf;

use gristmill_pipeline::{PipelineEvent, PipelineOptions, run};

use super::{Invocation, Run};
use crate::numbers::{self, Threads};
use crate::progress::ProgressLog;
use crate::stdout;

/// Arguments of `pipeline`.
#[derive(clap::Args)]
pub struct Pipeline {
    /// Folder with a Hugging Face checkpoint
    dir: PathBuf,
    /// Name of the model; files and reports are named after it
    name: String,
    /// Recipe, as `gristmill quantize --help` lists them
    #[arg(value_name = "TYPE", default_value = "Q4_K_M")]
    recipe: String,
    /// Folder of models: bf16/ and quant/ are made in it
    #[arg(long, value_name = "DIR", default_value = "models")]
    models: PathBuf,
    /// Folder of reports: NAME-TYPE/ is made in it
    #[arg(long, value_name = "DIR", default_value = "reports")]
    reports: PathBuf,
    /// Replace the results of an earlier run; FORCE=1 in the environment does the same
    #[arg(long)]
    force: bool,
    /// Threads; 0 or less takes one per processor
    #[arg(long, short, value_name = "N", default_value = "0", value_parser = numbers::threads)]
    threads: Threads,
}

impl Run for Pipeline {
    const NAME: &'static str = "pipeline";
    const ABOUT: &'static str =
        "Convert, check, quantize, check and measure, with reports and a manifest of hashes";
    const EXAMPLES: &'static str = "gristmill pipeline models/tiny Tiny Q4_K_M
        gristmill pipeline Qwen3-0.6B Qwen3-0.6B Q5_K_M --models /data/models --reports /data/reports
        FORCE=1 gristmill pipeline models/tiny Tiny";

    fn run(self, _: &Invocation) -> anyhow::Result<()> {
        let options = PipelineOptions {
            checkpoint: self.dir,
            name: self.name,
            recipe: self.recipe,
            models: self.models,
            reports: self.reports,
            force: self.force || std::env::var("FORCE").is_ok_and(|value| value == "1"),
            n_threads: self.threads.asked(),
            program: format!(
                "gristmill {} ({})",
                env!("CARGO_PKG_VERSION"),
                crate::version::commit()
            ),
        };
        let mut log = ProgressLog::new(false);
        let report = run(&options, &mut |event| match event {
            PipelineEvent::Convert(event) => log.event(event),
            PipelineEvent::Step(step) => {
                log = ProgressLog::new(false);
                say!("==== {step}");
            }
            _ => {}
        })?;
        drop(log);
        let manifest = &report.manifest;
        let done = format!("{}: models and reports are written", manifest.quant_file);
        stdout::tell(Some(done), |out| {
            writeln!(out, "{}", report.speed)?;
            let (file, bytes) = (&manifest.bf16_file, manifest.bf16_bytes);
            writeln!(out, "{file} ({bytes} bytes)")?;
            let (file, bytes) = (&manifest.quant_file, manifest.quant_bytes);
            writeln!(out, "{file} ({bytes} bytes)")?;
            writeln!(out, "{}", report.reports.join("manifest.json").display())
        })
    }
}
