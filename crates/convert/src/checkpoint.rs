//! A checkpoint folder: its configuration, and every tensor in its files.

use crate::ConvertError;
use crate::error::{N_NAMES, NoFolder};
use crate::safetensors_file::{Entry, read_header};
use crate::scaled::{Scale, Scheme};
use crate::small_file::read_json;
use crate::source::{LocalFile, Source};
use crate::tokenizer::ADDITIONAL_TEMPLATES;
use gristmill_model::{Config, Pooling};
use safetensors::Dtype;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::io::Read as _;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

pub(crate) const INDEX: &str = "model.safetensors.index.json";

/// A checkpoint, checked as far as it can be without reading weights.
pub struct Checkpoint {
    /// The folder.
    pub folder: PathBuf,
    /// Its `config.json`, as it is.
    pub stated: Value,
    /// Its `config.json`, understood.
    pub config: Config,
    /// The files with weights, sorted by name.
    pub files: Vec<Box<dyn Source>>,
    /// All tensors but scales of others: file by file, sorted by name in each.
    pub tensors: Vec<CheckpointTensor>,
}

/// A tensor of a checkpoint.
#[derive(Clone, Debug)]
pub struct CheckpointTensor {
    /// Name, type, shape and place.
    pub entry: Entry,
    /// Index of its file.
    pub file: usize,
    /// What its elements are multiplied by.
    pub(crate) scale: Option<Arc<Scale>>,
}

impl Checkpoint {
    /// Opens a folder: reads its configuration, finds its files with weights, reads their headers and checks them against
    /// the index.
    ///
    /// # Errors
    /// A missing or malformed file, an unsupported class, a checkpoint that is quantized already, an index that does not
    /// fit the files.
    pub fn open(folder: &Path) -> Result<Self, ConvertError> {
        Self::open_with(folder, true)
    }

    /// The same for a folder that may lack weights.
    ///
    /// # Errors
    /// As [`Checkpoint::open`], where there are weights.
    pub fn open_without_weights(folder: &Path) -> Result<Self, ConvertError> {
        Self::open_with(folder, find_files(folder).is_ok())
    }

    fn open_with(folder: &Path, has_weights: bool) -> Result<Self, ConvertError> {
        if !folder.is_dir() {
            return Err(ConvertError::NotAFolder {
                path: folder.to_owned(),
                found: in_place_of_folder(folder),
            });
        }
        let (stated, config, scheme) = read_config(folder)?;
        let index = folder.join(INDEX);
        let weight_map = if has_weights && index.is_file() {
            Some(read_index(&index)?)
        } else {
            None
        };
        let names = match &weight_map {
            Some(map) => {
                let files: BTreeSet<&String> = map.values().collect();
                files.into_iter().cloned().collect()
            }
            None if has_weights => find_files(folder)?,
            None => Vec::new(),
        };
        if let Some(missing) = missing_files(folder, &names) {
            return Err(match (&weight_map, missing.first()) {
                // They were found in the folder, so they are there and something else.
                (None, Some(name)) => not_a_file(folder.join(name)),
                _ => ConvertError::MissingShards {
                    index,
                    files: missing,
                },
            });
        }
        let mut files: Vec<Box<dyn Source>> = Vec::with_capacity(names.len());
        let mut tensors = Vec::new();
        for (file, name) in names.iter().enumerate() {
            let source = LocalFile::open(&folder.join(name))?;
            let unscaled = |entry| CheckpointTensor {
                entry,
                file,
                scale: None,
            };
            tensors.extend(read_header(&source)?.into_iter().map(unscaled));
            files.push(Box::new(source));
        }
        check_duplicates(&tensors, &files)?;
        if let Some(map) = &weight_map {
            check_index(&index, map, &names, &tensors)?;
        }
        if let Some(scheme) = scheme {
            scheme.pair(&mut tensors, &files)?;
        }
        Ok(Self {
            folder: folder.to_owned(),
            stated,
            config,
            files,
            tensors,
        })
    }

    /// The file or folder that a tensor is read from, for errors.
    pub fn file_of(&self, tensor: Option<usize>) -> &Path {
        let file = tensor.and_then(|tensor| self.files.get(self.tensors.get(tensor)?.file));
        file.map_or(&self.folder, |file| file.path())
    }

    /// Every file that is part of the checkpoint, none of which an output may replace: all of the folder but GGUF files,
    /// and its further chat templates.
    pub fn inputs(&self) -> Vec<PathBuf> {
        let weights = self.files.iter().map(|file| file.path().to_owned());
        let folders = [self.folder.clone(), self.folder.join(ADDITIONAL_TEMPLATES)];
        let entries = folders
            .iter()
            .filter_map(|folder| fs::read_dir(folder).ok());
        let beside = entries
            .flatten()
            .filter_map(|entry| Some(entry.ok()?.path()));
        let beside =
            beside.filter(|path| path.extension().is_none_or(|extension| extension != "gguf"));
        weights
            .chain(beside.filter(|path| path.is_file()))
            .collect()
    }

    /// The 16-bit type that loses least: that of the first matrix that has one, else F16.
    pub fn half_dtype(&self) -> Dtype {
        self.first_half().unwrap_or(Dtype::F16)
    }

    /// The checkpoint's own float type: that of the first matrix in 16 bits, else F32.
    pub fn float_dtype(&self) -> Dtype {
        self.first_half().unwrap_or(Dtype::F32)
    }

    fn first_half(&self) -> Option<Dtype> {
        let matrices = self
            .tensors
            .iter()
            .filter(|tensor| tensor.entry.shape.len() > 1);
        let mut halves = matrices
            .map(|tensor| tensor.entry.dtype)
            .filter(|dtype| matches!(dtype, Dtype::BF16 | Dtype::F16));
        halves.next()
    }
}

/// Reads the `config.json` of a checkpoint to convert: as it is, with its architecture, and with the scheme by which its weights
/// have scales.
fn read_config(folder: &Path) -> Result<(Value, Config, Option<Scheme>), ConvertError> {
    let stated = read_stated(folder)?;
    // Before the class: a quantized checkpoint of an unknown class is refused for the reason that stays.
    let stated_scheme = quantization_scheme(folder, &stated)?;
    let scheme = stated_scheme.as_ref().and_then(Scheme::of);
    if let (Some(unknown), None) = (&stated_scheme, scheme) {
        let path = folder.join("config.json");
        let scheme = named_scheme(unknown);
        return Err(ConvertError::QuantizedSource { path, scheme });
    }
    let mut config = understood(folder, &stated)?;
    config.pooling = pooling(folder)?;
    Ok((stated, config, scheme))
}

/// Reads the `config.json` of a model whose weights are not needed, however they are stored.
pub(crate) fn read_description(folder: &Path) -> Result<Config, ConvertError> {
    understood(folder, &read_stated(folder)?)
}

fn understood(folder: &Path, stated: &Value) -> Result<Config, ConvertError> {
    Config::from_value(stated.clone()).map_err(|error| ConvertError::from(error).of(folder))
}

fn read_stated(folder: &Path) -> Result<Value, ConvertError> {
    let path = folder.join("config.json");
    let missing = || match folder.join("adapter_config.json").is_file() {
        true => ConvertError::Adapter {
            path: folder.to_owned(),
        },
        false => ConvertError::MissingFile {
            path: folder.to_owned(),
            missing: "config.json",
        },
    };
    read_json(&path)?.ok_or_else(missing)
}

/// How a sentence transformer pools: the settings of the first module that does.
///
/// # Errors
/// A damaged file, or a way of pooling that no GGUF file can name.
fn pooling(folder: &Path) -> Result<Option<Pooling>, ConvertError> {
    let modules: Option<Vec<Value>> = read_json(&folder.join("modules.json"))?;
    let field = |module: &Value, key: &str| module.get(key)?.as_str().map(str::to_owned);
    let pools = |module: &&Value| field(module, "type").is_some_and(|ty| ty.ends_with("Pooling"));
    let Some(place) = modules.iter().flatten().find(pools) else {
        return Ok(None);
    };
    let place = PathBuf::from(field(place, "path").unwrap_or_default());
    let path = folder.join(&place).join("config.json");
    // A folder tells about itself only.
    let is_inside = |part| matches!(part, Component::Normal(_));
    if !place.components().all(is_inside) {
        return Err(ConvertError::Pooling { path });
    }
    let settings: Value = read_json(&path)?.unwrap_or_default();
    let is_on = |key: &&str| settings.get(*key) == Some(&Value::Bool(true));
    let named = field(&settings, "pooling_mode");
    let kinds = [
        ("pooling_mode_mean_tokens", "mean", Pooling::Mean),
        ("pooling_mode_cls_token", "cls", Pooling::Cls),
        ("pooling_mode_lasttoken", "lasttoken", Pooling::Last),
    ];
    let switched = kinds.iter().find(|(key, ..)| is_on(key));
    let by_name = || {
        kinds
            .iter()
            .find(|(_, name, _)| named.as_deref() == Some(*name))
    };
    match switched.or_else(by_name) {
        Some((.., pooling)) => Ok(Some(*pooling)),
        None => Err(ConvertError::Pooling { path }),
    }
}

/// How a checkpoint is quantized, as its configuration describes it.
///
/// # Errors
/// A damaged `hf_quant_config.json`.
fn quantization_scheme(folder: &Path, config: &Value) -> Result<Option<Value>, ConvertError> {
    let stated = |value: &Value| {
        value
            .get("quantization_config")
            .filter(|scheme| scheme.is_object())
            .cloned()
    };
    let in_config = stated(config).or_else(|| stated(config.get("text_config")?));
    if in_config.is_some() {
        return Ok(in_config);
    }
    let beside: Option<Value> = read_json(&folder.join("hf_quant_config.json"))?;
    Ok(beside.and_then(|beside| beside.get("quantization").cloned()))
}

/// A scheme by what it says of itself.
fn named_scheme(scheme: &Value) -> String {
    let names = [
        "quant_method",
        "quant_algo",
        "format",
        "fmt",
        "bits",
        "load_in_4bit",
        "load_in_8bit",
    ];
    let parts = names.iter().filter_map(|name| {
        let value = scheme
            .get(*name)
            .filter(|value| !value.is_null() && **value != Value::Bool(false))?;
        Some(format!(
            "{name} {}",
            value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned)
        ))
    });
    let parts: Vec<String> = parts.collect();
    if parts.is_empty() {
        "by an unnamed method".to_owned()
    } else {
        parts.join(", ")
    }
}

/// The weight map of an index: tensor to file.
fn read_index(path: &Path) -> Result<BTreeMap<String, String>, ConvertError> {
    let wrong = |reason: String| ConvertError::Json {
        path: path.to_owned(),
        reason,
    };
    let index: Value = read_json(path)?.unwrap_or_default();
    let map = index.get("weight_map").and_then(Value::as_object);
    let map = map.ok_or_else(|| wrong("no `weight_map` from tensors to files".to_owned()))?;
    let entry = |(tensor, file): (&String, &Value)| {
        // A file beside the index, and nothing that leads elsewhere.
        let plain = |name: &&str| {
            Path::new(name)
                .file_name()
                .is_some_and(|file| file == *name)
        };
        match file.as_str().filter(plain) {
            Some(file) => Ok((tensor.clone(), file.to_owned())),
            None => Err(wrong(format!(
                "`{tensor}` is placed in {file}, which is no file name"
            ))),
        }
    };
    map.iter().map(entry).collect()
}

/// Files with weights in a folder without an index.
fn find_files(folder: &Path) -> Result<Vec<String>, ConvertError> {
    let entries = fs::read_dir(folder)
        .map_err(|source| ConvertError::io(folder, "list the folder", source))?;
    let names: BTreeSet<String> = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect();
    let found: Vec<String> = names
        .iter()
        .filter(|name| name.starts_with("model") && name.ends_with(".safetensors"))
        .cloned()
        .collect();
    if let Some(first) = found.first() {
        check_complete(folder, first, &names)?;
        return Ok(found);
    }
    let is_pickled = |name: &String| {
        let endings = [".bin", ".pth", ".pt"];
        endings.iter().any(|ending| name.ends_with(ending))
    };
    let path = folder.to_owned();
    Err(match names.iter().any(is_pickled) {
        true => ConvertError::Pickled { path },
        false => ConvertError::MissingFile {
            path,
            missing: "model*.safetensors",
        },
    })
}

/// Checks that a folder has all files of a set, where a file's name (`model-00001-of-00002.safetensors`) counts them.
fn check_complete(folder: &Path, name: &str, names: &BTreeSet<String>) -> Result<(), ConvertError> {
    let stem = name.strip_suffix(".safetensors").unwrap_or(name);
    let parts = stem.rsplit_once("-of-").and_then(|(start, count)| {
        let (base, number) = start.rsplit_once('-')?;
        let is_number = |text: &str| text.len() == 5 && text.bytes().all(|b| b.is_ascii_digit());
        (is_number(number) && is_number(count)).then_some((base, count))
    });
    let Some((base, count)) = parts else {
        return Ok(());
    };
    // Five digits, so it is one and the loop is short.
    let n_files: usize = count.parse().unwrap_or(0);
    let expected = (1..=n_files).map(|number| format!("{base}-{number:05}-of-{count}.safetensors"));
    let missing: Vec<String> = expected.filter(|name| !names.contains(name)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(ConvertError::IncompleteSet {
        path: folder.to_owned(),
        name: name.to_owned(),
        n_files,
        n_missing: missing.len(),
        missing: missing.into_iter().take(N_NAMES).collect(),
    })
}

/// What stands where a folder was expected.
fn in_place_of_folder(path: &Path) -> NoFolder {
    let mut first = Vec::new();
    let read = match fs::metadata(path) {
        Ok(about) if about.is_file() => fs::File::open(path)
            .and_then(|file| file.take(4).read_to_end(&mut first))
            .is_ok(),
        Ok(_) => false,
        Err(_) => {
            let is_plain = |part: Component<'_>| matches!(part, Component::Normal(_));
            let is_name = path.components().count() == 2 && path.components().all(is_plain);
            return match is_name {
                true => NoFolder::HubName,
                false => NoFolder::Nothing,
            };
        }
    };
    match &*first {
        b"GGUF" if read => NoFolder::Gguf,
        [b'P', b'K', ..] | [0x1f, 0x8b, ..] => NoFolder::Archive,
        _ => NoFolder::File,
    }
}

/// What stands at the path of a file of weights instead.
fn not_a_file(path: PathBuf) -> ConvertError {
    let found = match fs::metadata(&path) {
        Err(_) => "a link to a file that is not there",
        Ok(about) if about.is_dir() => "a folder",
        Ok(_) => "a device or a pipe, not a file",
    };
    ConvertError::NotAFile { path, found }
}

fn missing_files(folder: &Path, names: &[String]) -> Option<Vec<String>> {
    let missing: Vec<String> = names
        .iter()
        .filter(|name| !folder.join(name).is_file())
        .cloned()
        .collect();
    (!missing.is_empty()).then_some(missing)
}

fn check_duplicates(
    tensors: &[CheckpointTensor],
    files: &[Box<dyn Source>],
) -> Result<(), ConvertError> {
    let mut seen = HashMap::with_capacity(tensors.len());
    for tensor in tensors {
        if let Some(first) = seen.insert(tensor.entry.name.as_str(), tensor.file) {
            return Err(ConvertError::DuplicateTensor {
                tensor: tensor.entry.name.clone(),
                first: files[first].path().to_owned(),
                second: files[tensor.file].path().to_owned(),
            });
        }
    }
    Ok(())
}

/// Checks that every tensor is where the index says, and that there are no others.
fn check_index(
    index: &Path,
    map: &BTreeMap<String, String>,
    names: &[String],
    tensors: &[CheckpointTensor],
) -> Result<(), ConvertError> {
    let mismatch = |tensor: &str, expected: &str, found: String| ConvertError::IndexMismatch {
        index: index.to_owned(),
        tensor: tensor.to_owned(),
        expected: expected.to_owned(),
        found,
    };
    let places: HashMap<&str, &String> = tensors
        .iter()
        .map(|tensor| (tensor.entry.name.as_str(), &names[tensor.file]))
        .collect();
    for (tensor, expected) in map {
        match places.get(tensor.as_str()) {
            Some(found) if *found == expected => {}
            Some(found) => return Err(mismatch(tensor, expected, format!("it is in {found}"))),
            None => return Err(mismatch(tensor, expected, "no file has it".to_owned())),
        }
    }
    match tensors
        .iter()
        .find(|tensor| !map.contains_key(&tensor.entry.name))
    {
        Some(tensor) => {
            let found = format!("it is in {}", names[tensor.file]);
            Err(mismatch(&tensor.entry.name, "no file", found))
        }
        None => Ok(()),
    }
}
