//! `endian`: a GGUF file in the other byte order.

use std::io::Write as _;
use std::path::PathBuf;

use gristmill_gguf::{Endian as Order, EndianOptions, convert_endian};

use super::{Invocation, Run};
use crate::display;
use crate::progress::ByteBar;
use crate::stdout;

/// Arguments of `endian`.
#[derive(clap::Args)]
pub struct Endian {
    /// GGUF file; of a set of shards, each file is converted by itself
    #[arg(value_name = "IN")]
    input: PathBuf,
    /// File to write
    #[arg(value_name = "OUT")]
    output: PathBuf,
    /// Byte order of the output: big (IBM Z), little (nearly everything else), or native, that of this machine
    #[arg(value_name = "ORDER", value_parser = ["big", "little", "native"])]
    order: String,
    /// Check the file, write nothing
    #[arg(long)]
    dry_run: bool,
    /// Replace an existing output
    #[arg(long, short)]
    force: bool,
}

impl Run for Endian {
    const NAME: &'static str = "endian";
    const ABOUT: &'static str = "Convert the byte order of a GGUF file";
    const EXAMPLES: &'static str = "gristmill endian model.gguf model-be.gguf big
        gristmill endian model-be.gguf model.gguf native";

    fn run(self, _: &Invocation) -> anyhow::Result<()> {
        let options = EndianOptions {
            input: self.input,
            output: self.output,
            to: match &*self.order {
                "big" => Order::Big,
                "little" => Order::Little,
                _ => Order::NATIVE,
            },
            dry_run: self.dry_run,
            force: self.force,
        };
        let report = ByteBar::during(|progress| convert_endian(&options, progress))?;
        let done = display::done(report.dry_run);
        let path = report.path.display();
        let written = stdout::written([&*report.path], report.dry_run);
        stdout::tell(written, |out| {
            writeln!(
                out,
                "{done} {path}: {}-endian, {} entries, {}, {} bytes",
                options.to.name(),
                report.n_entries,
                crate::display::counted(report.n_tensors, "tensor"),
                report.bytes
            )
        })
    }
}
