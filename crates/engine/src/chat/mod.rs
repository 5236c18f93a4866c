//! Chat templates: a conversation becomes the text that the model was trained on.
//!
//! Templates are Jinja as Python's `transformers` runs it. They come with models, so from anyone: the crate that runs
//! them bounds their time, their memory and their depth.

mod builtin;
mod clock;
mod guard;
mod message;

pub use builtin::{BUILTIN_TEMPLATES, builtin};
pub use clock::Clock;
pub use guard::{Controls, GuardedText, guarded};
pub use message::Message;

use std::sync::Arc;

use gristmill_template::{Input, Template, TemplateError};

use crate::error::EngineError;

/// What a template is rendered with.
#[derive(Clone, Debug)]
pub struct RenderInput {
    /// The messages as JSON objects (`role`, `content`, and what else the template reads).
    pub messages: serde_json::Value,
    /// Tool descriptions, if any.
    pub tools: Option<serde_json::Value>,
    /// Whether the text ends with the start of the assistant's turn.
    pub add_generation_prompt: bool,
    /// Text of the begin-of-sequence token.
    pub bos_token: String,
    /// Text of the end-of-sequence token.
    pub eos_token: String,
    /// More variables (`enable_thinking` and the like), which may not replace the ones above.
    pub extra: serde_json::Map<String, serde_json::Value>,
    /// What `strftime_now` tells.
    pub clock: Clock,
}

impl RenderInput {
    /// The conversation alone, the assistant to speak next.
    pub fn new(messages: &[Message]) -> Self {
        let messages = messages.iter().map(Message::for_template);
        RenderInput {
            messages: serde_json::Value::Array(messages.collect()),
            tools: None,
            add_generation_prompt: true,
            bos_token: String::new(),
            eos_token: String::new(),
            extra: serde_json::Map::new(),
            clock: Clock::Now,
        }
    }
}

/// A compiled template; clones share it.
#[derive(Clone, Debug)]
pub struct ChatTemplate {
    source: Arc<str>,
    template: Template,
}

impl ChatTemplate {
    /// Compiles a template.
    ///
    /// Errors: [`EngineError::TemplateSyntax`] with the line and what is not understood there.
    pub fn new(source: &str) -> Result<Self, EngineError> {
        let template = Template::new(source).map_err(|error| EngineError::TemplateSyntax {
            line: error.line(),
            message: shortened(error.message()),
        })?;
        Ok(ChatTemplate {
            source: Arc::from(source),
            template,
        })
    }

    /// The template's text.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Renders a conversation.
    ///
    /// Errors: [`EngineError::TemplateRefused`] with the template's own words where it calls
    /// `raise_exception`, [`EngineError::TemplateRender`] where an operation fails or the template asks for too much.
    pub fn render(&self, input: &RenderInput) -> Result<String, EngineError> {
        let none = serde_json::Value::Null;
        let generates = input.add_generation_prompt.into();
        let bos: serde_json::Value = input.bos_token.as_str().into();
        let eos: serde_json::Value = input.eos_token.as_str().into();
        // later ones replace earlier ones; absent tools and documents are none, not undefined
        let mut variables = vec![("documents", &none)];
        let extra = input.extra.iter();
        variables.extend(extra.map(|(name, value)| (name.as_str(), value)));
        variables.extend([
            ("messages", &input.messages),
            ("tools", input.tools.as_ref().unwrap_or(&none)),
            ("add_generation_prompt", &generates),
            ("bos_token", &bos),
            ("eos_token", &eos),
        ]);
        let clock = input.clock;
        let input = Input {
            variables: &variables,
            now: &|format| clock.format(format),
        };
        self.template.render(&input).map_err(|error| match error {
            TemplateError::Refused { message } => EngineError::TemplateRefused {
                message: shortened(message),
            },
            error => EngineError::TemplateRender {
                line: error.line(),
                message: shortened(error.message()),
            },
        })
    }
}

/// The most characters of a template's own words in an error.
const MESSAGE_CHARS_MAX: usize = 1000;

/// The start of a message that a template may have made of anything, and how much was left out.
fn shortened(mut message: String) -> String {
    if let Some((at, _)) = message.char_indices().nth(MESSAGE_CHARS_MAX) {
        let n_left_out = message[at..].chars().count();
        message.truncate(at);
        message.push_str(&format!("… ({n_left_out} more characters)"));
    }
    message
}

#[cfg(test)]
mod tests;
