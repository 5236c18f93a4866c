//! What can go wrong with a template.

/// An error of this crate. Lines count from 1 in the template; 0 where none is known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TemplateError {
    /// The text is no template that can be run.
    #[error("line {line}: {message}")]
    Syntax {
        /// Where.
        line: usize,
        /// What is not understood there.
        message: String,
    },
    /// An operation on values that cannot be done.
    #[error("line {line}: {message}")]
    Operation {
        /// Where.
        line: usize,
        /// What was tried on what.
        message: String,
    },
    /// The template called `raise_exception`.
    #[error("{message}")]
    Refused {
        /// The template's own words.
        message: String,
    },
    /// The template is at work for too long.
    #[error("line {line}: the template takes too many steps, more than {limit}")]
    Steps {
        /// Where the last step was.
        line: usize,
        /// Steps of one rendering.
        limit: u64,
    },
    /// The template holds too much.
    #[error("line {line}: the template takes more than {limit} bytes of memory")]
    Memory {
        /// Where the memory was asked for.
        line: usize,
        /// Bytes of one rendering: a fixed part, and a multiple of the input's size.
        limit: usize,
    },
    /// Calls, or values in values, go too deep.
    #[error("line {line}: {what} nested too deeply, more than {limit} levels")]
    Depth {
        /// Where.
        line: usize,
        /// What is nested.
        what: &'static str,
        /// Levels.
        limit: usize,
    },
}

impl TemplateError {
    /// An operation that cannot be done; the renderer adds the line.
    pub(crate) fn operation(message: impl Into<String>) -> Self {
        TemplateError::Operation {
            line: 0,
            message: message.into(),
        }
    }

    /// Gives the error a line, unless a place further inside has done so.
    pub(crate) fn at(mut self, place: usize) -> Self {
        match &mut self {
            TemplateError::Syntax { line, .. }
            | TemplateError::Operation { line, .. }
            | TemplateError::Steps { line, .. }
            | TemplateError::Memory { line, .. }
            | TemplateError::Depth { line, .. } => {
                if *line == 0 {
                    *line = place;
                }
            }
            TemplateError::Refused { .. } => {}
        }
        self
    }

    /// The line, 0 if unknown.
    pub fn line(&self) -> usize {
        match self {
            TemplateError::Syntax { line, .. }
            | TemplateError::Operation { line, .. }
            | TemplateError::Steps { line, .. }
            | TemplateError::Memory { line, .. }
            | TemplateError::Depth { line, .. } => *line,
            TemplateError::Refused { .. } => 0,
        }
    }

    /// The error without its line.
    pub fn message(&self) -> String {
        match self {
            TemplateError::Syntax { message, .. }
            | TemplateError::Operation { message, .. }
            | TemplateError::Refused { message } => message.clone(),
            other => {
                let text = other.to_string();
                match text.split_once(": ") {
                    Some((_, message)) => message.to_owned(),
                    None => text,
                }
            }
        }
    }

    /// What to do about it: one sentence for a `hint:` line.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            TemplateError::Refused { .. } => None,
            TemplateError::Steps { .. } | TemplateError::Memory { .. } => Some(
                "templates have a budget, since they come with models of any origin: use another template",
            ),
            _ => Some("use another template, or correct this one"),
        }
    }
}

/// What most functions here give.
pub(crate) type Result<T> = std::result::Result<T, TemplateError>;
