//! `gristmill`: the GGUF toolchain. This file finds the command, parses its arguments and turns its result into
//! an exit code; everything a command does lives in `cmd/<command>.rs`, one library call each.

#[macro_use]
mod say;

mod adapters;
mod arguments;
mod arithmetic;
mod cmd;
mod display;
mod download;
mod environment;
mod escapes;
mod failure;
mod flag_reasons;
mod gpu;
mod interrupt;
mod memory;
mod model_path;
mod numbers;
mod progress;
mod reference_flags;
mod remote_header;
mod sizes;
mod stdout;
mod value_json;
mod value_text;
mod version;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use clap::error::ErrorKind;
use cmd::{COMMANDS, Command, Invocation};

/// The exit code for wrong usage.
const USAGE: u8 = 2;

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
        None if is_name_of_reference(&program) => failure::report(
            &anyhow::anyhow!("no command of gristmill stands for {program}").context(
                failure::Hint::new(match reference_name(&program) {
                    Some(name) => format!("call it {name}, as llama.cpp does"),
                    None => {
                        "`gristmill links DIR` makes a link for every reference name that has one"
                            .to_owned()
                    }
                }),
            ),
        ),
        None => run_as_gristmill(&argv),
    }
}

/// Python tools of the reference, without `.py` and with hyphens.
const SCRIPTS: &[&str] = &[
    "convert-hf-to-gguf",
    "convert-hf-to-gguf-update",
    "convert-llama-ggml-to-gguf",
    "convert-lora-to-gguf",
    "gguf-convert-endian",
    "gguf-dump",
    "gguf-editor-gui",
    "gguf-hash",
    "gguf-new-metadata",
    "gguf-set-metadata",
];

/// Whether a tool of the reference has, or once had, this name.
fn is_name_of_reference(program: &str) -> bool {
    let script = program.trim_end_matches(".py").replace('_', "-");
    program.starts_with("llama-")
        || SCRIPTS.contains(&script.as_str())
        || reference_name(program).is_some()
}

/// The name, known here, of a tool whose older name was this one: without `llama-`.
fn reference_name(program: &str) -> Option<&'static str> {
    let mut names = COMMANDS.iter().flat_map(|command| command.reference_names);
    let name = names.find(|name| name.strip_prefix("llama-") == Some(program));
    name.copied()
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
    failure::call_by_reference(command.name, name);
    let mut parser = command.parser(name);
    let matches = given(argv, &parser).and_then(|argv| parser.try_get_matches_from_mut(argv));
    let code = command.reference_usage_code;
    match matches {
        Ok(matches) => finish(
            (command.run)(
                &matches,
                &Invocation {
                    reference: Some(name),
                },
            ),
            code,
        ),
        Err(error) => {
            let kind = error.kind();
            let code = usage(error, code);
            match kind {
                ErrorKind::DisplayHelp if code == ExitCode::SUCCESS => {
                    ExitCode::from(command.reference_help_code)
                }
                // Called with nothing, the reference says what it can do.
                ErrorKind::MissingRequiredArgument if argv.len() == 1 => {
                    failure::print_help(&mut parser);
                    code
                }
                _ => code,
            }
        }
    }
}

fn run_as_gristmill(argv: &[OsString]) -> ExitCode {
    let mut parser = cmd::parser();
    // So that the usage of a command begins with the program's name.
    parser.build();
    let matches = given(argv, &parser).and_then(|argv| parser.try_get_matches_from(argv));
    match matches {
        Ok(matches) => finish(cmd::dispatch(&matches), USAGE),
        Err(error) => usage(error, USAGE),
    }
}

/// The arguments in the parser's form, with what the environment says.
fn given(argv: &[OsString], parser: &clap::Command) -> Result<Vec<OsString>, clap::Error> {
    let argv = arguments::normalise(argv, parser)?;
    let argv = environment::applied(argv, parser)?;
    arguments::keep(&argv);
    Ok(argv)
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
        (false, Err(failure)) => failure::report(&stdout::failed(failure).into()),
    }
}
