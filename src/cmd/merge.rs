//! `merge`: a set of shards becomes one GGUF file.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use gristmill_gguf::{MergeOptions, MergeReport, ShardName, merge};

use super::{Invocation, Run};
use crate::display::{self, counted};
use crate::progress::ByteBar;
use crate::stdout;

/// Arguments of `merge`.
#[derive(clap::Args)]
pub struct Merge {
    /// Any file of the set; the others are found beside it by their names
    #[arg(value_name = "SHARD")]
    input: PathBuf,
    /// File to write
    #[arg(value_name = "OUT")]
    output: PathBuf,
    /// The other shards, and the output, of somebody who names them all.
    #[arg(hide = true)]
    more: Vec<PathBuf>,
    /// Check the set and show what would be written, write nothing
    #[arg(long)]
    dry_run: bool,
    /// Delete the shards once the output is on the disk and was compared with them; of links only the links
    #[arg(long)]
    delete_splits: bool,
    /// Replace an existing output; a file of the set is never replaced
    #[arg(long, short)]
    force: bool,
}

impl Run for Merge {
    const NAME: &'static str = "merge";
    const ABOUT: &'static str = "Merge a set of shards into one GGUF file";
    const EXAMPLES: &'static str = "gristmill merge model-00001-of-00003.gguf model.gguf
        gristmill merge --dry-run model-00002-of-00003.gguf model.gguf";

    fn run(self, _: &Invocation) -> anyhow::Result<()> {
        let output = self.more.last().unwrap_or(&self.output);
        let single = output_of_set(&self.input, output);
        if single.is_some() || !self.more.is_empty() {
            let (shard, output) = (&self.input, single.as_ref().unwrap_or(output));
            let message = format!(
                "one shard is enough, the others are found by their names: `gristmill merge {} {}`",
                shard.display(),
                output.display()
            );
            return Err(clap::Error::raw(ErrorKind::TooManyValues, message).into());
        }
        let options = MergeOptions {
            input: self.input,
            output: self.output,
            dry_run: self.dry_run,
            force: self.force,
            delete_shards: self.delete_splits,
            as_reference: false,
        };
        run(&options)
    }
}

/// A name for the merged file that is free, where `output` is a shard of the set that `shard` belongs to.
fn output_of_set(shard: &Path, output: &Path) -> Option<PathBuf> {
    let (set, name) = (ShardName::of(shard)?, ShardName::of(output)?);
    let is_of_set = (set.prefix, set.count) == (name.prefix, name.count);
    if !is_of_set || shard.parent() != output.parent() {
        return None;
    }
    let prefix = match set.prefix {
        "" => "merged",
        prefix => prefix,
    };
    let path = shard.with_file_name(format!("{prefix}.gguf"));
    match path.exists() {
        true => Some(shard.with_file_name(format!("{prefix}-merged.gguf"))),
        false => Some(path),
    }
}

/// Merges, and tells what was done.
pub fn run(options: &MergeOptions) -> anyhow::Result<()> {
    let report = ByteBar::during(|progress| merge(options, progress))?;
    let done = display::done(report.dry_run);
    let path = report.path.display();
    let written = stdout::written([&*report.path], report.dry_run);
    let told = stdout::tell(written, |out| {
        writeln!(
            out,
            "{done} {path}: {} of {} files, {} bytes",
            counted(report.n_tensors, "tensor"),
            report.shards.len(),
            report.bytes
        )
    });
    if options.delete_shards && !report.dry_run {
        say!("deleted the {} files of the set", report.shards.len());
        say_kept(&report);
    }
    told
}

/// Names in one line.
const KEPT_SHOWN: usize = 10;

/// Tells that deleted shards were links, and where the files are.
pub fn say_kept(report: &MergeReport) {
    let kept = &report.kept;
    if kept.is_empty() {
        return;
    }
    let names: Vec<String> = kept
        .iter()
        .take(KEPT_SHOWN)
        .map(|path| display::printable(&path.to_string_lossy()).into_owned())
        .collect();
    let more = if kept.len() > KEPT_SHOWN { ", …" } else { "" };
    say!(
        "note: {} of them were links, and only the links are gone; kept are the files that they led to: {}{more}",
        kept.len(),
        names.join(", ")
    );
}
