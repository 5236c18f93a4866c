//! Who made the model and what it is called: the `general.…` entries, from the model card, the configuration, the
//! folder's name, `generation_config.json` and an override file.

mod card;
mod model_id;
mod overrides;
#[cfg(test)]
mod tests;

use crate::ConvertError;
use crate::small_file::{read_json, read_text};
use card::Yaml;
use gristmill_gguf::{Metadata, StringArray, Value as Entry};
use model_id::{ModelId, title};
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::path::Path;

/// Text entries below `general.`, in the order in which they are written.
const TEXT_KEYS: &[&str] = &[
    "name",
    "author",
    "version",
    "organization",
    "finetune",
    "basename",
    "description",
    "quantized_by",
    "size_label",
    "license",
    "license.name",
    "license.link",
    "url",
    "doi",
    "uuid",
    "repo_url",
    "source.url",
    "source.doi",
    "source.uuid",
    "source.repo_url",
];

/// Keys of a model card that name a text entry; for each entry the first that is there counts.
pub(crate) const CARD_KEYS: &[(&str, &str)] = &[
    ("name", "name"),
    ("author", "author"),
    ("version", "version"),
    ("organization", "organization"),
    ("description", "description"),
    ("finetune", "finetune"),
    ("basename", "basename"),
    ("size_label", "size_label"),
    ("source.url", "url"),
    ("source.doi", "doi"),
    ("source.uuid", "uuid"),
    ("source.repo_url", "repo_url"),
    ("name", "model_name"),
    ("author", "model_author"),
    ("version", "model_version"),
    ("organization", "model_organization"),
    ("description", "model_description"),
    ("finetune", "model_finetune"),
    ("basename", "model_basename"),
    ("size_label", "model_size_label"),
    ("source.url", "model_url"),
    ("source.doi", "model_doi"),
    ("source.uuid", "model_uuid"),
    ("source.repo_url", "model_repo_url"),
    ("author", "model_creator"),
    ("basename", "model_type"),
    ("license", "license"),
    ("license.name", "license_name"),
    ("license.link", "license_link"),
];

/// Entries of a base model or data set, in the order in which they are written.
pub(crate) const ORIGIN_KEYS: &[&str] = &[
    "name",
    "author",
    "version",
    "organization",
    "description",
    "url",
    "doi",
    "uuid",
    "repo_url",
];

/// Entries below `general.sampling.`, with their names in `generation_config.json`, of which the first counts.
const SAMPLING_KEYS: &[(&str, &[&str], SamplingKind)] = &[
    ("sequence", &["sequence"], SamplingKind::Text),
    ("top_k", &["top_k"], SamplingKind::Integer),
    ("top_p", &["top_p"], SamplingKind::Float),
    ("min_p", &["min_p"], SamplingKind::Float),
    ("xtc_probability", &["xtc_probability"], SamplingKind::Float),
    ("xtc_threshold", &["xtc_threshold"], SamplingKind::Float),
    ("temp", &["temperature"], SamplingKind::Float),
    ("penalty_last_n", &["penalty_last_n"], SamplingKind::Integer),
    (
        "penalty_repeat",
        &["penalty_repeat", "repetition_penalty"],
        SamplingKind::Float,
    ),
    ("mirostat", &["mirostat"], SamplingKind::Integer),
    ("mirostat_tau", &["mirostat_tau"], SamplingKind::Float),
    ("mirostat_eta", &["mirostat_eta"], SamplingKind::Float),
];

#[derive(Clone, Copy)]
enum SamplingKind {
    Text,
    Integer,
    Float,
}

/// Where to look, besides the folder.
pub(crate) struct Given<'a> {
    /// Name given by the user.
    pub name: Option<&'a str>,
    /// File with entries that go before all others.
    pub overrides: Option<&'a Path>,
    /// Size of the model.
    pub size: Size,
}

/// What is known of a model's size.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Size {
    /// Number of parameters; 0 where no weights are looked at.
    pub n_params: u64,
    /// Whether these are of an adapter's matrices only, so that the model may have more.
    pub is_part: bool,
    /// Of a model with experts their number, and the parameters of the model with one of them.
    pub experts: Option<(u64, u64)>,
}

impl From<u64> for Size {
    fn from(n_params: u64) -> Self {
        Self {
            n_params,
            is_part: false,
            experts: None,
        }
    }
}

/// What is known about the model's origin.
#[derive(Debug, Default)]
pub(crate) struct Authorship {
    texts: HashMap<&'static str, String>,
    sampling: Vec<(&'static str, Entry)>,
    base_models: Option<Vec<Origin>>,
    datasets: Option<Vec<Origin>>,
    tags: Vec<String>,
    languages: Vec<String>,
}

/// A base model or data set: texts by key.
type Origin = HashMap<String, String>;

/// The repository whose commit a folder holds in a cache of the hub's tools: `models--ORG--NAME/snapshots/COMMIT`. The folder's
/// own name tells nothing there.
fn repository(folder: &Path) -> Option<String> {
    let snapshots = folder.parent()?;
    let kept = snapshots.parent()?.file_name()?.to_str()?;
    let name = kept.strip_prefix("models--")?.replace("--", "/");
    (snapshots.file_name()? == "snapshots" && !name.is_empty()).then_some(name)
}

impl Authorship {
    /// Gathers what a folder says, and its `config.json`. What cannot be read there never stops a conversion, but is told in
    /// `warnings`.
    ///
    /// # Errors
    /// An override file that cannot be read.
    pub fn load(
        folder: &Path,
        config: &Value,
        given: &Given<'_>,
        warnings: &mut Vec<String>,
    ) -> Result<Self, ConvertError> {
        let mut found = Self::default();
        let card = optional(read_text(&folder.join("README.md")), warnings);
        if let Some(card) = card.as_deref().and_then(card::front_matter) {
            found.read_card(&card, given.size);
        }
        if let Some(id) = config.get("_name_or_path").and_then(Value::as_str)
            // More slashes make it a path on somebody's disk.
            && !id.is_empty()
            && id.matches('/').count() <= 1
        {
            found.fill(ModelId::parse(id, given.size));
        }
        let absolute = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
        let resolved = match absolute.file_name() {
            Some(_) => absolute,
            None => folder.canonicalize().unwrap_or(absolute),
        };
        if let Some(name) = repository(&resolved) {
            found.fill(ModelId::parse(&name, given.size));
        } else if let Some(name) = resolved.file_name() {
            found.fill(ModelId::parse(&name.to_string_lossy(), given.size));
        }
        let generation = read_json(&folder.join("generation_config.json"));
        let generation: Value = optional(generation, warnings).unwrap_or_default();
        found.sampling = sampling(&generation, "");
        if let Some(path) = given.overrides {
            let overrides: Option<Value> = read_json(path)?;
            let missing = || {
                let missing = std::io::Error::from(std::io::ErrorKind::NotFound);
                ConvertError::io(path, "open the file", missing)
            };
            let overrides = overrides.ok_or_else(missing)?;
            warnings.extend(overrides::left_out(path, &overrides)?);
            found.override_with(&overrides);
        }
        if let Some(name) = given.name {
            found.texts.insert("name", name.to_owned());
        }
        if given.size.n_params > 0 && !given.size.is_part {
            found
                .texts
                .entry("size_label")
                .or_insert_with(|| match given.size.experts {
                    Some((n, n_params)) => format!("{n}x{}", model_id::size_of(n_params)),
                    None => model_id::size_of(given.size.n_params),
                });
        }
        Ok(found)
    }

    /// A text entry below `general.`.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.texts.get(key).map(String::as_str)
    }

    /// Writes the entries, in the reference's order. Empty texts and lists are left out.
    pub fn write(&self, metadata: &mut Metadata) {
        for (key, value) in &self.sampling {
            metadata.set(format!("general.sampling.{key}"), value.clone());
        }
        for key in TEXT_KEYS {
            if let Some(text) = self.text(key).filter(|text| !text.is_empty()) {
                metadata.set(format!("general.{key}"), text);
            }
        }
        write_origins("base_model", self.base_models.as_deref(), metadata);
        write_origins("dataset", self.datasets.as_deref(), metadata);
        for (key, list) in [("tags", &self.tags), ("languages", &self.languages)] {
            if !list.is_empty() {
                metadata.set(
                    format!("general.{key}"),
                    list.iter().collect::<StringArray>(),
                );
            }
        }
    }

    fn read_card(&mut self, card: &Yaml, size: Size) {
        for (key, card_key) in CARD_KEYS {
            let texts = card.get(card_key).map(Yaml::texts).unwrap_or_default();
            if !texts.is_empty() && !self.texts.contains_key(key) {
                self.texts.insert(key, texts.join(","));
            }
        }
        let origins = |keys: [&str; 3]| {
            let stated = keys.iter().find_map(|key| card.get(key))?;
            let items = match stated {
                Yaml::List(items) => items.as_slice(),
                Yaml::Null => &[],
                single => std::slice::from_ref(single),
            };
            Some(items.iter().map(|item| origin(item, size)).collect())
        };
        self.base_models = origins(["base_model", "base_models", "base_model_sources"]);
        self.datasets = origins(["datasets", "dataset", "dataset_sources"]);
        let texts = |keys: [&str; 2]| {
            keys.iter()
                .filter_map(|key| card.get(key))
                .flat_map(Yaml::texts)
                .collect::<Vec<_>>()
        };
        self.tags = texts(["tags", "pipeline_tag"]);
        self.languages = texts(["languages", "language"]);
    }

    /// Takes from a name what nothing said before.
    fn fill(&mut self, id: ModelId) {
        let parts = [
            ("name", id.name.as_deref().map(title)),
            ("organization", id.organization.as_deref().map(title)),
            ("basename", id.basename),
            ("finetune", id.finetune),
            ("version", id.version),
            ("size_label", id.size_label),
        ];
        for (key, text) in parts {
            if let Some(text) = text {
                self.texts.entry(key).or_insert(text);
            }
        }
    }

    fn override_with(&mut self, overrides: &Value) {
        let text = |key: &str| {
            overrides
                .get(format!("general.{key}"))
                .and_then(Value::as_str)
                .map(str::to_owned)
        };
        for key in TEXT_KEYS {
            if let Some(text) = text(key) {
                self.texts.insert(key, text);
            }
        }
        for (key, value) in sampling(overrides, "general.sampling.") {
            self.sampling.retain(|(known, _)| *known != key);
            self.sampling.push((key, value));
        }
        let place = |key: &str| SAMPLING_KEYS.iter().position(|(known, ..)| *known == key);
        self.sampling.sort_by_key(|(key, _)| place(key));
        let origins = |key: &str| {
            let items = overrides
                .get(key)?
                .as_array()?
                .iter()
                .filter_map(Value::as_object);
            let texts = items.map(|item| {
                let text = |(key, value): (&String, &Value)| {
                    Some((key.clone(), value.as_str()?.to_owned()))
                };
                item.iter().filter_map(text).collect()
            });
            Some(texts.collect())
        };
        self.base_models = origins("general.base_models").or(self.base_models.take());
        self.datasets = origins("general.datasets").or(self.datasets.take());
        for (key, list) in [
            ("general.tags", &mut self.tags),
            ("general.languages", &mut self.languages),
        ] {
            if let Some(items) = overrides.get(key).and_then(Value::as_array) {
                *list = items
                    .iter()
                    .filter_map(|item| item.as_str().map(str::to_owned))
                    .collect();
            }
        }
    }
}

/// What a file says that a conversion can do without; a file that cannot be read gets a warning.
fn optional<T>(read: Result<Option<T>, ConvertError>, warnings: &mut Vec<String>) -> Option<T> {
    read.unwrap_or_else(|error| {
        warnings.push(format!("{error}: the file is left out"));
        None
    })
}

fn sampling(source: &Value, prefix: &str) -> Vec<(&'static str, Entry)> {
    let value = |&(key, names, kind): &(&'static str, &[&str], SamplingKind)| {
        // In an override file the entries have their GGUF names.
        let own = [key];
        let names = if prefix.is_empty() { names } else { &own };
        let value = names
            .iter()
            .find_map(|name| source.get(format!("{prefix}{name}")))?;
        let entry = match kind {
            SamplingKind::Text => Entry::from(value.as_str().filter(|text| !text.is_empty())?),
            SamplingKind::Integer => Entry::from(i32::try_from(value.as_i64()?).ok()?),
            SamplingKind::Float => Entry::from(value.as_f64()? as f32),
        };
        Some((key, entry))
    };
    SAMPLING_KEYS.iter().filter_map(value).collect()
}

/// Writes what `general.sampling.` says as `generation_config.json` states it; false where it says nothing.
pub(crate) fn write_sampling(metadata: &Metadata, values: &mut Map<String, Value>) -> bool {
    let n_before = values.len();
    for (key, names, _) in SAMPLING_KEYS {
        let value = match metadata.get(&format!("general.sampling.{key}")) {
            // The fewest digits that give the number back.
            Some(Entry::F32(value)) => value.to_string().parse::<f64>().ok().map(Value::from),
            Some(Entry::I32(value)) => Some(Value::from(*value)),
            Some(value) => value
                .as_text()
                .and_then(|text| text.to_str())
                .map(Value::from),
            None => None,
        };
        // The last name is the one that Hugging Face's library has.
        if let (Some(value), Some(name)) = (value, names.last()) {
            values.insert((*name).to_owned(), value);
        }
    }
    values.len() > n_before
}

/// A base model or data set: an identifier on the hub, an address, or entries as they are.
fn origin(item: &Yaml, size: Size) -> Origin {
    let id = match item {
        Yaml::Text(id) => id,
        Yaml::Map(entries) => {
            let text =
                |(key, value): &(String, Yaml)| Some((key.clone(), value.text()?.to_owned()));
            return entries.iter().filter_map(text).collect();
        }
        _ => return Origin::new(),
    };
    let is_address = ["http://", "https://", "ssh://"]
        .iter()
        .any(|scheme| id.starts_with(scheme));
    let hub_id = if is_address {
        hub_id(id)
    } else {
        Some(id.as_str())
    };
    let parsed = hub_id
        .map(|id| ModelId::parse(id, size))
        .unwrap_or_default();
    let repository = match (is_address, &parsed.organization, &parsed.name) {
        (true, ..) => Some(id.clone()),
        (false, Some(organization), Some(name)) => {
            Some(format!("https://huggingface.co/{organization}/{name}"))
        }
        _ => None,
    };
    let entries = [
        ("name", parsed.name.as_deref().map(title)),
        ("organization", parsed.organization.as_deref().map(title)),
        ("version", parsed.version),
        ("repo_url", repository),
    ];
    entries
        .into_iter()
        .filter_map(|(key, text)| Some((key.to_owned(), text?)))
        .collect()
}

/// `org/name` of an address on the hub.
fn hub_id(address: &str) -> Option<&str> {
    let rest = address
        .strip_prefix("https://")
        .or_else(|| address.strip_prefix("http://"))?;
    let id = rest.strip_prefix("huggingface.co/")?;
    let (organization, name) = id.split_once('/')?;
    (!organization.is_empty() && !name.is_empty() && !name.contains('/')).then_some(id)
}

fn write_origins(kind: &str, origins: Option<&[Origin]>, metadata: &mut Metadata) {
    let Some(origins) = origins else { return };
    metadata.set(format!("general.{kind}.count"), origins.len() as u32);
    for (index, origin) in origins.iter().enumerate() {
        for key in ORIGIN_KEYS {
            if let Some(text) = origin.get(*key).filter(|text| !text.is_empty()) {
                metadata.set(format!("general.{kind}.{index}.{key}"), text.as_str());
            }
        }
    }
}
