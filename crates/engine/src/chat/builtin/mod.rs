//! Templates by name, for models that carry none.

use super::ChatTemplate;

/// A template that can be asked for by name.
pub struct BuiltinTemplate {
    /// Name in `--chat-template`.
    pub name: &'static str,
    /// The Jinja text.
    pub source: &'static str,
}

/// Every template, by name.
pub static BUILTIN_TEMPLATES: &[BuiltinTemplate] = &[
    BuiltinTemplate {
        name: "chatml",
        source: include_str!("chatml.jinja"),
    },
    BuiltinTemplate {
        name: "gemma",
        source: include_str!("gemma.jinja"),
    },
    BuiltinTemplate {
        name: "llama2",
        source: include_str!("llama2.jinja"),
    },
    BuiltinTemplate {
        name: "llama3",
        source: include_str!("llama3.jinja"),
    },
    BuiltinTemplate {
        name: "mistral-v7",
        source: include_str!("mistral-v7.jinja"),
    },
    BuiltinTemplate {
        name: "phi3",
        source: include_str!("phi3.jinja"),
    },
    BuiltinTemplate {
        name: "zephyr",
        source: include_str!("zephyr.jinja"),
    },
];

/// The template of a name, compiled.
pub fn builtin(name: &str) -> Option<ChatTemplate> {
    let template = BUILTIN_TEMPLATES
        .iter()
        .find(|template| template.name == name)?;
    ChatTemplate::new(template.source).ok()
}
