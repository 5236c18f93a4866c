//! `split`: one GGUF file becomes a set of shards; under the reference's name the way back as well.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::Args as _;
use clap::error::ErrorKind;
use gristmill_gguf::{
    MergeOptions, ShardLimits, SplitFile, SplitOptions, SplitReport, merge, shard_prefix, split,
};

use super::{Invocation, Run};
use crate::display::{self, counted};
use crate::failure::Hint;
use crate::progress::ByteBar;
use crate::sizes;
use crate::stdout;

/// Arguments of `split`.
#[derive(clap::Args)]
pub struct Split {
    /// GGUF file, or any file of a set, which is then divided anew
    #[arg(value_name = "IN")]
    input: PathBuf,
    /// Beginning of the names: the files become PREFIX-00001-of-0000N.gguf. With --merge, the output file
    #[arg(value_name = "PREFIX")]
    output: PathBuf,
    /// Split; this is the default
    #[arg(long, conflicts_with = "merge")]
    split: bool,
    /// Merge a set into one file and leave its mark, split.count 0, as llama-gguf-split does
    #[arg(long)]
    merge: bool,
    /// Most tensors of a file [default: 128]
    #[arg(long, value_name = "N", conflicts_with = "split_max_size")]
    split_max_tensors: Option<u64>,
    /// Most bytes of tensor data of a file: 300M and 4G are decimal, 300MiB and 4GiB binary
    #[arg(long, value_name = "SIZE", value_parser = sizes::parse)]
    split_max_size: Option<u64>,
    /// Put no tensors into the first file, only the metadata
    #[arg(long)]
    no_tensor_first_split: bool,
    /// Show the files that would be written, write nothing
    #[arg(long)]
    dry_run: bool,
    /// With --merge: delete the shards once the output is on the disk and was compared with them; of links only the links
    #[arg(long, requires = "merge")]
    delete_splits: bool,
    /// Replace existing files
    #[arg(long, short)]
    force: bool,
}

impl Run for Split {
    const NAME: &'static str = "split";
    const ABOUT: &'static str = "Split a GGUF file into shards";
    const EXAMPLES: &'static str =
        "gristmill split --split-max-size 4G model-Q4_K_M.gguf shards/model-Q4_K_M
        gristmill split --split-max-tensors 128 model.gguf model
        gristmill split --dry-run --split-max-size 300MiB model.gguf model";
    const REFERENCE_NAMES: &'static [&'static str] = &["llama-gguf-split"];

    fn run(self, invocation: &Invocation) -> anyhow::Result<()> {
        if self.merge {
            self.check_merge(invocation)?;
            return self.run_merge(invocation);
        }
        let as_reference = invocation.reference.is_some();
        // The file's own name is a usual prefix, though a folder of that name, its checkpoint, may lie beside it.
        let is_own_name = shard_prefix(&self.input) == self.output;
        if !as_reference && !is_own_name && self.output.is_dir() {
            return Err(prefix_is_folder(&self.output));
        }
        let options = SplitOptions {
            prefix: if as_reference {
                self.output
            } else {
                shard_prefix(&self.output)
            },
            limits: ShardLimits {
                tensors: match self.split_max_size {
                    None => Some(self.split_max_tensors.unwrap_or(128)),
                    Some(_) => None,
                },
                bytes: self.split_max_size,
                tensor_free_first: self.no_tensor_first_split,
            },
            dry_run: self.dry_run,
            force: self.force,
            as_reference,
            input: self.input,
        };
        let report = ByteBar::during(|progress| split(&options, progress))?;
        if as_reference {
            print_as_reference(&report)
        } else {
            print(&report)
        }
    }
}

impl Split {
    /// Of a merge nothing is divided. The reference takes such flags all the same.
    fn check_merge(&self, invocation: &Invocation) -> anyhow::Result<()> {
        let flags = [
            ("--split-max-tensors", self.split_max_tensors.is_some()),
            ("--split-max-size", self.split_max_size.is_some()),
            ("--no-tensor-first-split", self.no_tensor_first_split),
        ];
        for (flag, _) in flags.into_iter().filter(|(_, is_given)| *is_given) {
            if invocation.reference.is_none() {
                let mut parser = Split::augment_args(clap::Command::new("gristmill split"));
                let message = format!("{flag} says how to split, and --merge splits nothing");
                return Err(parser.error(ErrorKind::ArgumentConflict, message).into());
            }
            say!("note: {flag} says how to split, and has no effect with --merge");
        }
        Ok(())
    }

    fn run_merge(self, invocation: &Invocation) -> anyhow::Result<()> {
        let options = MergeOptions {
            input: self.input,
            output: self.output,
            dry_run: self.dry_run,
            force: self.force,
            delete_shards: self.delete_splits,
            as_reference: true,
        };
        if invocation.reference.is_none() {
            return super::merge::run(&options);
        }
        say!(
            "gguf_merge: {} -> {}",
            options.input.display(),
            options.output.display()
        );
        let report = ByteBar::during(|progress| merge(&options, progress))?;
        if options.delete_shards && !report.dry_run {
            for shard in &report.shards {
                say!("gguf_merge: deleted file {}", shard.display());
            }
            super::merge::say_kept(&report);
        }
        say!(
            "gguf_merge: {} merged from {} split with {} tensors.",
            report.path.display(),
            report.shards.len(),
            report.n_tensors
        );
        Ok(())
    }
}

/// The files would lie beside the folder that was named, not in it.
fn prefix_is_folder(prefix: &Path) -> anyhow::Error {
    let (shown, inside) = (prefix.display(), prefix.join("model"));
    anyhow::anyhow!("{shown}: is a folder, and files of a set are named after a prefix").context(
        Hint::new(format!(
            "give the folder and the beginning of the names, as in {}; or {shown}.gguf for {shown}-00001-of-0000N.gguf",
            inside.display()
        )),
    )
}

fn written(report: &SplitReport) -> Option<String> {
    let paths = report.files.iter().map(|file| file.path.as_path());
    stdout::written(paths, report.dry_run)
}

fn print(report: &SplitReport) -> anyhow::Result<()> {
    let done = display::done(report.dry_run);
    let told = stdout::tell(written(report), |out| {
        for file in &report.files {
            let SplitFile {
                path,
                n_tensors,
                bytes,
                ..
            } = file;
            let (path, tensors) = (path.display(), counted(*n_tensors, "tensor"));
            writeln!(out, "{done} {path}: {tensors}, {bytes} bytes")?;
        }
        Ok(())
    });
    if !report.restores {
        say!(
            "note: merging will give back the same metadata and tensors, but not the same bytes: the input is itself a \
             set, was merged from one, or lies in the file in another way than writers lay it out"
        );
    }
    told
}

/// The lines that scripts know from llama-gguf-split.
fn print_as_reference(report: &SplitReport) -> anyhow::Result<()> {
    let told = stdout::tell(written(report), |out| {
        writeln!(out, "n_split: {}", report.files.len())?;
        for (number, file) in (1..).zip(&report.files) {
            let (n_tensors, size) = (file.n_tensors, file.unpadded_bytes / 1_000_000);
            writeln!(
                out,
                "split {number:05}: n_tensors = {n_tensors}, total_size = {size}M"
            )?;
        }
        for file in report.files.iter().filter(|_| !report.dry_run) {
            writeln!(out, "Writing file {} ... done", file.path.display())?;
        }
        Ok(())
    });
    say!(
        "gguf_split: {} gguf split written with a total of {} tensors.",
        report.files.len(),
        report.n_tensors
    );
    told
}
