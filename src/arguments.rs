//! The reference's spelling of flags, turned into what the parser understands: single-dash flags of several letters
//! (`-ngl 99`) become long ones, and underscores in long flags become dashes.

use std::ffi::OsString;
use std::sync::OnceLock;

use clap::error::ErrorKind;

use crate::reference_flags;

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
        let flag = normalise_flag(parser, text);
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
fn normalise_flag(parser: &clap::Command, text: &str) -> String {
    if text.starts_with("--") {
        return with_dashes(text);
    }
    let has = |long: &&str| {
        parser
            .get_arguments()
            .any(|argument| argument.get_long() == Some(*long))
    };
    match reference_flags::long_of(text).filter(has) {
        Some(long) => format!("--{long}"),
        None => text.to_owned(),
    }
}

/// A long flag with dashes for underscores; its value stays.
fn with_dashes(flag: &str) -> String {
    let at = flag.find('=').unwrap_or(flag.len());
    format!("{}{}", flag[..at].replace('_', "-"), &flag[at..])
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

/// The words that are parsed.
static WORDS: OnceLock<Vec<OsString>> = OnceLock::new();

/// Keeps the words that are parsed, those of the environment among them.
pub fn keep(argv: &[OsString]) {
    // They are parsed once.
    let _ = WORDS.set(argv.to_vec());
}

/// The words behind the program's name, those of the environment among them.
pub fn words() -> &'static [OsString] {
    WORDS.get().and_then(|words| words.get(1..)).unwrap_or(&[])
}

/// The parser's argument that a flag, `--long`, `--long=value`, `-s` or `-several`, stands for.
pub fn find<'a>(parser: &'a clap::Command, flag: &str) -> Option<&'a clap::Arg> {
    let flag = &normalise_flag(parser, flag);
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
            "run --mmproj x",
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
        let mut sections = guide.split("\n## ");
        let intro = sections.next().expect("the guide has a beginning");
        let truth: Vec<String> = sections.map(true_section).collect();
        let truth = format!("{intro}\n## {}", truth.join("\n## "));
        if std::env::var_os("GRISTMILL_UPDATE").is_some() {
            let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/flags.md");
            std::fs::write(path, truth).expect("the guide can be written");
            return;
        }
        assert!(
            guide == truth,
            "flags stand in the wrong list of docs/flags.md: `GRISTMILL_UPDATE=1 cargo test --bin gristmill the_guide` \
             moves them"
        );
        assert!(guide.matches("`-").count() > 200, "few flags are listed");
    }

    /// A section of the guide with each flag in the list where it belongs. What else stands there stays as it is, also
    /// behind a list.
    fn true_section(section: &str) -> String {
        let (name, text) = section.split_once('\n').expect("a section has a title");
        let program = crate::cmd::parser();
        let parser = program.find_subcommand(name.trim_matches('`'));
        let parser = parser.unwrap_or_else(|| panic!("{name} is no command"));
        let lines: Vec<&str> = text.lines().collect();
        let items = |list: &str| -> Vec<&str> {
            let lists = lines.iter().filter_map(|line| items_of(line, list));
            lists.flat_map(|(items, _)| items).collect()
        };
        let belongs = |list: &str, item: &str| list_of(parser, item) == list;
        let mut shown: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
        for list in LISTS {
            let others = LISTS.iter().filter(|other| **other != list);
            let mut moved: Vec<&str> = others
                .flat_map(|other| items(other))
                .filter(|item| belongs(list, item))
                .collect();
            for (line, shown) in lines.iter().zip(&mut shown) {
                if let Some((mut items, remark)) = items_of(line, list) {
                    items.retain(|item| belongs(list, item));
                    items.append(&mut moved);
                    *shown = line_of(list, items, remark);
                }
            }
            if !moved.is_empty() {
                shown.extend([String::new(), line_of(list, moved, "")]);
            }
        }
        format!("{name}\n{}\n", shown.join("\n"))
    }

    const LISTS: [&str; 3] = ["Supported", "Accepted, without effect", "Not supported yet"];

    /// The list that these spellings of a flag belong to: help puts what has no effect under a heading of its own.
    fn list_of(parser: &clap::Command, item: &str) -> &'static str {
        let mut flags = item.split('`').skip(1).step_by(2);
        let has_no_effect = |flag| {
            let heading = find(parser, flag).and_then(clap::Arg::get_help_heading);
            heading.is_some_and(|heading| heading.to_lowercase().contains("accepted"))
        };
        match (is_supported(parser, item), flags.all(has_no_effect)) {
            (false, _) => LISTS[2],
            (true, true) => LISTS[1],
            (true, false) => LISTS[0],
        }
    }

    /// Whether a command has the flag that these spellings stand for.
    fn is_supported(parser: &clap::Command, item: &str) -> bool {
        let name = parser.get_name();
        let flags: Vec<&str> = item.split('`').skip(1).step_by(2).collect();
        let known = |flag: &&str| ["-h", "--help", "--version"].contains(flag);
        let supported = |flag: &&str| find(parser, flag).is_some() || known(flag);
        let n_supported = flags.iter().copied().filter(|flag| supported(flag)).count();
        assert!(
            [0, flags.len()].contains(&n_supported),
            "{name}: part of {item} is supported"
        );
        let stranger = flags
            .iter()
            .find(|flag| !supported(flag) && !reference_flags::is_known(flag));
        assert_eq!(stranger, None, "{name}: no flag of the reference");
        n_supported > 0
    }

    /// The items of a line that is this list, and the remark behind them; spellings of one flag are one item.
    fn items_of<'a>(line: &'a str, list: &str) -> Option<(Vec<&'a str>, &'a str)> {
        let text = line.strip_prefix(list)?.strip_prefix(": ")?;
        let (items, remark) = text.split_once(". ").unwrap_or((text, ""));
        let end = items.trim_end_matches('.');
        assert!(
            end.len() < items.len() || !remark.is_empty(),
            "{list}: the list ends with a full stop on its line"
        );
        let items = end.split(", ").filter(|item| *item != "none");
        Some((items.collect(), remark))
    }

    /// A line that is a list.
    fn line_of(list: &str, mut items: Vec<&str>, remark: &str) -> String {
        items.sort_unstable();
        let items = match items.is_empty() {
            true => "none".to_owned(),
            false => items.join(", "),
        };
        format!("{list}: {items}. {remark}").trim_end().to_owned()
    }

    #[test]
    fn flags_of_the_guide_move_and_all_else_stays() {
        let before = "`tokenize`\n\nSupported: `--docker-repo`, `--stdin`, `--ids`. A remark, with a comma.\n\nA line beside.\n\n\
                      Supported: `--no-bos` (a note), `-e` `--escape`.\n";
        let after = "`tokenize`\n\nSupported: `--ids`, `--stdin`. A remark, with a comma.\n\nA line beside.\n\n\
                     Supported: `--no-bos` (a note).\n\nNot supported yet: `--docker-repo`, `-e` `--escape`.\n";
        assert_eq!(true_section(before), after);
        assert_eq!(true_section(after), after);
        assert_eq!(
            true_section("`tokenize`\nNot supported yet: `--ids`.\nSupported: none.\n"),
            "`tokenize`\nNot supported yet: none.\nSupported: `--ids`.\n"
        );
    }
}
