//! `convert`: a Hugging Face folder becomes a GGUF file.

use std::io::Write as _;
use std::path::PathBuf;

use gristmill_convert::{ConvertOptions, ConvertReport, OutputType, convert};
use gristmill_gguf::ShardLimits;

use super::{Invocation, Run};
use crate::adapters::MergeFlags;
use crate::failure::Hint;
use crate::numbers::{self, Threads};
use crate::progress::ProgressLog;
use crate::sizes;
use crate::stdout;

/// Arguments of `convert`.
#[derive(clap::Args)]
pub struct Convert {
    /// Folder with config.json, the tokenizer's files and *.safetensors
    #[arg(required_unless_present = "print_supported_models")]
    dir: Option<PathBuf>,
    /// Output file or folder; {ftype} in the name stands for the type [default: a name from the model, in DIR]
    #[arg(long, short, value_name = "FILE")]
    outfile: Option<PathBuf>,
    /// Output type: auto, f32, f16, bf16, q8_0, or a recipe as `gristmill quantize --help` lists them
    #[arg(long, value_name = "TYPE", default_value = "auto")]
    outtype: String,
    /// Name of the pre-tokenizer, where tokenizer.json does not give it away
    #[arg(long, value_name = "NAME", alias = "pre")]
    tokenizer_pre: Option<String>,
    /// Name of the model, in place of the one that the folder suggests
    #[arg(long, value_name = "NAME")]
    model_name: Option<String>,
    /// JSON file with general.* entries that go before the folder's own
    #[arg(long, value_name = "FILE")]
    metadata: Option<PathBuf>,
    /// Keep weights that are FP8 in 8 bits, as Q8_0, whatever the output type
    #[arg(long)]
    fp8_as_q8: bool,
    #[command(flatten)]
    merge: MergeFlags,
    /// Most tensors of a file; more files are written where that is not enough
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    split_max_tensors: u64,
    /// Most bytes of tensor data of a file: 300M and 4G are decimal, 300MiB and 4GiB binary
    #[arg(long, value_name = "SIZE", value_parser = sizes::parse)]
    split_max_size: Option<u64>,
    /// Put no tensors into the first file, only the metadata
    #[arg(long)]
    no_tensor_first_split: bool,
    /// Write the vocabulary and the description only; the folder needs no weights then
    #[arg(long, conflicts_with_all = ["split_max_tensors", "split_max_size", "no_tensor_first_split", "lora", "lora_scaled"])]
    vocab_only: bool,
    /// Check and plan everything, write nothing
    #[arg(long)]
    dry_run: bool,
    /// Leave room for later edits of the metadata, as in 64KiB
    #[arg(long, value_name = "SIZE", default_value = "0", hide_default_value = true, value_parser = sizes::parse)]
    reserve: u64,
    /// Replace an existing output
    #[arg(long, short)]
    force: bool,
    /// Threads; 0 or less takes one per processor
    #[arg(long, short, value_name = "N", default_value = "0", value_parser = numbers::threads)]
    threads: Threads,
    /// List the model classes that can be converted
    #[arg(long)]
    print_supported_models: bool,
    /// Show every tensor
    #[arg(long, short)]
    verbose: bool,
}

impl Run for Convert {
    const NAME: &'static str = "convert";
    const ABOUT: &'static str = "Turn a Hugging Face folder into a GGUF file";
    const EXAMPLES: &'static str = "gristmill convert Qwen3-0.6B
        gristmill convert Qwen3-0.6B --outtype bf16 --outfile 'qwen3-{ftype}.gguf'
        gristmill convert Qwen3-0.6B --outtype q4_k_m --outfile qwen3-q4_k_m.gguf
        gristmill convert Qwen3-0.6B --vocab-only --outfile vocabulary.gguf
        gristmill convert Qwen3-0.6B --lora my-adapter --outtype q4_k_m --outfile merged.gguf
        gristmill convert Qwen3-0.6B --dry-run";
    const REFERENCE_NAMES: &'static [&'static str] = &["convert_hf_to_gguf.py"];
    // That of a Python script.
    const REFERENCE_USAGE_CODE: u8 = 2;

    fn run(self, _: &Invocation) -> anyhow::Result<()> {
        // The parser asks for the folder unless the list is wanted.
        let Some(dir) = self.dir.filter(|_| !self.print_supported_models) else {
            return print_supported_models();
        };
        let output_type = OutputType::parse(&self.outtype)?;
        if self.fp8_as_q8 && matches!(output_type, OutputType::Recipe(_)) {
            return Err(anyhow::anyhow!(
                "--fp8-as-q8 goes with a float type or q8_0, not with a recipe"
            )
            .context(Hint::new(
                "leave it out: a recipe gives every tensor its type",
            )));
        }
        let options = ConvertOptions {
            output: self.outfile,
            output_type,
            fp8_as_q8: self.fp8_as_q8,
            pre_tokenizer: self.tokenizer_pre,
            name: self.model_name,
            overrides: self.metadata,
            merge: self.merge.sources(),
            limits: ShardLimits {
                // As for the reference, 0 is no limit.
                tensors: Some(self.split_max_tensors).filter(|&n| n > 0),
                bytes: self.split_max_size.filter(|&n| n > 0),
                tensor_free_first: self.no_tensor_first_split,
            },
            force: self.force,
            reserve: self.reserve,
            dry_run: self.dry_run,
            vocab_only: self.vocab_only,
            n_threads: self.threads.or_zero(),
            ..ConvertOptions::new(dir)
        };
        let mut log = ProgressLog::new(self.verbose);
        let report = convert(&options, &mut |event| log.event(&event))?;
        drop(log);
        print_report(&report)
    }
}

fn print_supported_models() -> anyhow::Result<()> {
    let mut out = stdout::lock();
    for architecture in gristmill_model::ARCHITECTURES {
        let classes: Vec<&str> = architecture
            .classes
            .iter()
            .map(|class| class.name)
            .collect();
        writeln!(out, "{}: {}", architecture.name, classes.join(", "))?;
    }
    Ok(())
}

/// What was read on standard error, what was written on standard output.
fn print_report(report: &ConvertReport) -> anyhow::Result<()> {
    report.lines().iter().for_each(|line| say!("{line}"));
    let lines = report.outputs();
    let paths = report.files.iter().map(|(path, ..)| path.as_path());
    stdout::tell(stdout::written(paths, report.dry_run), |out| {
        lines.iter().try_for_each(|line| writeln!(out, "{line}"))
    })
}
