//! How an error reaches the reader: `error: …`, and `hint: …` where a remedy is known, on standard error.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, Write as _};
use std::num::{IntErrorKind, ParseIntError};
use std::process::ExitCode;
use std::sync::OnceLock;

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::display::printable;

/// A remedy, attached to an error by `error.context(Hint::new("…"))`.
#[derive(Debug)]
pub struct Hint(String);

impl Hint {
    /// A remedy in one sentence, without a trailing full stop.
    pub fn new(text: impl Into<String>) -> Self {
        Hint(text.into())
    }
}

impl fmt::Display for Hint {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An exit code without a message, for what is no failure (two models differ) or was told already.
#[derive(Debug)]
pub struct Exit(pub u8);

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "exit code {}", self.0)
    }
}

impl std::error::Error for Exit {}

/// Prints the error with its remedy and gives the exit code: 1, or a quiet 0 where the reader of our output has gone.
pub fn report(error: &anyhow::Error) -> ExitCode {
    if is_broken_pipe(error) {
        return ExitCode::SUCCESS;
    }
    if let Some(Exit(code)) = error.downcast_ref() {
        return ExitCode::from(*code);
    }
    print(error);
    ExitCode::FAILURE
}

/// Prints the error with its remedy.
pub fn print(error: &anyhow::Error) {
    crate::interrupt::wait_if_leaving();
    let mut hint = hint(error);
    let mut causes: Vec<String> = Vec::new();
    for cause in error.chain().map(ToString::to_string) {
        if hint.as_ref() == Some(&cause) {
            // The remedy has its own line.
            continue;
        }
        if causes
            .last()
            .is_some_and(|above| names_same_file(above, &cause))
        {
            causes.pop();
        }
        if !causes.last().is_some_and(|above| above.contains(&cause)) {
            causes.push(cause);
        }
    }
    if causes.iter().any(|cause| cause.contains("standard output")) {
        let of_output = "free some space where standard output leads to, or send it elsewhere";
        hint.get_or_insert_with(|| of_output.into());
    }
    say!("error: {}", causes.join(": "));
    if let Some(hint) = hint {
        say!("hint: {}", as_called(hint));
    }
}

/// Under a reference's name: how a command is called elsewhere, and that name.
static CALLED: OnceLock<(String, &str)> = OnceLock::new();

/// Remedies name a command as it was called: by this name of the reference.
pub fn call_by_reference(command: &str, name: &'static str) {
    // It is set once, at the start.
    let _ = CALLED.set((format!("gristmill {command}"), name));
}

fn as_called(hint: String) -> String {
    match CALLED.get() {
        Some((own, name)) => hint.replace(own, name),
        None => hint,
    }
}

/// Prints the parser's message. Words of the command line in it stay on their line and do not steer the terminal.
pub fn print_usage(mut error: clap::Error) -> io::Result<()> {
    let words: Vec<(ContextKind, ContextValue)> = error
        .context()
        .filter_map(|(kind, value)| Some((kind, printable_words(value)?)))
        .collect();
    for (kind, value) in words {
        error.insert(kind, value);
    }
    drop_far_suggestions(&mut error);
    name_ways_to_a_model(&mut error);
    // What a check of a value says is no part of the context.
    let source = std::error::Error::source(&error);
    let reason = source.map(|source| (source.to_string(), in_words(source)));
    match reason.filter(|(reason, words)| reason != words) {
        None => error.print(),
        Some((reason, words)) => {
            // The parser drops what steers a terminal, but keeps line breaks.
            let shown = StyledStr::from(&reason).to_string();
            let text = error.render().to_string();
            let text = text.replace(&shown, &words);
            io::stderr().write_all(text.as_bytes())
        }
    }
}

/// Prints what a command can do, for somebody who gave it nothing.
pub fn print_help(parser: &mut clap::Command) {
    // Where that cannot be written, the exit code says enough.
    let _ = write!(io::stderr(), "\n{}", parser.render_help());
}

/// Why a value is wrong, in words for people and safe to print.
fn in_words(reason: &(dyn std::error::Error + 'static)) -> String {
    match reason.downcast_ref().map(ParseIntError::kind) {
        Some(IntErrorKind::PosOverflow | IntErrorKind::NegOverflow) => {
            "the number is out of range".to_owned()
        }
        Some(_) => "it must be a whole number".to_owned(),
        None => printable(&reason.to_string()).into_owned(),
    }
}

/// What commands are called elsewhere.
const OTHER_NAMES: &[(&str, &str)] = &[
    ("chat", "run"),
    ("cli", "run"),
    ("complete", "run"),
    ("completion", "run"),
    ("generate", "run"),
    ("download", "pull"),
    ("embedding", "embed"),
    ("show", "inspect"),
    ("dump", "inspect"),
];

/// The parser proposes flags as values, which nobody means, and commands that only sound a little like the word.
fn drop_far_suggestions(error: &mut clap::Error) {
    if error.kind() == ErrorKind::UnknownArgument {
        error.remove(ContextKind::Suggested);
    }
    let initial = |value: Option<&ContextValue>| match value {
        Some(ContextValue::String(text)) => text.chars().next(),
        Some(ContextValue::Strings(texts)) => texts.first().and_then(|text| text.chars().next()),
        _ => None,
    };
    let typed = initial(error.get(ContextKind::InvalidSubcommand));
    if typed.is_some() && typed != initial(error.get(ContextKind::SuggestedSubcommand)) {
        error.remove(ContextKind::SuggestedSubcommand);
    }
    if let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidSubcommand)
        && let Some((_, meant)) = OTHER_NAMES.iter().find(|(name, _)| name == typed)
    {
        let meant = ContextValue::Strings(vec![(*meant).to_owned()]);
        error.insert(ContextKind::SuggestedSubcommand, meant);
    }
}

/// A model can be named in more ways than by the word that the parser misses.
fn name_ways_to_a_model(error: &mut clap::Error) {
    if error.kind() != ErrorKind::MissingRequiredArgument {
        return;
    }
    let Some(ContextValue::Strings(names)) = error.get(ContextKind::InvalidArg) else {
        return;
    };
    let named = names.iter().map(|name| match name.as_str() {
        "<MODEL>" => "<MODEL>, or -m FILE, -hf USER/REPO[:QUANT] or -mu URL".to_owned(),
        name => name.to_owned(),
    });
    let named = ContextValue::Strings(named.collect());
    error.insert(ContextKind::InvalidArg, named);
}

/// The same words, printable; none where they are already.
fn printable_words(value: &ContextValue) -> Option<ContextValue> {
    let changed = |text: &String| match printable(text) {
        Cow::Borrowed(_) => None,
        Cow::Owned(text) => Some(text),
    };
    let styled = |text: &StyledStr| changed(&text.to_string()).map(StyledStr::from);
    match value {
        ContextValue::String(text) => changed(text).map(ContextValue::String),
        ContextValue::Strings(texts) => {
            let texts = texts.iter().map(|text| printable(text).into_owned());
            Some(ContextValue::Strings(texts.collect()))
        }
        // The usage is the parser's own text, of several lines.
        ContextValue::StyledStrs(texts) => {
            let texts = texts
                .iter()
                .map(|text| styled(text).unwrap_or_else(|| text.clone()));
            Some(ContextValue::StyledStrs(texts.collect()))
        }
        _ => None,
    }
}

/// Whether a cause begins with the file that the context above it names, and so says it all.
fn names_same_file(above: &str, cause: &str) -> bool {
    let file = above.split_once(": ").map_or(above, |(file, _)| file);
    cause
        .strip_prefix(file)
        .is_some_and(|rest| rest.starts_with([':', '/']))
}

fn hint(error: &anyhow::Error) -> Option<String> {
    let own = error.downcast_ref::<Hint>().map(|hint| hint.0.clone());
    own.or_else(|| error.chain().find_map(remedy))
        .or_else(|| error.chain().find_map(remedy_of_system))
}

/// The remedy for what the system says of a file.
fn remedy_of_system(cause: &(dyn std::error::Error + 'static)) -> Option<String> {
    let remedy = match cause.downcast_ref::<io::Error>()?.kind() {
        io::ErrorKind::NotFound => "check the path",
        io::ErrorKind::PermissionDenied => "check who may read it, and write to its folder",
        io::ErrorKind::IsADirectory => "name a file, not a folder",
        _ => return None,
    };
    Some(remedy.to_owned())
}

/// The remedy that a library's error knows.
fn remedy(cause: &(dyn std::error::Error + 'static)) -> Option<String> {
    // One line per library; an error that holds another library's asks it.
    None.or_else(|| {
        cause
            .downcast_ref::<gristmill_pipeline::PipelineError>()?
            .hint()
    })
    .or_else(|| {
        cause
            .downcast_ref::<gristmill_convert::ConvertError>()?
            .hint()
    })
    .or_else(|| cause.downcast_ref::<gristmill_hub::HubError>()?.hint())
    .or_else(|| {
        cause
            .downcast_ref::<gristmill_measure::MeasureError>()?
            .hint()
    })
    .or_else(|| {
        cause
            .downcast_ref::<gristmill_engine::EngineError>()?
            .hint()
    })
    .or_else(|| {
        cause
            .downcast_ref::<gristmill_tokenizer::TokenizerError>()?
            .hint()
            .map(String::from)
    })
    .or_else(|| {
        cause
            .downcast_ref::<gristmill_gguf::Error>()?
            .hint()
            .map(String::from)
    })
}

/// Whether the reader of our output has gone.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let kind = |cause: &(dyn std::error::Error + 'static)| {
        let of_json = || cause.downcast_ref::<serde_json::Error>()?.io_error_kind();
        let own = cause.downcast_ref::<io::Error>().map(io::Error::kind);
        own.or_else(of_json)
    };
    error
        .chain()
        .any(|cause| kind(cause) == Some(io::ErrorKind::BrokenPipe))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_named_once() {
        assert!(names_same_file(
            "a.gguf: cannot load it",
            "a.gguf: is an adapter"
        ));
        assert!(names_same_file("dir", "dir/config.json: broken"));
        assert!(!names_same_file("a.gguf: cannot load it", "tensor missing"));
        assert!(!names_same_file("a", "ab: broken"));
    }
}
