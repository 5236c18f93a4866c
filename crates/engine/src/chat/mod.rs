//! Chat templates: a conversation becomes the text that the model was trained on.
//!
//! Templates are Jinja as Python's `transformers` runs it: blocks trimmed, loop controls, its `tojson`,
//! `raise_exception` and `strftime_now`. A template has a budget of steps, so that none can run forever.

mod builtin;
mod clock;
mod guard;
mod python;
mod source;
mod tojson;

pub use builtin::{BUILTIN_TEMPLATES, builtin};
pub use clock::Clock;
pub use guard::{Controls, GuardedText, guarded};

use std::sync::Arc;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, Value};
use minijinja::{Environment, ErrorKind, UndefinedBehavior};
use serde::Serialize;

use crate::error::EngineError;

/// Steps and output blocks that one rendering may use; the largest golden conversation needs about 10,000.
const FUEL: u64 = 20_000_000;

/// The name under which the template is compiled; shows up nowhere.
const NAME: &str = "chat";

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Message {
    /// `system`, `user`, `assistant`, `tool` or what else the template knows.
    pub role: String,
    /// The text.
    pub content: String,
}

impl Message {
    /// A message of a role.
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Self {
        Message {
            role: role.into(),
            content: content.into(),
        }
    }
}

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
        let messages = messages
            .iter()
            .map(|message| serde_json::json!({"role": message.role, "content": message.content}));
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
}

impl ChatTemplate {
    /// Compiles a template.
    ///
    /// Errors: [`EngineError::TemplateSyntax`] with the line and what is not understood there.
    pub fn new(source: &str) -> Result<Self, EngineError> {
        let template = ChatTemplate {
            source: Arc::from(source::prepare(source)),
        };
        environment(Clock::Now)
            .and_then(|mut environment| environment.add_template(NAME, &template.source))
            .map_err(|error| EngineError::TemplateSyntax {
                line: error.line().unwrap_or(0),
                message: describe(&error),
            })?;
        Ok(template)
    }

    /// The template's text as compiled.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Renders a conversation.
    ///
    /// Errors: [`EngineError::TemplateRefused`] with the template's own words where it calls
    /// `raise_exception`, [`EngineError::TemplateRender`] where an operation fails.
    pub fn render(&self, input: &RenderInput) -> Result<String, EngineError> {
        environment(input.clock)
            .and_then(|mut environment| {
                environment.add_template(NAME, &self.source)?;
                environment
                    .get_template(NAME)?
                    .render(Value::from(Serde(context(input))))
            })
            .map_err(|error| match python::refusal(&error) {
                Some(message) => EngineError::TemplateRefused { message },
                None => EngineError::TemplateRender {
                    line: error.line().unwrap_or(0),
                    message: describe(&error),
                },
            })
    }
}

/// The variables of a template, in the names of `transformers`. Absent tools and documents are none, not undefined.
fn context(input: &RenderInput) -> serde_json::Map<String, serde_json::Value> {
    let mut context = input.extra.clone();
    context.insert("messages".into(), input.messages.clone());
    context.insert("tools".into(), input.tools.clone().unwrap_or_default());
    context.entry("documents").or_insert_with(Default::default);
    context.insert(
        "add_generation_prompt".into(),
        input.add_generation_prompt.into(),
    );
    context.insert("bos_token".into(), input.bos_token.clone().into());
    context.insert("eos_token".into(), input.eos_token.clone().into());
    context
}

fn environment<'a>(clock: Clock) -> Result<Environment<'a>, minijinja::Error> {
    let mut environment = Environment::new();
    environment.set_syntax(
        SyntaxConfig::builder()
            .trim_blocks(true)
            .lstrip_blocks(true)
            .build()?,
    );
    environment.set_undefined_behavior(UndefinedBehavior::Lenient);
    environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    environment.set_fuel(Some(FUEL));
    python::install(&mut environment);
    environment.add_filter("tojson", tojson::tojson);
    environment.add_function("strftime_now", move |format: &str| clock.format(format));
    Ok(environment)
}

/// The error in one line, with its cause.
fn describe(error: &minijinja::Error) -> String {
    if error.kind() == ErrorKind::OutOfFuel {
        return "the template takes too many steps".into();
    }
    let mut text = match error.detail() {
        Some(detail) => format!("{}: {detail}", error.kind()),
        None => error.kind().to_string(),
    };
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests;
