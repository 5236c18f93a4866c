//! `gristmill`: the GGUF toolchain. This file finds the command, parses its arguments and turns its result into
//! an exit code; everything a command does lives in `cmd/<command>.rs`, one library call each.

#[macro_use]
mod say;

mod arguments;
mod cmd;
mod display;
mod environment;
mod escapes;
mod failure;
mod gpu;
mod interrupt;
mod memory;
mod model_path;
mod numbers;
mod progress;
mod reference_flags;
mod sizes;
mod value_json;
mod value_text;
mod version;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use cmd::{COMMANDS, Command, Invocation};

/// The exit code for wrong usage.
const USAGE: u8 = 2;
/// The same under a reference's name.
const USAGE_OF_REFERENCE: u8 = 1;

fn main() -> ExitCode {
    interrupt::install();
    // Every command that opens a file puts an edit of it right that was cut short, and says so.
    gristmill_gguf::edit::recover_on_open(|recovery| say!("note: {recovery}"));
    let argv: Vec<OsString> = std::env::args_os().collect();
    let program = program_name(&argv);
    let reference = COMMANDS.iter().find_map(|command| {
        let name = command
            .reference_names
            .iter()
            .find(|name| **name == program)?;
        Some((command, *name))
    });
    match reference {
        Some((command, name)) => run_as_reference(command, name, &argv),
        None if program.starts_with("llama-") => failure::report(
            &anyhow::anyhow!("no command of gristmill stands for {program}").context(
                failure::Hint::new(
                    "`gristmill links DIR` makes a link for every reference name that has one",
                ),
            ),
        ),
        None => run_as_gristmill(&argv),
    }
}

/// The name that the program was called by, without folder and `.exe`.
fn program_name(argv: &[OsString]) -> String {
    let path = argv.first().map(Path::new);
    path.and_then(Path::file_name)
        .map(|name| name.to_string_lossy().trim_end_matches(".exe").to_string())
        .unwrap_or_default()
}

/// Called through a link: the whole argument list belongs to one command, and wrong usage exits with the
/// reference's code.
fn run_as_reference(command: &Command, name: &'static str, argv: &[OsString]) -> ExitCode {
    let parser = command.parser(name);
    let matches =
        arguments::normalise(argv, &parser).and_then(|argv| parser.try_get_matches_from(argv));
    match matches {
        Ok(matches) => finish(
            (command.run)(
                &matches,
                &Invocation {
                    reference: Some(name),
                },
            ),
            USAGE_OF_REFERENCE,
        ),
        Err(error) => {
            let is_wrong = error.use_stderr();
            let code = usage(error, USAGE_OF_REFERENCE);
            match is_wrong || code != ExitCode::SUCCESS {
                true => code,
                false => ExitCode::from(command.reference_help_code),
            }
        }
    }
}

fn run_as_gristmill(argv: &[OsString]) -> ExitCode {
    let parser = cmd::parser();
    let matches =
        arguments::normalise(argv, &parser).and_then(|argv| parser.try_get_matches_from(argv));
    match matches {
        Ok(matches) => finish(cmd::dispatch(&matches), USAGE),
        Err(error) => usage(error, USAGE),
    }
}

fn finish(result: anyhow::Result<()>, usage_code: u8) -> ExitCode {
    let Err(error) = result else {
        return ExitCode::SUCCESS;
    };
    match error.downcast::<clap::Error>() {
        Ok(wrong_usage) => usage(wrong_usage, usage_code),
        Err(error) => failure::report(&error),
    }
}

/// Prints help or version (exit 0) or what is wrong with the arguments (exit `code`).
fn usage(error: clap::Error, code: u8) -> ExitCode {
    let use_stderr = error.use_stderr();
    if use_stderr {
        environment::note();
    }
    let printed = failure::print_usage(error);
    match (use_stderr, printed) {
        (true, _) => ExitCode::from(code),
        (false, Ok(())) => ExitCode::SUCCESS,
        (false, Err(failure)) => failure::report(&failure.into()),
    }
}
