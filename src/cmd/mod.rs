//! The registry of commands. To add one, write `cmd/<command>.rs` with a type that implements [`Run`], and add its
//! module and its line below; help, links and the tests loop over the registry.

mod check;
mod convert;
mod convert_lora;
mod demo;
mod diff;
mod edit;
mod embed;
mod endian;
mod estimate;
mod export;
mod hash;
mod inspect;
mod links;
mod list;
mod logits;
mod merge;
mod perplexity;
mod pipeline;
mod pull;
mod quantize;
mod rerank;
mod run;
mod split;
mod tokenize;

use std::ffi::OsString;
use std::sync::OnceLock;

use clap::ArgMatches;

/// Every command, in alphabetical order.
#[rustfmt::skip]
pub const COMMANDS: &[Command] = &[
    Command::of::<check::Check>(),
    Command::of::<convert::Convert>(),
    Command::of::<convert_lora::ConvertLora>(),
    Command::of::<demo::Demo>(),
    Command::of::<diff::Diff>(),
    Command::of::<edit::Edit>(),
    Command::of::<embed::Embed>(),
    Command::of::<endian::Endian>(),
    Command::of::<estimate::Estimate>(),
    Command::of::<export::Export>(),
    Command::of::<hash::Hash>(),
    Command::of::<inspect::Inspect>(),
    Command::of::<links::Links>(),
    Command::of::<list::List>(),
    Command::of::<logits::Logits>(),
    Command::of::<merge::Merge>(),
    Command::of::<perplexity::Perplexity>(),
    Command::of::<pipeline::Pipeline>(),
    Command::of::<pull::Pull>(),
    Command::of::<quantize::Quantize>(),
    Command::of::<rerank::Rerank>(),
    Command::of::<run::Run>(),
    Command::of::<split::Split>(),
    Command::of::<tokenize::Tokenize>(),
];

/// How the program was called.
pub struct Invocation {
    /// The reference's name (`llama-quantize`), where it was called through a link of that name.
    pub reference: Option<&'static str>,
}

/// A command: its arguments are the fields of the implementing type.
pub trait Run: clap::Args {
    /// The name, as typed.
    const NAME: &'static str;
    /// What it does, in one line.
    const ABOUT: &'static str;
    /// Command lines to start from, one per line, each `gristmill …`; shown at the end of `--help`, under a reference's
    /// name with that name.
    const EXAMPLES: &'static str;
    /// The reference's names that this command answers to through a link.
    const REFERENCE_NAMES: &'static [&'static str] = &[];

    /// The exit code of `--help` under a reference's name, where that is not 0.
    const REFERENCE_HELP_CODE: u8 = 0;

    /// The exit code of wrong usage under a reference's name.
    const REFERENCE_USAGE_CODE: u8 = 1;

    /// Whether there is nothing to do without the model that it can name.
    const NEEDS_MODEL: bool = true;

    /// More for the end of `--help`, such as a list made from a registry.
    fn more_help() -> String {
        String::new()
    }

    /// Does the work: results to standard output (through a `Write`, so that a closed pipe is an ordinary error),
    /// everything else to standard error.
    fn run(self, invocation: &Invocation) -> anyhow::Result<()>;
}

/// An entry of the registry.
pub struct Command {
    pub name: &'static str,
    about: &'static str,
    examples: &'static str,
    pub reference_names: &'static [&'static str],
    pub reference_help_code: u8,
    pub reference_usage_code: u8,
    needs_model: bool,
    more_help: fn() -> String,
    augment: fn(clap::Command) -> clap::Command,
    pub run: fn(&ArgMatches, &Invocation) -> anyhow::Result<()>,
}

impl Command {
    const fn of<R: Run>() -> Self {
        Command {
            name: R::NAME,
            about: R::ABOUT,
            examples: R::EXAMPLES,
            reference_names: R::REFERENCE_NAMES,
            reference_help_code: R::REFERENCE_HELP_CODE,
            reference_usage_code: R::REFERENCE_USAGE_CODE,
            needs_model: R::NEEDS_MODEL,
            more_help: R::more_help,
            augment: R::augment_args,
            run: |matches, invocation| R::from_arg_matches(matches)?.run(invocation),
        }
    }

    /// The command's parser under `name`, its own or a reference's.
    pub fn parser(&self, name: &'static str) -> clap::Command {
        let own = format!("gristmill {} ", self.name);
        let typed = match name == self.name {
            true => own.clone(),
            false => format!("{name} "),
        };
        let examples: Vec<String> = self
            .examples
            .trim()
            .lines()
            .map(|line| format!("  {}", line.trim().replace(&own, &typed)))
            .collect();
        // The doc comment of the arguments' type would become the description; ours comes after it and wins.
        (self.augment)(clap::Command::new(name))
            .about(self.about)
            .long_about(None)
            .version(crate::version::text())
            .allow_negative_numbers(true)
            // As for the reference, the last one counts: scripts add flags to a line of defaults.
            .args_override_self(true)
            .mut_args(with_several_letters)
            .mut_args(|argument| match self.needs_model {
                true => crate::model_path::required(argument),
                false => argument,
            })
            .next_line_help(help_columns() < HELP_COLUMNS_MIN)
            .after_help(format!(
                "Examples:\n{}{}",
                examples.join("\n"),
                (self.more_help)()
            ))
    }
}

/// The argument, its form of several letters behind one dash added to its help.
fn with_several_letters(argument: clap::Arg) -> clap::Arg {
    let form = crate::reference_flags::several_letters(&argument);
    match (form, argument.get_help()) {
        (Some(form), Some(help)) => {
            let help = format!("{help} ({form})");
            argument.help(help)
        }
        _ => argument,
    }
}

/// The least width of help with flags and what they do side by side.
const HELP_COLUMNS_MIN: usize = 60;

/// How wide the parser's help is, by its own measure of the terminal.
fn help_columns() -> usize {
    static COLUMNS: OnceLock<usize> = OnceLock::new();
    *COLUMNS.get_or_init(|| {
        let mut ruler = clap::Command::new("ruler").about("x ".repeat(HELP_COLUMNS_MIN));
        let help = ruler.render_help().to_string();
        // The last column may stay empty.
        1 + help.lines().map(str::len).max().unwrap_or_default()
    })
}

/// The parser of the whole program.
pub fn parser() -> clap::Command {
    clap::Command::new("gristmill")
        .about("The GGUF toolchain: convert, quantize, inspect and run models")
        .version(crate::version::text())
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands(COMMANDS.iter().map(|command| command.parser(command.name)))
}

/// The names of the commands that have a flag.
pub fn names_with(flag: &str) -> Vec<&'static str> {
    let has =
        |command: &&Command| crate::arguments::find(&command.parser(command.name), flag).is_some();
    COMMANDS
        .iter()
        .filter(has)
        .map(|command| command.name)
        .collect()
}

/// Runs the command that [`parser`] found.
pub fn dispatch(matches: &ArgMatches) -> anyhow::Result<()> {
    // The parser was built from the same registry and requires a command, so one is always found.
    let found = matches.subcommand().and_then(|(name, matches)| {
        let command = COMMANDS.iter().find(|command| command.name == name)?;
        Some((command, matches))
    });
    match found {
        Some((command, matches)) => (command.run)(matches, &Invocation { reference: None }),
        None => Ok(()),
    }
}

/// Runs one command line (without the program's name) inside this process.
pub fn run_line(line: &[&str]) -> anyhow::Result<()> {
    let argv: Vec<OsString> = std::iter::once(&"gristmill")
        .chain(line)
        .map(OsString::from)
        .collect();
    let parser = parser();
    let argv = crate::arguments::normalise(&argv, &parser)?;
    dispatch(&parser.try_get_matches_from(argv)?)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use gristmill_engine::sampling::parameter;

    use super::*;

    /// Splits a line at spaces outside of single quotes.
    fn words(line: &str) -> Vec<OsString> {
        let mut words = vec![String::new()];
        let mut quoted = false;
        for c in line.chars() {
            match c {
                '\'' => quoted = !quoted,
                ' ' if !quoted => words.push(String::new()),
                c => words.last_mut().expect("there is a word").push(c),
            }
        }
        words.into_iter().map(OsString::from).collect()
    }

    #[test]
    fn every_example_parses_as_its_own_command() {
        for command in COMMANDS {
            let examples = command.examples.trim().lines().map(str::trim);
            assert!(
                examples.clone().count() > 0,
                "{} has no example",
                command.name
            );
            for example in examples {
                let start = example
                    .find("gristmill ")
                    .expect("an example calls gristmill");
                let argv = crate::arguments::normalise(&words(&example[start..]), &parser());
                let matches = argv.and_then(|argv| parser().try_get_matches_from(argv));
                let matches = matches.unwrap_or_else(|error| panic!("{example}: {error}"));
                assert_eq!(matches.subcommand_name(), Some(command.name), "{example}");
            }
        }
    }

    /// The words of all tests of the binary, comments left out.
    fn words_of_tests() -> BTreeSet<String> {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/main");
        let files = std::fs::read_dir(folder).expect("the folder of tests can be read");
        let texts = files.map(|file| {
            let path = file.expect("a file can be listed").path();
            std::fs::read_to_string(path).expect("a test can be read")
        });
        let is_end = |c: char| !(c.is_ascii_alphanumeric() || c == '-');
        let words_of = |text: String| {
            let lines = text
                .lines()
                .filter(|line| !line.trim_start().starts_with("//"));
            lines
                .flat_map(|line| line.split(is_end))
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        texts.flat_map(words_of).collect()
    }

    /// All spellings of a flag; none for what is no flag.
    fn spellings(argument: &clap::Arg) -> Vec<String> {
        let longs = argument
            .get_long_and_visible_aliases()
            .into_iter()
            .flatten();
        let hidden = argument.get_aliases().into_iter().flatten();
        let shorts = argument
            .get_short_and_visible_aliases()
            .into_iter()
            .flatten();
        let several = crate::reference_flags::several_letters(argument);
        let longs = longs.chain(hidden).map(|long| format!("--{long}"));
        let shorts = shorts.map(|short| format!("-{short}"));
        longs
            .chain(shorts)
            .chain(several.map(str::to_owned))
            .collect()
    }

    /// Those of samplers come from the registry; `tests/main/sampling.rs` walks it.
    #[test]
    fn every_flag_stands_in_a_test() {
        let words = words_of_tests();
        let mut untested = BTreeSet::new();
        for command in COMMANDS {
            let parser = command.parser(command.name);
            for argument in parser.get_arguments() {
                let spellings = spellings(argument);
                let heading = argument.get_help_heading();
                let has_effect = heading.is_none_or(|heading| !heading.starts_with("Accepted"));
                let is_parameter = argument
                    .get_long()
                    .is_some_and(|long| parameter(long).is_some());
                let is_tested = spellings.iter().any(|flag| words.contains(flag)) || is_parameter;
                if has_effect && !spellings.is_empty() && !is_tested {
                    untested.insert(format!("{} {}", command.name, spellings[0]));
                }
            }
        }
        assert_eq!(
            untested,
            BTreeSet::new(),
            "no file of tests/main names these flags"
        );
    }

    #[test]
    fn commands_are_sorted_and_answer_to_one_reference_name_each() {
        assert!(COMMANDS.is_sorted_by_key(|command| command.name));
        let mut names: Vec<&str> = COMMANDS
            .iter()
            .flat_map(|command| command.reference_names)
            .copied()
            .collect();
        let n_names = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), n_names);
    }
}
