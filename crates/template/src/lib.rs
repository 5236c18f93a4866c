//! Jinja templates in bounded steps, memory and depth.
//!
//! Chat templates come with models, from anyone. Rendering one takes at most [`STEPS`] steps, which pay for bulk work by
//! its size, and at most [`BYTES_FIXED`] bytes and [`BYTES_PER_INPUT_BYTE`] times the size of the input beyond the input.
//! No template can overflow the stack, hold itself or leave something behind.
//!
//! The language is Jinja as Python's `transformers` sets it: white space trimmed around blocks, loop controls, its
//! `tojson`, `raise_exception`, `strftime_now` and `generation`, Python's methods of strings and maps. Values are those
//! of its immutable sandbox. Templates stand alone: there is no `include`, `import` or `extends`.

#![forbid(unsafe_code)]

mod builtin;
mod error;
mod meter;
mod render;
mod syntax;
mod value;

pub use error::TemplateError;

use std::sync::Arc;

/// Steps of one rendering, and two more for every byte of the input: operations, items visited, and 16 to 64 bytes of
/// text each. They take less than 50 ms. The largest conversation of the golden tests takes about 10,000. (A fuzzer gets
/// fewer, since it finds templates that never end at once, and would look at nothing else.)
#[allow(unexpected_cfgs)] // `cargo fuzz` sets it
pub const STEPS: u64 = if cfg!(fuzzing) { 100_000 } else { 300_000 };

/// Bytes of values alive in one rendering.
pub const BYTES_FIXED: usize = 8 << 20;

/// Bytes of values for each byte of the input, beyond [`BYTES_FIXED`]: text is copied, trimmed and written.
pub const BYTES_PER_INPUT_BYTE: usize = 4;

/// The longest template, in bytes; its tree is some 50 times as large.
pub const SOURCE_BYTES_MAX: usize = 256 << 10;

/// What a template is rendered with.
pub struct Input<'a> {
    /// Variables by name.
    pub variables: &'a [(&'a str, &'a serde_json::Value)],
    /// What `strftime_now` gives for a format.
    pub now: &'a dyn Fn(&str) -> String,
}

/// A template, read and ready; clones share it.
#[derive(Clone, Debug)]
pub struct Template {
    program: Arc<syntax::Program>,
}

impl Template {
    /// Reads a template.
    ///
    /// Errors: [`TemplateError::Syntax`] with the line and what is not understood there; [`TemplateError::Depth`].
    pub fn new(source: &str) -> Result<Self, TemplateError> {
        if source.len() > SOURCE_BYTES_MAX {
            return Err(TemplateError::Syntax {
                line: 0,
                message: format!(
                    "the template has {} bytes, more than {SOURCE_BYTES_MAX}",
                    source.len()
                ),
            });
        }
        match syntax::parse(source) {
            Ok(program) => Ok(Template {
                program: Arc::new(program),
            }),
            Err(TemplateError::Syntax { line, message }) if is_go(source) => {
                let message =
                    format!("{message}: it is a Go template, as Ollama has them, not Jinja");
                Err(TemplateError::Syntax { line, message })
            }
            Err(error) => Err(error),
        }
    }

    /// Renders it.
    ///
    /// Errors: [`TemplateError::Refused`] with the template's own words where it calls `raise_exception`, others where an
    /// operation fails or the budget ends.
    pub fn render(&self, input: &Input) -> Result<String, TemplateError> {
        render::render(&self.program, input)
    }
}

/// Whether a text that is no Jinja has what only Go's templates have: a field of nothing, or a statement between braces.
fn is_go(source: &str) -> bool {
    source.split("{{").skip(1).any(|code| {
        let code = code.strip_prefix('-').unwrap_or(code).trim_start();
        let statements = ["if", "range", "with"].iter();
        let mut arguments =
            statements.filter_map(|word| code.strip_prefix(word)?.strip_prefix(' '));
        code.starts_with(['.', '$'])
            || arguments.any(|rest| !rest.starts_with(['}', '=', '|', '~']))
    })
}

#[cfg(test)]
mod tests;
