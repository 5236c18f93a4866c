//! `gristmill`: the GGUF toolchain. This file finds the command, parses its arguments and turns its result into
//! an exit code; everything a command does lives in `cmd/<command>.rs`, one library call each.

mod arguments;
mod cmd;
mod escapes;
mod failure;
mod gpu;
mod interrupt;
mod progress;
mod sizes;
mod version;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use cmd::{COMMANDS, Command, Invocation};

fn main() -> ExitCode {
    interrupt::install();
    // Every command that opens a file puts an edit of it right that was cut short, and says so.
    gristmill_gguf::edit::recover_on_open(|recovery| eprintln!("note: {recovery}"));
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
    let argv = arguments::normalise(argv, &parser);
    match parser.try_get_matches_from(argv) {
        Ok(matches) => finish(
            (command.run)(
                &matches,
                &Invocation {
                    reference: Some(name),
                },
            ),
            1,
        ),
        Err(error) => usage(&error, 1),
    }
}

fn run_as_gristmill(argv: &[OsString]) -> ExitCode {
    let parser = cmd::parser();
    let argv = arguments::normalise(argv, &parser);
    match parser.try_get_matches_from(argv) {
        Ok(matches) => finish(cmd::dispatch(&matches), 2),
        Err(error) => usage(&error, 2),
    }
}

fn finish(result: anyhow::Result<()>, usage_code: u8) -> ExitCode {
    let Err(error) = result else {
        return ExitCode::SUCCESS;
    };
    match error.downcast_ref::<clap::Error>() {
        Some(wrong_usage) => usage(wrong_usage, usage_code),
        None => failure::report(&error),
    }
}

/// Prints help or version (exit 0) or what is wrong with the arguments (exit `code`).
fn usage(error: &clap::Error, code: u8) -> ExitCode {
    // A closed pipe is all that can go wrong here, and then nobody reads the message anyway.
    let _ = error.print();
    if error.use_stderr() {
        ExitCode::from(code)
    } else {
        ExitCode::SUCCESS
    }
}
