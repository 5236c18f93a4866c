//! What templates take from Python beside the methods that `minijinja-contrib` knows.

use std::fmt;

use minijinja::value::{Value, ValueKind};
use minijinja::{Environment, Error, ErrorKind, State};

/// The words of a template that refuses a conversation, carried through the engine's error.
#[derive(Debug)]
struct Refusal(String);

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refusal {}

/// The template's own words, if `raise_exception` is at the bottom of the error.
pub(super) fn refusal(error: &Error) -> Option<String> {
    let mut cause: Option<&dyn std::error::Error> = Some(error);
    while let Some(error) = cause {
        if let Some(Refusal(message)) = error.downcast_ref() {
            return Some(message.clone());
        }
        cause = error.source();
    }
    None
}

fn raise_exception(message: Value) -> Result<Value, Error> {
    Err(
        Error::new(ErrorKind::InvalidOperation, "raised by the template")
            .with_source(Refusal(message.to_string())),
    )
}

/// Adds the functions and methods.
pub(super) fn install(environment: &mut Environment) {
    environment.add_function("raise_exception", raise_exception);
    environment.set_unknown_method_callback(method);
}

/// Python's methods; the ones here correct or extend the crate's.
fn method(
    state: &mut State,
    value: &Value,
    name: &str,
    arguments: &[Value],
) -> Result<Value, Error> {
    if value.kind() == ValueKind::String
        && let Some(text) = value.as_str()
        && let Some(result) = string_method(text, name, arguments)
    {
        return Ok(result);
    }
    minijinja_contrib::pycompat::unknown_method_callback(state, value, name, arguments)
}

fn string_method(text: &str, name: &str, arguments: &[Value]) -> Option<Value> {
    let [argument] = arguments else { return None };
    let argument = argument.as_str()?;
    let list = |parts: [&str; 3]| Value::from_iter(parts.map(str::to_owned));
    Some(match name {
        "removeprefix" => Value::from(text.strip_prefix(argument).unwrap_or(text)),
        "removesuffix" => Value::from(text.strip_suffix(argument).unwrap_or(text)),
        "partition" if !argument.is_empty() => {
            let parts = text
                .split_once(argument)
                .map(|(before, after)| [before, argument, after]);
            list(parts.unwrap_or([text, "", ""]))
        }
        "rpartition" if !argument.is_empty() => {
            let parts = text
                .rsplit_once(argument)
                .map(|(before, after)| [before, argument, after]);
            list(parts.unwrap_or(["", "", text]))
        }
        _ => return None,
    })
}
