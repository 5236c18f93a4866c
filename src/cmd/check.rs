//! `check`: whether a model file is sound, and what to do where it is not.

mod text;

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::Mutex;

use clap::Args as _;
use clap::error::ErrorKind;
use gristmill_measure::check::{GROUPS, Options, Progress, Report, Severity, check};
use indicatif::ProgressBar;

use super::{Invocation, Run};
use crate::failure::Exit;
use crate::numbers::{self, Threads};
use crate::progress;

/// Arguments of `check`.
#[derive(clap::Args)]
pub struct Check {
    /// GGUF file; any shard stands for its whole set
    model: PathBuf,
    /// Leave the tensor data untouched: no scan for NaN and zeros, no hashes
    #[arg(long)]
    quick: bool,
    /// Compare sizes and hashes with a list: what sha256sum prints, or a manifest.json of the pipeline
    #[arg(long, value_name = "FILE")]
    checksums: Option<PathBuf>,
    /// Answer the ten questions to ask of a model file before it is used
    #[arg(long)]
    report: bool,
    /// Print everything as one JSON object
    #[arg(long)]
    json: bool,
    /// Print errors and warnings only
    #[arg(long)]
    no_notes: bool,
    /// Exit with 3 where there are warnings and no errors
    #[arg(long)]
    strict: bool,
    /// Threads that scan [default: one per processor]
    #[arg(long, short, value_name = "N", default_value = "0", hide_default_value = true, value_parser = numbers::threads)]
    threads: Threads,
}

/// The exit code for warnings under `--strict`.
const EXIT_WARNINGS: u8 = 3;

impl Run for Check {
    const NAME: &'static str = "check";
    const ABOUT: &'static str =
        "Check that a GGUF file is sound, and say what to do where it is not";
    const EXAMPLES: &'static str = "gristmill check model.gguf\n\
        gristmill check model-00001-of-00003.gguf --quick\n\
        gristmill check model.gguf --checksums checksums.sha256 --strict\n\
        gristmill check model.gguf --json --report";

    fn more_help() -> String {
        let line = |name: &str, about: &str| format!("\n  {name:<10} {about}");
        let groups: String = GROUPS
            .iter()
            .map(|group| line(group.name, group.about))
            .collect();
        format!(
            "\n\nChecks:{groups}\n\nExit code: 0 without errors, 1 with errors, {EXIT_WARNINGS} with warnings only under --strict, 2 for wrong usage."
        )
    }

    fn run(self, _: &Invocation) -> anyhow::Result<()> {
        if self.quick && self.checksums.is_some() {
            let mut parser = Check::augment_args(clap::Command::new("gristmill check"));
            let message = "--quick reads no tensor data, and --checksums asks for hashes of it; leave one out";
            return Err(parser.error(ErrorKind::ArgumentConflict, message).into());
        }
        let bar = Bar::default();
        let options = Options {
            quick: self.quick,
            checksums: self.checksums.as_deref(),
            n_threads: self.threads.or_zero(),
            progress: &|progress| bar.show(progress),
        };
        let report = check(&self.model, &options)?;
        bar.clear();
        let mut out = io::BufWriter::new(crate::stdout::lock());
        if self.json {
            let document = text::document(&self.model, &report, !self.no_notes);
            serde_json::to_writer_pretty(&mut out, &document)?;
            writeln!(out)?;
        } else {
            text::write(&self.model, &report, self.report, !self.no_notes, &mut out)?;
        }
        out.flush()?;
        match self.exit_code(&report) {
            0 => Ok(()),
            code => Err(Exit(code).into()),
        }
    }
}

impl Check {
    fn exit_code(&self, report: &Report) -> u8 {
        match report.worst() {
            Some(Severity::Error) => 1,
            Some(Severity::Warning) if self.strict => EXIT_WARNINGS,
            _ => 0,
        }
    }
}

/// A bar on a terminal, nothing elsewhere; told by many threads.
#[derive(Default)]
struct Bar(Mutex<Option<(&'static str, ProgressBar)>>);

impl Bar {
    fn show(&self, progress: Progress) {
        // Poisoned only where showing panicked; then there is nothing to show with.
        let Ok(mut shown) = self.0.lock() else { return };
        if shown
            .as_ref()
            .is_none_or(|(stage, _)| *stage != progress.stage)
        {
            let bar = progress::bar(progress.total);
            *shown = Some((progress.stage, bar.with_message(progress.stage)));
        }
        if let Some((_, bar)) = &*shown {
            bar.set_position(progress.done);
        }
    }

    fn clear(&self) {
        if let Ok(Some((_, bar))) = self.0.lock().as_deref() {
            bar.finish_and_clear();
        }
    }
}
