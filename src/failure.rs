//! How an error reaches the reader: `error: …`, and `hint: …` where a remedy is known, on standard error.

use std::fmt;
use std::io;
use std::process::ExitCode;

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
    if error.is::<io::Error>() && error.chain().count() == 1 {
        // Errors of files come with the file's name; what comes without one is standard output.
        causes.insert(0, "standard output cannot be written".into());
        hint = Some("free some space where it leads to, or send it elsewhere".into());
    }
    say!("error: {}", causes.join(": "));
    if let Some(hint) = hint {
        say!("hint: {hint}");
    }
    ExitCode::FAILURE
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
    .or_else(|| {
        cause
            .downcast_ref::<gristmill_measure::MeasureError>()?
            .hint()
            .map(String::from)
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

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause
            .downcast_ref::<io::Error>()
            .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    })
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
