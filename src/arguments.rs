//! The reference's spelling of flags, turned into what the parser understands: single-dash flags of several letters
//! (`-ngl 99`) become long ones, and underscores in long flags become dashes.

use std::ffi::OsString;

use clap::error::ErrorKind;

use crate::reference_flags;

/// Single-dash flags of several letters and their long form, in alphabetical order. One table for all commands: a
/// spelling means the same everywhere.
const FLAGS: &[(&str, &str)] = &[
    ("-bf", "--binary-file"),
    ("-cmoe", "--cpu-moe"),
    ("-cnv", "--conversation"),
    ("-co", "--color"),
    ("-ctk", "--cache-type-k"),
    ("-ctv", "--cache-type-v"),
    ("-dev", "--device"),
    ("-fa", "--flash-attn"),
    ("-fit", "--fit"),
    ("-fitc", "--fit-ctx"),
    ("-fitt", "--fit-target"),
    ("-kvo", "--kv-offload"),
    ("-mg", "--main-gpu"),
    ("-mli", "--multiline-input"),
    ("-ncffn", "--n-cpu-ffn"),
    ("-ncmoe", "--n-cpu-moe"),
    ("-ngl", "--gpu-layers"),
    ("-nkvo", "--no-kv-offload"),
    ("-no-cnv", "--no-conversation"),
    ("-ot", "--override-tensor"),
    ("-rea", "--reasoning"),
    ("-sm", "--split-mode"),
    ("-sp", "--special"),
    ("-st", "--single-turn"),
    ("-sys", "--system-prompt"),
    ("-sysf", "--system-prompt-file"),
    ("-tb", "--threads-batch"),
    ("-ts", "--tensor-split"),
    ("-ub", "--ubatch-size"),
];

/// Rewrites the flags of an argument list; values (also those that look like flags) and everything after `--` stay.
///
/// # Errors
/// Wrong usage: flags of the reference that the command does not have, or letters joined behind a single dash. The
/// reference joins none, so what looks like that is a flag of several letters, and is never taken apart.
pub fn normalise(argv: &[OsString], parser: &clap::Command) -> Result<Vec<OsString>, clap::Error> {
    let mut parser = parser;
    let mut out: Vec<OsString> = Vec::with_capacity(argv.len());
    let mut values_left = 0;
    let mut refused: Vec<String> = Vec::new();
    for (index, argument) in argv.iter().enumerate() {
        let text = argument.to_str();
        if index == 0 || values_left > 0 {
            values_left = usize::max(values_left, 1) - 1;
            out.push(argument.clone());
            continue;
        }
        if text == Some("--") {
            out.extend_from_slice(&argv[index..]);
            break;
        }
        let Some(text) = text else {
            out.push(argument.clone());
            continue;
        };
        let flag = normalise_flag(text);
        if let Some(command) = parser.find_subcommand(&flag) {
            parser = command;
        } else if parser.has_subcommands() && !text.starts_with('-') {
            // A command that does not exist: the parser says so, whatever follows.
            out.extend_from_slice(&argv[index..]);
            break;
        }
        refused.extend(refused_spelling(parser, text, &flag));
        values_left = n_values(parser, &flag);
        out.push(flag.into());
    }
    match refused.is_empty() {
        true => Ok(out),
        false => {
            let message = reference_flags::refusal(parser, &refused);
            Err(parser.clone().error(ErrorKind::UnknownArgument, message))
        }
    }
}

/// The form of a flag that the parser knows.
pub fn normalise_flag(text: &str) -> String {
    if let Some(long) = text.strip_prefix("--") {
        let (name, value) = long.find('=').map_or((long, ""), |at| long.split_at(at));
        return format!("--{}{value}", name.replace('_', "-"));
    }
    FLAGS
        .iter()
        .find(|(short, _)| *short == text)
        .map_or(text, |(_, long)| long)
        .to_string()
}

/// The spelling to name of a flag, typed as `text`, that the parser may not see. What it says better itself passes.
fn refused_spelling(parser: &clap::Command, text: &str, flag: &str) -> Option<String> {
    let is_number = text.parse::<f64>().is_ok();
    if !text.starts_with('-') || text == "-" || is_number || find(parser, flag).is_some() {
        return None;
    }
    let name = flag.split_once('=').map_or(flag, |(name, _)| name);
    let (is_joined, spelling) = match text.strip_prefix("--") {
        Some(_) => (false, name),
        None => (text.chars().count() > 2, text),
    };
    (is_joined || reference_flags::is_known(spelling)).then(|| spelling.to_owned())
}

/// The parser's argument that a flag, `--long`, `--long=value` or `-s`, stands for.
pub fn find<'a>(parser: &'a clap::Command, flag: &str) -> Option<&'a clap::Arg> {
    let long = flag.strip_prefix("--");
    let long = long.map(|long| long.split_once('=').map_or(long, |(name, _)| name));
    let matches = |argument: &&clap::Arg| match long {
        Some(long) => {
            argument.get_long() == Some(long)
                || argument
                    .get_all_aliases()
                    .is_some_and(|aliases| aliases.contains(&long))
        }
        None => {
            let mut letters = flag.strip_prefix('-').unwrap_or_default().chars();
            let (letter, rest) = (letters.next(), letters.next());
            rest.is_none()
                && letter.is_some_and(|letter| {
                    argument.get_short() == Some(letter)
                        || argument
                            .get_all_short_aliases()
                            .is_some_and(|aliases| aliases.contains(&letter))
                })
        }
    };
    parser.get_arguments().find(matches)
}

/// How many of the following arguments are values of this flag.
fn n_values(parser: &clap::Command, flag: &str) -> usize {
    find(parser, flag)
        .filter(|argument| !flag.contains('=') && argument.get_action().takes_values())
        .map_or(0, |argument| {
            argument
                .get_num_args()
                .map_or(1, |range| range.min_values())
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normalised(line: &str) -> String {
        try_normalised(line).expect("every flag is known")
    }

    fn try_normalised(line: &str) -> Result<String, clap::Error> {
        let parser = clap::Command::new("gristmill").subcommand(
            clap::Command::new("run")
                .arg(clap::Arg::new("prompt").short('p').long("prompt"))
                .arg(clap::Arg::new("no-conversation").long("no-conversation"))
                .arg(
                    clap::Arg::new("gpu-layers")
                        .long("gpu-layers")
                        .alias("n-gpu-layers"),
                ),
        );
        let argv: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let argv = normalise(&argv, &parser)?;
        let words: Vec<_> = argv.iter().map(|word| word.to_string_lossy()).collect();
        Ok(words.join(" "))
    }

    #[test]
    fn flags_are_never_taken_apart() {
        for line in [
            "run -hf x",
            "run -pc",
            "run -p4",
            "run -lv 4",
            "-hf x",
            "run --lora x",
        ] {
            let error = try_normalised(&format!("gristmill {line}")).expect_err(line);
            assert_eq!(error.kind(), ErrorKind::UnknownArgument, "{line}");
        }
        // Numbers, a lone dash and what the parser answers better.
        for line in [
            "run -1",
            "run -0.5",
            "run -",
            "run --frobnicate",
            "run -z",
            "run -h",
        ] {
            assert!(
                try_normalised(&format!("gristmill {line}")).is_ok(),
                "{line}"
            );
        }
    }

    #[test]
    fn single_dash_flags_become_long() {
        assert_eq!(
            normalised("gristmill run -ngl 99 -no-cnv"),
            "gristmill run --gpu-layers 99 --no-conversation"
        );
    }

    #[test]
    fn underscores_become_dashes_in_names_only() {
        assert_eq!(
            normalised("gristmill run --gpu_layers=a_b"),
            "gristmill run --gpu-layers=a_b"
        );
        assert_eq!(
            normalised("gristmill run --n_gpu_layers a_b"),
            "gristmill run --n-gpu-layers a_b"
        );
    }

    #[test]
    fn values_stay() {
        assert_eq!(
            normalised("gristmill run -p -ngl --prompt -st"),
            "gristmill run -p -ngl --prompt -st"
        );
        assert_eq!(
            normalised("gristmill run -- -ngl --a_b"),
            "gristmill run -- -ngl --a_b"
        );
    }

    /// `docs/flags.md` lists the reference's flags by command, those that are supported and those that are not.
    #[test]
    fn the_guide_tells_the_truth_about_flags() {
        let guide = include_str!("../docs/flags.md");
        let mut n_flags = 0;
        for section in guide.split("\n## ").skip(1) {
            let (name, text) = section.split_once('\n').expect("a section has a title");
            let name = name.trim_matches('`');
            let program = crate::cmd::parser();
            let parser = program.find_subcommand(name).expect("a command");
            for line in text.lines() {
                let supported = match line.split_once(':') {
                    Some(("Supported" | "Accepted, without effect", _)) => true,
                    Some(("Not supported yet", _)) => false,
                    _ => continue,
                };
                for flag in line.split('`').skip(1).step_by(2) {
                    let long = normalise_flag(flag);
                    let found = find(parser, &long).is_some()
                        || ["-h", "--help", "--version"].contains(&flag);
                    assert_eq!(found, supported, "{name} {flag}");
                    assert!(
                        reference_flags::is_known(flag) || supported,
                        "{name} {flag}"
                    );
                    n_flags += 1;
                }
            }
        }
        assert!(n_flags > 200, "{n_flags} flags are listed");
    }

    #[test]
    fn the_table_is_sorted() {
        assert!(FLAGS.is_sorted());
    }
}
