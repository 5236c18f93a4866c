//! `export`: a GGUF file becomes a Hugging Face folder.

use std::io::Write as _;
use std::path::PathBuf;

use gristmill_convert::{ExportOptions, export, float_type};
use gristmill_quant::TensorType;

use super::{Invocation, Run};
use crate::display::{counted, size};
use crate::numbers::{self, Threads};
use crate::progress::ProgressLog;
use crate::{sizes, stdout};

/// Arguments of `export`.
#[derive(clap::Args)]
pub struct Export {
    /// GGUF file, or any shard of a set
    #[arg(value_name = "IN")]
    input: PathBuf,
    /// Folder to write; made where it is missing
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Type of all tensors: f32, f16 or bf16; auto keeps float tensors as they are and makes others f32
    #[arg(long, value_name = "TYPE", default_value = "auto", value_parser = out_type)]
    outtype: OutType,
    /// Largest size of a file with weights
    #[arg(long, value_name = "SIZE", default_value = "5GB", value_parser = sizes::parse)]
    max_shard_size: u64,
    /// Replace files that are there
    #[arg(long, short)]
    force: bool,
    /// Threads; 0 or less takes one per processor
    #[arg(long, short, value_name = "N", default_value = "-1", value_parser = numbers::threads)]
    threads: Threads,
    /// Print a line per tensor
    #[arg(long, short)]
    verbose: bool,
}

/// The type of all tensors, where there is one.
#[derive(Clone)]
struct OutType(Option<TensorType>);

fn out_type(name: &str) -> Result<OutType, String> {
    float_type(name).map(OutType)
}

impl Run for Export {
    const NAME: &'static str = "export";
    const ABOUT: &'static str =
        "Write a GGUF file as a Hugging Face folder that Transformers loads";
    const EXAMPLES: &'static str = "gristmill export model-BF16.gguf folder
        gristmill export model-Q8_0.gguf folder --outtype bf16
        gristmill export model-00001-of-00003.gguf folder --max-shard-size 2GB";

    fn run(self, _: &Invocation) -> anyhow::Result<()> {
        let options = ExportOptions {
            input: self.input,
            folder: self.folder,
            output_type: self.outtype.0,
            shard_bytes: self.max_shard_size,
            force: self.force,
            n_threads: self.threads.or_zero(),
        };
        let mut log = ProgressLog::new(self.verbose);
        let report = export(&options, &mut |event| log.event(&event))?;
        drop(log);
        let folder = report.folder.display();
        stdout::tell(Some(format!("{folder}: is written")), |out| {
            writeln!(
                out,
                "wrote {folder}: {}, {} of weights, {}",
                report.class,
                size(report.bytes),
                counted(report.n_tensors, "tensor")
            )?;
            let mut files = report.files.iter();
            files.try_for_each(|file| writeln!(out, "  {file}"))
        })
    }
}
