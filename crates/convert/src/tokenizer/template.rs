//! Chat templates (case B27): `chat_template.jinja`, else `tokenizer_config.json`, else `chat_template.json`;
//! and named ones beside the first.
//!
//! Where file and configuration differ the file counts, as for the `transformers` library. (The reference takes
//! the configuration's.)

use serde_json::{Map, Value};

use super::files::Files;
use super::json::TokenizerJson;
use super::{ADDITIONAL_TEMPLATES, Entries, TokenizerLog};
use crate::ConvertError;
use crate::small_file::{read_bytes, read_json};
use crate::template::{TemplateText, template_text};

/// The templates of a model.
#[derive(Default)]
pub(super) struct Templates {
    default: Option<String>,
    named: Vec<(String, String)>,
}

pub(super) fn read(files: &Files, log: &mut TokenizerLog) -> Result<Templates, ConvertError> {
    let mut templates = Templates::default();
    let configured = files
        .config
        .as_ref()
        .and_then(|config| config.get("chat_template"))
        .filter(|value| !value.is_null());
    let file = "chat_template.jinja";
    if let Some(held) = read_template(files, file)? {
        templates.take(&held, file, files, log)?;
        if configured.is_some_and(|value| value.as_str() != templates.default.as_deref()) {
            log.warnings.push(
                "chat_template.jinja is used; tokenizer_config.json has another chat template"
                    .to_owned(),
            );
        }
    } else if let Some(value) = configured {
        templates.take(value, "tokenizer_config.json", files, log)?;
    } else {
        let json: Option<Map<String, Value>> = read_json(&files.folder.join("chat_template.json"))?;
        if let Some(value) = json.as_ref().and_then(|json| json.get("chat_template")) {
            templates.take(value, "chat_template.json", files, log)?;
        }
    }
    templates.read_additional(files)?;
    let talks = !files
        .json
        .as_ref()
        .is_some_and(TokenizerJson::is_word_piece);
    if templates.default.is_none() && talks {
        log.warnings.push("no chat template was found".to_owned());
    }
    log.named_templates = templates
        .named
        .iter()
        .map(|(name, _)| name.clone())
        .collect();
    Ok(templates)
}

impl Templates {
    /// A template, or a list of objects with `name` and `template`.
    ///
    /// # Errors
    /// A text with a NUL in it.
    fn take(
        &mut self,
        value: &Value,
        file: &'static str,
        files: &Files,
        log: &mut TokenizerLog,
    ) -> Result<(), ConvertError> {
        match value {
            Value::String(text) if text.trim().is_empty() => {
                log.warnings
                    .push(format!("chat_template in {file} is empty"));
            }
            Value::String(text) => self.default = Some(text.clone()),
            Value::Array(list) => {
                for choice in list {
                    let field = |key: &str| choice.get(key).and_then(Value::as_str);
                    if let (Some(name), Some(text)) = (field("name"), field("template")) {
                        self.add(name, text.to_owned());
                    }
                }
            }
            _ => log.warnings.push(format!(
                "chat_template in {file} is neither text nor a list"
            )),
        }
        let named = self.named.iter().map(|(_, text)| text);
        let at = self
            .default
            .iter()
            .chain(named)
            .find_map(|text| text.find('\0'));
        if let Some(at) = at {
            return Err(files.error(file, format!("chat_template: byte {at} is NUL")));
        }
        if self.default.is_some() {
            log.chat_template = Some(file);
        }
        Ok(())
    }

    fn add(&mut self, name: &str, text: String) {
        // Names become parts of keys.
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
        let name: String = name.chars().map(plain).collect();
        if name == "default" {
            self.default = Some(text);
        } else if let Some(known) = self.named.iter_mut().find(|(known, _)| *known == name) {
            known.1 = text;
        } else if !name.is_empty() {
            self.named.push((name, text));
        }
    }

    /// `additional_chat_templates/NAME.jinja`, in the order of their names.
    fn read_additional(&mut self, files: &Files) -> Result<(), ConvertError> {
        let folder = files.folder.join(ADDITIONAL_TEMPLATES);
        let Ok(entries) = std::fs::read_dir(&folder) else {
            return Ok(());
        };
        let mut names: Vec<String> = entries
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter_map(|name| name.strip_suffix(".jinja").map(str::to_owned))
            .collect();
        names.sort_unstable();
        for name in names {
            let file = format!("{ADDITIONAL_TEMPLATES}/{name}.jinja");
            match read_template(files, &file)? {
                Some(Value::String(text)) => self.add(&name, text),
                Some(_) => {
                    let reason = "holds several chat templates where one was expected";
                    return Err(files.error(&file, reason.to_owned()));
                }
                None => {}
            }
        }
        Ok(())
    }

    pub(super) fn write(&self, entries: &mut Entries) {
        for (name, text) in &self.named {
            entries.set(format!("tokenizer.chat_template.{name}"), text.as_str());
        }
        if !self.named.is_empty() {
            let names: Vec<String> = self.named.iter().map(|(name, _)| name.clone()).collect();
            entries.set("tokenizer.chat_templates", names);
        }
        if let Some(text) = &self.default {
            entries.set("tokenizer.chat_template", text.as_str());
        }
    }
}

/// What a file for a template holds: its text, or what JSON in its place has for one.
fn read_template(files: &Files, name: &str) -> Result<Option<Value>, ConvertError> {
    let Some(bytes) = read_bytes(&files.folder.join(name))? else {
        return Ok(None);
    };
    match template_text(&bytes) {
        Ok(TemplateText::Jinja(text)) => Ok(Some(text.into())),
        Ok(TemplateText::Json(held)) => Ok(Some(held)),
        Err(fault) => Err(files.error(name, fault.to_string())),
    }
}
