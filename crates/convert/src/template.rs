//! What a file or a text that is given for a chat template holds: a template, a JSON file with one in it, or neither.

use std::fmt;

use serde_json::Value;

/// The key of templates in JSON files.
const KEY: &str = "chat_template";

/// A chat template, in the form in which it was given.
#[derive(Clone, Debug, PartialEq)]
pub enum TemplateText<'a> {
    /// Jinja, without a byte order mark.
    Jinja(&'a str),
    /// What a JSON file holds: a text, or a list of objects with `name` and `template`.
    Json(Value),
}

/// Why something is no chat template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TemplateFault {
    /// There is nothing but white space.
    Empty,
    /// It is no text, from this byte on.
    NotUtf8(usize),
    /// A NUL at this byte.
    Nul(usize),
    /// JSON that ends early or is broken, with the parser's reason.
    BrokenJson(String),
    /// JSON of this kind, without a template.
    Json(&'static str),
}

impl fmt::Display for TemplateFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TemplateFault::Empty => f.write_str("is empty, and no chat template"),
            TemplateFault::NotUtf8(at) => write!(f, "is no UTF-8 text from byte {at} on"),
            TemplateFault::Nul(at) => write!(f, "is no chat template: byte {at} is NUL"),
            TemplateFault::BrokenJson(reason) => {
                write!(f, "is broken JSON, and no chat template: {reason}")
            }
            TemplateFault::Json(kind) => write!(f, "is {kind}, and no chat template"),
        }
    }
}

impl TemplateFault {
    /// What is expected instead.
    pub const REMEDY: &'static str = "expected is the Jinja text of a template, or JSON with `chat_template`, as in tokenizer_config.json and \
         chat_template.json";
}

/// Tells what is given for a chat template. Jinja may begin with a bracket or brace as JSON does; what
/// parses as JSON is JSON, but for objects and lists that have no template and are one.
///
/// # Errors
/// What is no text, has no text, or is JSON without a template.
pub fn template_text(bytes: &[u8]) -> Result<TemplateText<'_>, TemplateFault> {
    let text =
        std::str::from_utf8(bytes).map_err(|error| TemplateFault::NotUtf8(error.valid_up_to()))?;
    if let Some(at) = text.find('\0') {
        return Err(TemplateFault::Nul(at));
    }
    // Some editors put a mark in front; it is no part of the text.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let start = text.trim_start();
    if start.is_empty() {
        return Err(TemplateFault::Empty);
    }
    if ["{{", "{%", "{#"].iter().any(|tag| start.starts_with(tag)) {
        return Ok(TemplateText::Jinja(text));
    }
    match serde_json::from_str(start) {
        Ok(json) => match held(json) {
            Ok(held) => Ok(TemplateText::Json(held)),
            // A template that writes JSON. A whole template within quotes was written by a program, for another one.
            Err(_) if writes_json(start) => Ok(TemplateText::Jinja(text)),
            Err(fault) => Err(fault),
        },
        Err(error) if is_broken(start, &error) => Err(TemplateFault::BrokenJson(error.to_string())),
        Err(_) => Ok(TemplateText::Jinja(text)),
    }
}

/// Whether a text that parses as an object or list has tags of Jinja.
fn writes_json(text: &str) -> bool {
    text.starts_with(['{', '[']) && ["{{", "{%"].iter().any(|tag| text.contains(tag))
}

/// The template that JSON holds.
fn held(json: Value) -> Result<Value, TemplateFault> {
    let is_named = |item: &Value| item.get("template").is_some();
    let kind = match json {
        Value::Object(mut object) => match object.remove(KEY) {
            Some(held @ (Value::String(_) | Value::Array(_))) => return Ok(held),
            _ => "a JSON object without `chat_template`",
        },
        Value::Array(list) if list.iter().any(is_named) => return Ok(Value::Array(list)),
        Value::Array(_) => "a JSON list without templates",
        Value::String(_) => "a JSON string",
        Value::Null | Value::Bool(_) | Value::Number(_) => "a JSON value",
    };
    Err(TemplateFault::Json(kind))
}

/// Whether what does not parse was meant as JSON: it is cut, or begins as JSON with templates does. A template that writes JSON
/// stops a parser at a tag.
fn is_broken(text: &str, error: &serde_json::Error) -> bool {
    if !text.starts_with(['{', '[']) {
        return false;
    }
    let line = text.lines().nth(error.line().saturating_sub(1));
    let (line, at) = (line.unwrap_or_default().as_bytes(), error.column());
    let end = line.len().min(at + 1);
    let around = line.get(at.saturating_sub(2)..end).unwrap_or_default();
    let is_tag = |pair: &[u8]| matches!(pair, b"{{" | b"{%" | b"{#");
    let inside = text.trim_start_matches(['[', '{', ' ', '\t', '\r', '\n']);
    let names = ["\"chat_template\"", "\"name\"", "\"template\""];
    let is_named = names.iter().any(|name| inside.starts_with(name));
    error.is_eof() || (is_named && !around.windows(2).any(is_tag))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn jinja_json_and_neither_are_told_apart() {
        for jinja in [
            "{{ messages }}",
            "{% for m in messages %}{{ m.content }}{% endfor %}",
            "{# {\"chat_template\": 1} #}{{ messages }}",
            "[INST] {{ messages[0].content }} [/INST]",
            "[{% for m in messages %}{{ m.content }},{% endfor %}]",
            "{\"role\": {{ messages[0].role | tojson }}}",
            "{\"name\": {{ messages[0].role | tojson }}}",
            "{\"name\":\n{% for m in messages %}{% endfor %}}",
            "\"{{ messages[0].content }}\" she said",
            "{\"role\": \"user\", \"content\": \"{{ messages[0].content }}\"}",
            "[\"{{ x }}\"]",
            "\n  {{ messages }}",
            "chatml",
        ] {
            let read = template_text(jinja.as_bytes());
            assert_eq!(read, Ok(TemplateText::Jinja(jinja)));
        }
        let marked = "\u{feff}{{ messages }}";
        assert_eq!(
            template_text(marked.as_bytes()),
            Ok(TemplateText::Jinja("{{ messages }}"))
        );
        let list = json!([{"name": "default", "template": "A"}]);
        for (text, held) in [
            (
                r#"{"bos_token": "<s>", "chat_template": "A"}"#.to_owned(),
                json!("A"),
            ),
            (
                "\u{feff} {\"chat_template\": \"A\"}\n".to_owned(),
                json!("A"),
            ),
            (list.to_string(), list.clone()),
            (json!({ "chat_template": list }).to_string(), list),
        ] {
            assert_eq!(template_text(text.as_bytes()), Ok(TemplateText::Json(held)));
        }
        for (bytes, fault) in [
            (&b""[..], "is empty, and no chat template"),
            (b" \n", "is empty, and no chat template"),
            (b"\xef\xbb\xbf", "is empty, and no chat template"),
            (b"ab\xff", "is no UTF-8 text from byte 2 on"),
            (b"{{ x }}\0", "is no chat template: byte 7 is NUL"),
            (
                b"[]",
                "is a JSON list without templates, and no chat template",
            ),
            (b"null", "is a JSON value, and no chat template"),
            (
                b"\"{{ messages }}\"",
                "is a JSON string, and no chat template",
            ),
            (
                b"{\"bos_token\": \"<s>\"}",
                "is a JSON object without `chat_template`, and no chat template",
            ),
            (
                b"{\"chat_template\": null}",
                "is a JSON object without `chat_template`, and no chat template",
            ),
            (
                b"{\"chat_template\": \"{{ mess",
                "is broken JSON, and no chat template: EOF",
            ),
            (
                b"[{\"name\": \"default\", \"templ",
                "is broken JSON, and no chat template: EOF",
            ),
            (
                b"[{\"name\": \"default\", template: 1}]",
                "is broken JSON, and no chat template: key must be a string",
            ),
            (
                b"{\"chat_template\": \"A\",}",
                "is broken JSON, and no chat template: trailing comma",
            ),
        ] {
            let error = template_text(bytes).expect_err(fault).to_string();
            assert!(error.starts_with(fault), "{error}");
        }
    }
}
