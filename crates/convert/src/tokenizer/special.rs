//! Tokens with a role, and which of them are put around a text.
//!
//! Roles come from `tokenizer_config.json` by text and from `config.json` by id, in this order. Whether a text begins
//! or ends with such a token comes from the post-processor of `tokenizer.json` and from `tokenizer_config.json`. The
//! order in which facts are found is the order of the entries.

use serde_json::Value;

use super::Entries;
use super::byte_level::content;
use super::files::Files;

/// Roles and flags that were found, each in order.
#[derive(Default)]
pub(super) struct Special {
    ids: Vec<(&'static str, u32)>,
    adds: Vec<(&'static str, bool)>,
    lowercase: Option<bool>,
    strip_accents: Option<bool>,
}

/// The roles that are looked for; `eot` and `eom` join them when a post-processor's end differs from `eos`.
const ROLES: [&str; 7] = ["bos", "eos", "unk", "sep", "pad", "cls", "mask"];

/// A role's key. The class token has none.
fn id_key(role: &str) -> Option<&'static str> {
    Some(match role {
        "bos" => "tokenizer.ggml.bos_token_id",
        "eos" => "tokenizer.ggml.eos_token_id",
        "unk" => "tokenizer.ggml.unknown_token_id",
        // Misspelled in the format.
        "sep" => "tokenizer.ggml.seperator_token_id",
        "pad" => "tokenizer.ggml.padding_token_id",
        "mask" => "tokenizer.ggml.mask_token_id",
        "eot" => "tokenizer.ggml.eot_token_id",
        "eom" => "tokenizer.ggml.eom_token_id",
        _ => return None,
    })
}

fn add_key(role: &str) -> Option<&'static str> {
    Some(match role {
        "bos" => "tokenizer.ggml.add_bos_token",
        "eos" => "tokenizer.ggml.add_eos_token",
        "sep" => "tokenizer.ggml.add_sep_token",
        _ => return None,
    })
}

pub(super) fn read(files: &Files, n_tokens: usize, warnings: &mut Vec<String>) -> Special {
    let mut reader = Reader {
        special: Special::default(),
        roles: ROLES.to_vec(),
        texts: Vec::new(),
        has_config: files.config.is_some(),
        n_tokens,
        warnings,
    };
    reader.read_texts(files);
    if let Some(json) = &files.json {
        reader.read_normalizer(&json.normalizer);
        reader.read_post_processor(&json.post_processor);
    }
    if files.config.is_some() {
        reader.read_config(files);
    }
    reader.read_model_config(files);
    reader.special
}

impl Special {
    pub(super) fn write(&self, entries: &mut Entries) {
        for &(role, id) in &self.ids {
            if let Some(key) = id_key(role) {
                entries.set(key, id);
            }
        }
        for &(role, add) in &self.adds {
            if let Some(key) = add_key(role) {
                entries.set(key, add);
            }
        }
    }

    /// Flags of the normalizer, which come after the chat template.
    pub(super) fn write_normalizer(&self, entries: &mut Entries) {
        if let Some(lowercase) = self.lowercase {
            entries.set("tokenizer.ggml.normalizer.lowercase", lowercase);
        }
        if let Some(strip_accents) = self.strip_accents {
            entries.set("tokenizer.ggml.normalizer.strip_accents", strip_accents);
        }
    }

    fn add(&self, role: &str) -> Option<bool> {
        self.adds
            .iter()
            .find(|(known, _)| *known == role)
            .map(|&(_, add)| add)
    }

    fn set_add(&mut self, role: &'static str, add: bool) {
        match self.adds.iter_mut().find(|(known, _)| *known == role) {
            Some(known) => known.1 = add,
            None => self.adds.push((role, add)),
        }
    }
}

struct Reader<'a> {
    special: Special,
    roles: Vec<&'static str>,
    /// The text of each role so far.
    texts: Vec<(&'static str, String)>,
    has_config: bool,
    n_tokens: usize,
    warnings: &'a mut Vec<String>,
}

impl Reader<'_> {
    fn text(&self, role: &str) -> Option<&str> {
        self.texts
            .iter()
            .find(|(known, _)| *known == role)
            .map(|(_, text)| text.as_str())
    }

    fn set_text(&mut self, role: &'static str, text: &str) {
        match self.texts.iter_mut().find(|(known, _)| *known == role) {
            Some(known) => known.1 = text.to_owned(),
            None => self.texts.push((role, text.to_owned())),
        }
    }

    fn is(&self, role: &str, text: &str) -> bool {
        self.text(role) == Some(text)
    }

    /// The roles of `tokenizer_config.json`. A class token can stand in for a missing beginning, and a separator for
    /// a missing end.
    fn read_texts(&mut self, files: &Files) {
        let Some(config) = &files.config else { return };
        for role in ROLES.into_iter().chain(["eot", "eom"]) {
            let text = config.get(&format!("{role}_token")).and_then(content);
            if let Some(text) = text.filter(|text| !text.is_empty()) {
                self.set_text(role, text);
            }
        }
        if files.json.is_none() {
            return;
        }
        for (role, stand_in) in [("bos", "cls"), ("eos", "sep")] {
            if self.text(role).is_none()
                && let Some(text) = self.text(stand_in).map(str::to_owned)
            {
                self.set_text(role, &text);
            }
        }
    }

    fn read_normalizer(&mut self, normalizer: &Value) {
        let flag = |key: &str| normalizer.get(key).and_then(Value::as_bool);
        match normalizer.get("type").and_then(Value::as_str) {
            Some("Lowercase") => self.special.lowercase = Some(true),
            Some("StripAccents") => self.special.strip_accents = Some(true),
            Some("BertNormalizer") => {
                self.special.lowercase = flag("lowercase").or(self.special.lowercase);
                self.special.strip_accents = flag("strip_accents").or(self.special.strip_accents);
            }
            Some("Sequence") => {
                let parts = normalizer.get("normalizers").and_then(Value::as_array);
                parts
                    .into_iter()
                    .flatten()
                    .for_each(|part| self.read_normalizer(part));
            }
            _ => {}
        }
    }

    fn read_post_processor(&mut self, post_processor: &Value) {
        let one = std::slice::from_ref(post_processor);
        let parts = post_processor.get("processors").and_then(Value::as_array);
        for part in parts.map_or(one, Vec::as_slice) {
            match part.get("type").and_then(Value::as_str) {
                Some("ByteLevel") => {
                    for role in ["bos", "eos"] {
                        let add = self.special.add(role).unwrap_or(false);
                        self.special.set_add(role, add);
                    }
                }
                Some("RobertaProcessing") => self.read_roberta(part),
                Some("TemplateProcessing") => self.read_processing_template(part),
                _ => {}
            }
        }
    }

    fn read_roberta(&mut self, part: &Value) {
        for role in ["bos", "eos", "sep"] {
            self.special.set_add(role, true);
        }
        for (role, otherwise) in [("cls", "bos"), ("sep", "eos")] {
            if self.text(role).is_some() {
                continue;
            }
            let given = part
                .get(role)
                .and_then(|token| token.get(0))
                .and_then(Value::as_str);
            let text = given.or_else(|| self.text(otherwise)).map(str::to_owned);
            if let Some(text) = text {
                self.set_text(role, &text);
            }
        }
    }

    /// What stands before and after one text, and between two.
    fn read_processing_template(&mut self, part: &Value) {
        let list = |key: &str| {
            part.get(key)
                .and_then(Value::as_array)
                .map_or(&[][..], Vec::as_slice)
        };
        let single = list("single");
        let (mut first, mut last) = (None, None);
        if single.len() > 1 {
            first = single.first().and_then(special_id);
            last = single.last().and_then(special_id);
            if let Some(text) = first {
                self.set_first(text);
            }
            if let Some(text) = last {
                self.set_last(text);
            }
        }
        self.set_between(list("pair"), first, last);
    }

    fn set_first(&mut self, text: &str) {
        if !self.is("bos", text) && !self.is("cls", text) {
            for role in ["bos", "cls"] {
                // Without a configuration only the beginning is known from here.
                if self.text(role).is_none() && (self.has_config || role == "bos") {
                    self.set_text(role, text);
                }
            }
        }
        let known = self.is("bos", text) || self.is("cls", text);
        if !known {
            self.warnings.push(format!(
                "{text} begins texts, but is not the beginning token"
            ));
        }
        self.special.set_add("bos", known);
    }

    /// The token after a text is the end; one that was called so becomes the end of a turn.
    fn set_last(&mut self, text: &str) {
        if !self.is("eos", text) {
            let former = self.text("eos").map(str::to_owned);
            let free = ["eot", "eom"]
                .into_iter()
                .find(|role| !self.roles.contains(role));
            match (free, former) {
                (Some(role), Some(former)) if self.has_config => {
                    self.roles.push(role);
                    self.set_text(role, &former);
                }
                _ => {}
            }
            self.set_text("eos", text);
        }
        self.special.set_add("eos", true);
    }

    /// Whether a separator stands between two texts: `[first] A separator [end] B [last]`.
    fn set_between(&mut self, pair: &[Value], first: Option<&str>, last: Option<&str>) {
        let skips_first = first.is_some() && pair.first().and_then(special_id) == first;
        let skips_last = last.is_some() && pair.last().and_then(special_id) == last;
        let end = pair.len().saturating_sub(usize::from(skips_last));
        let Some([a, between @ .., b]) = pair.get(usize::from(skips_first)..end) else {
            return;
        };
        let is_text = |token: &Value, id: &str| {
            token
                .get("Sequence")
                .and_then(|text| text.get("id"))
                .and_then(Value::as_str)
                == Some(id)
        };
        if !is_text(a, "A") || !is_text(b, "B") || between.is_empty() {
            return;
        }
        let separates = |token: &Value| {
            special_id(token).is_some_and(|text| self.is("sep", text) || self.is("eos", text))
        };
        let mut add = separates(&between[0]) && last.is_none();
        if let [_, second] = between {
            add |= separates(second);
        }
        self.special.set_add("sep", add);
        if add
            && self.text("sep").is_none()
            && self.has_config
            && let Some(text) = self.text("eos").map(str::to_owned)
        {
            self.set_text("sep", &text);
        }
    }

    /// Flags and texts of `tokenizer_config.json`. A text counts if it is an added token of `tokenizer.json`.
    fn read_config(&mut self, files: &Files) {
        for role in self.roles.clone() {
            if let Some(add) = files.config_bool(&format!("add_{role}_token")) {
                match self.special.add(role) {
                    None => self.special.set_add(role, add),
                    Some(found) if found != add => self.warnings.push(format!(
                        "add_{role}_token is {add} in tokenizer_config.json, but {found} by tokenizer.json, which counts"
                    )),
                    Some(_) => {}
                }
            }
            let added = files.json.iter().flat_map(|json| &json.added_tokens);
            let text = self.text(role);
            let found = added
                .filter(|token| Some(token.content.as_str()) == text)
                .map(|token| token.id);
            if let Some(id) = found.into_iter().next() {
                self.set_id(role, id);
            }
        }
    }

    /// Ids of `config.json`; a list of ids, as of several ends, says nothing here.
    fn read_model_config(&mut self, files: &Files) {
        let inner = files.model_config.get("text_config");
        for role in self.roles.clone() {
            let key = format!("{role}_token_id");
            let outer = files
                .model_config
                .get(&key)
                .filter(|value| !value.is_null());
            let value = outer.or_else(|| inner?.get(&key));
            match value.map(|value| (value.as_u64(), value.as_i64())) {
                Some((Some(id), _)) => self.set_id(role, id),
                Some((None, Some(id))) => {
                    self.warnings
                        .push(format!("{key} is {id} in config.json and is left out"));
                }
                _ => {}
            }
        }
    }

    /// The first id of a role counts.
    fn set_id(&mut self, role: &'static str, id: u64) {
        if self.special.ids.iter().any(|(known, _)| *known == role) {
            return;
        }
        match u32::try_from(id) {
            Ok(id) if (id as usize) < self.n_tokens => self.special.ids.push((role, id)),
            _ => self.warnings.push(format!(
                "the {role} token {id} is left out: there are only {} tokens",
                self.n_tokens
            )),
        }
    }
}

/// The text of a special token in a template of the post-processor.
fn special_id(token: &Value) -> Option<&str> {
    let id = token.get("SpecialToken")?.get("id")?.as_str()?;
    (!id.is_empty()).then_some(id)
}
