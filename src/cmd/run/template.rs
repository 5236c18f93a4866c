//! The template to chat with: one that is named or given, else the model's own.

use anyhow::Context as _;
use gristmill_convert::{TemplateFault, TemplateText, template_text};
use gristmill_engine::Model;
use gristmill_engine::chat::{BUILTIN_TEMPLATES, ChatTemplate, builtin};

use super::chat_flags::TemplateFlags;
use crate::failure::Hint;

/// A template, and where it comes from.
pub type Origin = (ChatTemplate, String);

impl TemplateFlags {
    /// The template of a file.
    pub fn of_file(&self) -> anyhow::Result<Option<Origin>> {
        let Some(path) = &self.chat_template_file else {
            return Ok(None);
        };
        let origin = path.display().to_string();
        let source =
            std::fs::read(path).with_context(|| format!("{origin}: cannot read the template"))?;
        let source = one_template(&source).map_err(|fault| {
            anyhow::anyhow!("{origin}: {fault}").context(Hint::new(TemplateFault::REMEDY))
        })?;
        compiled(&source, origin)
    }

    /// The template given by name or as text, else the model's own: the one for tools where there are some.
    pub fn of_model(&self, model: &Model, has_tools: bool) -> anyhow::Result<Option<Origin>> {
        let file = model.file().path().display();
        let Some(given) = &self.chat_template else {
            let for_tools = has_tools
                .then(|| model.template_source(Some("tool_use")))
                .flatten();
            if let Some(source) = for_tools {
                return compiled(&source, format!("{file}: template tool_use"));
            }
            let own = model.template_source(None);
            return own.map_or(Ok(None), |source| compiled(&source, file.to_string()));
        };
        if let Some(template) = builtin(given) {
            return Ok(Some((template, format!("--chat-template {given}"))));
        }
        if let Some(source) = model.template_source(Some(given)) {
            return compiled(&source, format!("{file}: template {given}"));
        }
        if given.contains('{') {
            return compiled(given, "--chat-template".into());
        }
        let names = BUILTIN_TEMPLATES.iter().map(|template| template.name);
        let names: Vec<&str> = names.collect();
        Err(
            anyhow::anyhow!("no chat template has the name '{given}'").context(Hint::new(format!(
                "built in are {}; --chat-template-file takes a file",
                names.join(", ")
            ))),
        )
    }
}

/// The error of a chat without a template.
pub fn missing(path: &std::path::Path) -> anyhow::Error {
    anyhow::anyhow!(
        "{}: the model has no chat template, so it may not be made for chatting",
        path.display()
    )
    .context(Hint::new(
        "name one with --chat-template or --chat-template-file, or continue a text with --no-conversation",
    ))
}

fn compiled(source: &str, origin: String) -> anyhow::Result<Option<Origin>> {
    let template = ChatTemplate::new(source).with_context(|| origin.clone())?;
    Ok(Some((template, origin)))
}

/// The template of a file; of several in JSON that of the model.
fn one_template(bytes: &[u8]) -> Result<String, TemplateFault> {
    let held = match template_text(bytes)? {
        TemplateText::Jinja(text) => return Ok(text.to_owned()),
        TemplateText::Json(held) => held,
    };
    let of_model = |item: &&serde_json::Value| item["name"] == "default";
    let mut named = held.as_array().into_iter().flatten();
    let text = match held.as_str() {
        Some(text) => Some(text),
        None => named
            .find(of_model)
            .and_then(|item| item["template"].as_str()),
    };
    let none = TemplateFault::Json("JSON without a template named `default`");
    text.map(str::to_owned).ok_or(none)
}
