//! Chat templates: where they come from, and what is wrong with a new one. It is compiled and tried before it is written: a
//! broken one would be found by the first who chats.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use gristmill_engine::chat::ChatTemplate;
use gristmill_gguf::edit::{Edit, Plan};
use gristmill_gguf::{Array, Metadata};
use gristmill_measure::check::{Severity, check_templates};
use serde_json::Value as Json;

use super::input::read_text;
use super::request::set;
use super::value::Target;
use crate::failure::Hint;

const TEMPLATE: &str = "tokenizer.chat_template";
const TEMPLATES: &str = "tokenizer.chat_templates";

/// Where a chat template comes from.
#[derive(clap::Args)]
pub struct TemplateFlags {
    /// Chat template as text, or as a JSON list of named ones
    #[arg(long, value_name = "JINJA", group = "template")]
    chat_template: Vec<String>,
    /// Chat template from a file
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
            edits.extend(from_text(text, target)?);
        }
        for path in &self.chat_template_file {
            let text = read_text(path)?;
            refuse_config(&text, path)?;
            edits.extend(one_template(&text, target));
        }
        for path in &self.chat_template_config {
            edits.extend(from_config(path, target)?);
        }
        Ok(edits)
    }
}

fn from_text(text: &str, target: Target) -> anyhow::Result<Vec<Edit>> {
    if text.starts_with('[') {
        let list = serde_json::from_str(text).context("--chat-template: no JSON list")?;
        return templates(&list);
    }
    if !text.contains('{') && Path::new(text).exists() {
        let hint = "--chat-template takes the template itself; --chat-template-file reads one";
        return Err(anyhow!("{text:?} is a file, and no template").context(Hint::new(hint)));
    }
    refuse_config(text, Path::new("--chat-template"))?;
    Ok(one_template(text, target))
}

/// A configuration is valid as a template, and is none.
fn refuse_config(text: &str, from: &Path) -> anyhow::Result<()> {
    match config_fault(text) {
        None => Ok(()),
        Some((fault, hint)) => {
            let error = anyhow!("{}: {fault}", from.display());
            Err(error.context(Hint::new(hint)))
        }
    }
}

/// What is wrong with a text that is JSON, and the remedy.
fn config_fault(text: &str) -> Option<(&'static str, &'static str)> {
    let holds = "is JSON that holds templates, and no template";
    match serde_json::from_str(text).ok()? {
        Json::Object(object) if object.contains_key("chat_template") => Some((
            holds,
            "--chat-template-config takes the template out of such a file",
        )),
        Json::Array(list) if list.iter().any(|item| item.get("template").is_some()) => {
            Some((holds, "--chat-template takes such a list as its text"))
        }
        Json::Object(_) => Some((
            "is a JSON object, and no template",
            "name the file that holds the template, or the tokenizer_config.json with --chat-template-config",
        )),
        _ => None,
    }
}

fn from_config(path: &Path, target: Target) -> anyhow::Result<Vec<Edit>> {
    let config: Json = serde_json::from_str(&read_text(path)?)
        .with_context(|| format!("{}: no JSON", path.display()))?;
    match config.get("chat_template") {
        Some(Json::String(text)) => Ok(one_template(text, target)),
        Some(list @ Json::Array(_)) => templates(list),
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
        let text = value.as_text().and_then(|text| text.to_str());
        let mend = "mend the template";
        let (fault, remedy) = match (text.and_then(config_fault), text.map(ChatTemplate::new)) {
            (Some((fault, remedy)), _) => (fault.to_owned(), remedy),
            (None, Some(Ok(_))) => continue,
            (None, Some(Err(error))) => (error.to_string(), mend),
            (None, None) => {
                let fault = format!("chat template: {} is no text", value.type_name());
                (fault, mend)
            }
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
