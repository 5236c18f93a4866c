//! `convert-lora`: a LoRA adapter of PEFT becomes a GGUF file.

use std::io::Write as _;
use std::path::PathBuf;

use gristmill_convert::{ConvertLoraOptions, ConvertLoraReport, OutputType, convert_lora, done};

use gristmill_hub::Settings;

use super::{Invocation, Run};
use crate::numbers::{self, Threads};
use crate::progress::ProgressLog;
use crate::stdout;

/// Arguments of `convert-lora`.
#[derive(clap::Args)]
pub struct ConvertLora {
    /// Folder with adapter_config.json and adapter_model.safetensors
    dir: PathBuf,
    /// The base model: its folder (config.json is enough) or its GGUF file [default: the one that adapter_config.json names, a
    /// folder or what the hub's tools have in their cache]
    #[arg(long, value_name = "DIR")]
    base: Option<PathBuf>,
    /// Name of the base model on the hub, looked up in the cache of the hub's tools; goes before --base
    #[arg(long, value_name = "ID")]
    base_model_id: Option<String>,
    /// Output file or folder; {ftype} in the name stands for the type [default: a name from the adapter, in DIR]
    #[arg(long, short, value_name = "FILE")]
    outfile: Option<PathBuf>,
    /// Output type: f32, f16, bf16, q8_0, or auto for the adapter's own type of 16 bits
    #[arg(long, value_name = "TYPE", default_value = "f32")]
    outtype: String,
    /// Check and plan everything, write nothing
    #[arg(long)]
    dry_run: bool,
    /// Replace an existing output
    #[arg(long, short)]
    force: bool,
    /// Threads; 0 or less takes one per processor
    #[arg(long, short, value_name = "N", default_value = "0", value_parser = numbers::threads)]
    threads: Threads,
    /// Show every tensor
    #[arg(long, short)]
    verbose: bool,
}

impl Run for ConvertLora {
    const NAME: &'static str = "convert-lora";
    const ABOUT: &'static str = "Turn a LoRA adapter's folder into a GGUF file";
    const EXAMPLES: &'static str = "gristmill convert-lora my-adapter
        gristmill convert-lora my-adapter --base Qwen3-0.6B --outfile 'adapter-{ftype}.gguf'
        gristmill convert-lora my-adapter --base qwen3-q4_k_m.gguf --outtype f16 --dry-run";
    const REFERENCE_NAMES: &'static [&'static str] = &["convert_lora_to_gguf.py"];
    // That of a Python script.
    const REFERENCE_USAGE_CODE: u8 = 2;

    fn run(self, _: &Invocation) -> anyhow::Result<()> {
        let options = ConvertLoraOptions {
            folder: self.dir,
            base: self.base,
            base_model_id: self.base_model_id,
            hub_cache: hub_cache(),
            output: self.outfile,
            output_type: OutputType::parse(&self.outtype)?,
            force: self.force,
            dry_run: self.dry_run,
            n_threads: self.threads.or_zero(),
        };
        let mut log = ProgressLog::new(self.verbose);
        let report = convert_lora(&options, &mut |event| log.event(&event))?;
        drop(log);
        print_report(&report)
    }
}

/// Where downloads are kept, if that is known; without it the base must be given.
fn hub_cache() -> Option<PathBuf> {
    let settings = Settings::from_environment(|name| std::env::var(name).ok());
    settings.ok().map(|settings| settings.cache)
}

/// What was read on standard error, what was written on standard output.
fn print_report(report: &ConvertLoraReport) -> anyhow::Result<()> {
    let ranks: Vec<String> = report
        .ranks
        .iter()
        .map(|(rank, n)| format!("{rank} x {n}"))
        .collect();
    let types: Vec<String> = report
        .types
        .iter()
        .map(|(ty, n)| format!("{ty} x {n}"))
        .collect();
    say!("base: {} ({})", report.base.display(), report.architecture);
    say!(
        "adapter: {} matrices, rank {}, alpha {}; tensors: {}",
        report.n_pairs,
        ranks.join(", "),
        report.alpha,
        types.join(", ")
    );
    if !report.left_out.is_empty() {
        say!("left out: {}", report.left_out.join(", "));
    }
    let path = report.path.display();
    let line = format!(
        "{} {path}: {} tensors, {} bytes",
        done(report.dry_run),
        2 * report.n_pairs,
        report.bytes
    );
    let paths = std::iter::once(report.path.as_path());
    stdout::tell(stdout::written(paths, report.dry_run), |out| {
        writeln!(out, "{line}")
    })
}
