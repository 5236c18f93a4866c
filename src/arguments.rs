//! The reference's spelling of flags, turned into what the parser understands: single-dash flags of several letters
//! (`-ngl 99`) become long ones, and underscores in long flags become dashes.

use std::ffi::{OsStr, OsString};

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
pub fn normalise(argv: &[OsString], parser: &clap::Command) -> Vec<OsString> {
    let mut parser = parser;
    let mut out: Vec<OsString> = Vec::with_capacity(argv.len());
    let mut values_left = 0;
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
        let argument = text.map_or_else(|| argument.clone(), |text| normalise_flag(text).into());
        if let Some(command) = parser.find_subcommand(&argument) {
            parser = command;
        }
        values_left = n_values(parser, &argument);
        out.push(argument);
    }
    out
}

fn normalise_flag(text: &str) -> String {
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

/// How many of the following arguments are values of this flag.
fn n_values(parser: &clap::Command, flag: &OsStr) -> usize {
    let Some(flag) = flag.to_str() else { return 0 };
    let matches = |argument: &&clap::Arg| match flag.strip_prefix("--") {
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
    parser
        .get_arguments()
        .find(matches)
        .filter(|argument| argument.get_action().takes_values())
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
        let parser = clap::Command::new("gristmill").subcommand(
            clap::Command::new("run")
                .arg(clap::Arg::new("prompt").short('p').long("prompt"))
                .arg(
                    clap::Arg::new("gpu-layers")
                        .long("gpu-layers")
                        .alias("n-gpu-layers"),
                ),
        );
        let argv: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let argv = normalise(&argv, &parser);
        argv.iter()
            .map(|argument| argument.to_string_lossy())
            .collect::<Vec<_>>()
            .join(" ")
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

    #[test]
    fn the_table_is_sorted() {
        assert!(FLAGS.is_sorted());
    }
}
