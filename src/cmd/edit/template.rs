//! Chat templates: where they come from, and what is wrong with a new one. It is compiled and tried before it is written: a
//! broken one would be found by the first who chats.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use gristmill_convert::{TemplateFault, TemplateText, template_text};
use gristmill_engine::chat::ChatTemplate;
use gristmill_gguf::edit::{Edit, Plan};
use gristmill_gguf::{Array, Metadata, Value};
use gristmill_measure::check::{Severity, check_templates};
use serde_json::Value as Json;

use super::input::{read, read_text};
use super::request::set;
use super::value::Target;
use crate::failure::Hint;

const TEMPLATE: &str = "tokenizer.chat_template";
const TEMPLATES: &str = "tokenizer.chat_templates";

/// Where a chat template comes from.
#[derive(clap::Args)]
pub struct TemplateFlags {
    /// Chat template as text, or as JSON with one or a list of named ones
    #[arg(long, value_name = "JINJA", group = "template")]
    chat_template: Vec<String>,
    /// Chat template from a file: Jinja, or JSON that has it as chat_template
    #[arg(long, value_name = "FILE", group = "template")]
    chat_template_file: Vec<PathBuf>,
    /// Chat template, or several, from a tokenizer_config.json
    #[arg(long, value_name = "FILE", group = "template")]
    chat_template_config: Vec<PathBuf>,
}

impl TemplateFlags {
    /// Whether no template is given.
    pub fn is_empty(&self) -> bool {
        self.chat_template.is_empty()
            && self.chat_template_file.is_empty()
            && self.chat_template_config.is_empty()
    }

    /// The edits that write the templates.
    pub fn edits(&self, target: Target) -> anyhow::Result<Vec<Edit>> {
        let mut edits = Vec::new();
        for text in &self.chat_template {
            if !text.contains('{') && Path::new(text).exists() {
                let hint =
                    "--chat-template takes the template itself; --chat-template-file reads one";
                return Err(anyhow!("{text:?} is a file, and no template").context(Hint::new(hint)));
            }
            let from = Path::new("--chat-template");
            edits.extend(from_bytes(text.as_bytes(), from, target)?);
        }
        for path in &self.chat_template_file {
            edits.extend(from_bytes(&read(path)?, path, target)?);
        }
        for path in &self.chat_template_config {
            edits.extend(from_config(path, target)?);
        }
        Ok(edits)
    }
}

/// The template that stands in a text, or that JSON holds.
fn from_bytes(bytes: &[u8], from: &Path, target: Target) -> anyhow::Result<Vec<Edit>> {
    match template_text(bytes) {
        Ok(TemplateText::Jinja(text)) => Ok(one_template(text, target)),
        Ok(TemplateText::Json(held)) => from_json(&held, target),
        Err(fault) => {
            let error = anyhow!("{}: {fault}", from.display());
            Err(error.context(Hint::new(TemplateFault::REMEDY)))
        }
    }
}

fn from_json(held: &Json, target: Target) -> anyhow::Result<Vec<Edit>> {
    match held {
        Json::String(text) => Ok(one_template(text, target)),
        list => templates(list),
    }
}

fn from_config(path: &Path, target: Target) -> anyhow::Result<Vec<Edit>> {
    let config: Json = serde_json::from_str(&read_text(path)?)
        .with_context(|| format!("{}: no JSON", path.display()))?;
    match config.get("chat_template") {
        Some(held @ (Json::String(_) | Json::Array(_))) => from_json(held, target),
        _ => bail!("{}: has no chat_template", path.display()),
    }
}

/// A template for the model; the named ones beside it stay, and are told of.
fn one_template(text: &str, target: Target) -> Vec<Edit> {
    let keys = target.metadata.iter().map(|(key, _)| key);
    let named: Vec<&str> = keys
        .filter(|key| *key != TEMPLATE && is_template(key))
        .collect();
    if !named.is_empty() {
        say!(
            "note: {}: other templates stay as they are: {}",
            target.path.display(),
            named.join(", ")
        );
    }
    vec![set(TEMPLATE, text)]
}

/// Named templates: the one named `default` is the model's, the others have keys of their own.
fn templates(list: &Json) -> anyhow::Result<Vec<Edit>> {
    let mut edits = Vec::new();
    let mut names: Vec<String> = Vec::new();
    for item in list.as_array().into_iter().flatten() {
        let text = |key| item.get(key).and_then(Json::as_str);
        let (Some(name), Some(template)) = (text("name"), text("template")) else {
            bail!("a template in the list lacks its \"name\" or its \"template\"");
        };
        let is_plain = |c: char| c.is_ascii_alphanumeric();
        let name: String = name
            .chars()
            .map(|c| if is_plain(c) { c } else { '_' })
            .collect();
        if name == "default" {
            edits.push(set(TEMPLATE, template));
        } else {
            edits.push(set(&format!("{TEMPLATE}.{name}"), template));
            names.push(name);
        }
    }
    if edits.is_empty() {
        bail!("the list holds no template");
    }
    if !names.is_empty() {
        edits.push(set(TEMPLATES, Array::from(names)));
    }
    Ok(edits)
}

/// The model's template, or a named one beside it.
fn is_template(key: &str) -> bool {
    key.strip_prefix(TEMPLATE)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Refuses a plan that would write a template that no engine compiles; with `force` it is told of only.
pub fn compile(plan: &Plan, force: bool) -> anyhow::Result<()> {
    let changes = plan.changes().iter();
    for change in changes.filter(|change| is_template(&change.key)) {
        let Some(value) = &change.after else {
            continue;
        };
        let Some((fault, remedy)) = fault_of(value) else {
            continue;
        };
        let (path, key) = (plan.path().display(), &change.key);
        if !force {
            let hint = format!("{remedy}; `--force` writes it as it is");
            return Err(anyhow!("{path}: refused: {key:?}: {fault}").context(Hint::new(hint)));
        }
        say!("warning: {path}: {key:?}: {fault}");
    }
    Ok(())
}

/// Why a value is no template that an engine compiles, and the remedy.
fn fault_of(value: &Value) -> Option<(String, &'static str)> {
    let mend = "mend the template";
    let Some(text) = value.as_text() else {
        let fault = format!("chat template: {} is no text", value.type_name());
        return Some((fault, mend));
    };
    match template_text(text.as_bytes()) {
        Ok(TemplateText::Jinja(text)) => {
            let error = ChatTemplate::new(text).err()?;
            Some((error.to_string(), mend))
        }
        Ok(TemplateText::Json(_)) => Some((
            "is JSON that holds templates, and no template".to_owned(),
            "--chat-template-file takes the template out of such a file",
        )),
        Err(fault) => Some((fault.to_string(), TemplateFault::REMEDY)),
    }
}

/// The metadata before edits of templates; none where no edit names one.
pub fn metadata_to_probe(edits: &[Edit], metadata: &Metadata) -> Option<Metadata> {
    let is_ours = |key: &String| is_template(key) || key == TEMPLATES;
    let names_one = edits.iter().any(|edit| match edit {
        Edit::Set { key, .. } | Edit::Add { key, .. } | Edit::Remove { key } => is_ours(key),
        Edit::Rename { from, to } => is_ours(from) || is_ours(to),
    });
    names_one.then(|| metadata.clone())
}

/// Says what `check` would say of the templates that a plan writes; `metadata` is that before the edits.
pub fn probe(plan: &Plan, mut metadata: Metadata) {
    for change in plan.changes() {
        if let Some(from) = &change.renamed_from {
            metadata.remove(from);
        }
        match &change.after {
            Some(value) => metadata.set(change.key.clone(), value.clone()),
            None => metadata.remove(&change.key),
        };
    }
    let is_written = |key: &str| {
        let mut changes = plan.changes().iter();
        changes.any(|change| change.key == key && change.after.is_some())
    };
    for finding in check_templates(&metadata) {
        let key = finding.place.key.as_deref().unwrap_or_default();
        // One that does not compile was told of already.
        if finding.severity < Severity::Error && (is_written(key) || key == TEMPLATES) {
            let (severity, path) = (finding.severity.name(), plan.path().display());
            say!("{severity}: {path}: {key:?}: {}", finding.text);
        }
    }
}
