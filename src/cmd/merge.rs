//! `merge`: a set of shards becomes one GGUF file.

use std::io::Write as _;
use std::path::PathBuf;

use gristmill_gguf::{MergeOptions, merge};

use super::{Invocation, Run};
use crate::display;
use crate::progress::ByteBar;

/// Arguments of `merge`.
#[derive(clap::Args)]
pub struct Merge {
    /// Any file of the set; the others are found beside it by their names
    #[arg(value_name = "SHARD")]
    input: PathBuf,
    /// File to write
    #[arg(value_name = "OUT")]
    output: PathBuf,
    /// Check the set and show what would be written, write nothing
    #[arg(long)]
    dry_run: bool,
    /// Delete the shards once the output is on the disk and was compared with them
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
        let options = MergeOptions {
            input: self.input,
            output: self.output,
            dry_run: self.dry_run,
            force: self.force,
            delete_shards: self.delete_splits,
            as_reference: false,
        };
        let mut bar = ByteBar::new();
        let report = merge(&options, &mut |event| bar.event(event))?;
        drop(bar);
        let done = display::done(report.dry_run);
        writeln!(
            std::io::stdout().lock(),
            "{done} {}: {} tensors of {} files, {} bytes",
            report.path.display(),
            report.n_tensors,
            report.shards.len(),
            report.bytes
        )?;
        if options.delete_shards && !report.dry_run {
            say!("deleted the {} files of the set", report.shards.len());
        }
        Ok(())
    }
}
