//! A GGUF file becomes a Hugging Face folder: the way back of a conversion.
//!
//! ```text
//! metadata --reverse--> config.json            tensor table, turned around --> model*.safetensors
//!        \--> tokenizer.json, tokenizer_config.json, chat templates, generation_config.json, README.md
//! ```
//!
//! When the folder stands, its metadata is converted once more and compared with the file's: what does not come back is
//! named.

mod card;
mod sentence_piece;
mod tokenizer;
mod weights;
mod word_piece;

use std::io::Write as _;
use std::path::{Path, PathBuf};

use gristmill_gguf::{Metadata, Model, OutputFile, StagedFile, WriteOptions};
use gristmill_kernels::Pool;
use gristmill_model::{Hyperparameters, Pooling, ReverseSource, check_tensors};
use gristmill_quant::{F32, TensorType};
use serde_json::{Value, json};

use crate::ConvertError;
use crate::convert::folder_metadata;
use crate::progress::{Event, Progress};
use weights::Shards;

/// What to export, and how.
#[derive(Clone, Debug)]
pub struct ExportOptions {
    /// The GGUF file, or any shard of a set.
    pub input: PathBuf,
    /// The folder to write.
    pub folder: PathBuf,
    /// The type of all tensors; without one, float tensors keep theirs and others become F32.
    pub output_type: Option<TensorType>,
    /// The largest size of a file with weights, in bytes.
    pub shard_bytes: u64,
    /// Replace files that are there.
    pub force: bool,
    /// Threads; 0 for as many as the machine has.
    pub n_threads: usize,
}

/// What an export did.
#[derive(Clone, Debug)]
pub struct ExportReport {
    /// The folder.
    pub folder: PathBuf,
    /// The Hugging Face class.
    pub class: String,
    /// Files that were written, in order.
    pub files: Vec<String>,
    /// Tensors written.
    pub n_tensors: usize,
    /// Bytes of tensor data written.
    pub bytes: u64,
    /// What converting the folder would not give back, a sentence each.
    pub lost: Vec<String>,
}

/// Exports a file. Files get their names when all are complete, `config.json` last: without it nothing takes the folder for
/// a model.
///
/// # Errors
/// A file of another kind or architecture, tensors that are none of the architecture's, a tokenizer that cannot be
/// written, and what the disk says.
pub fn export(
    options: &ExportOptions,
    progress: Progress<'_>,
) -> Result<ExportReport, ConvertError> {
    let model = Model::open(&options.input)?;
    model.require_weights()?;
    export_model(&model, options, progress).map_err(|error| error.of(&options.input))
}

fn export_model(
    model: &Model,
    options: &ExportOptions,
    progress: Progress<'_>,
) -> Result<ExportReport, ConvertError> {
    let metadata = model.metadata();
    let hparams = Hyperparameters::from_metadata(metadata)?;
    let tensors = model.tensors().iter();
    let specs = check_tensors(
        &hparams,
        tensors.map(|tensor| (tensor.name.as_str(), tensor.dims.as_slice())),
    )?;
    let source = ReverseSource {
        metadata,
        hparams: &hparams,
        values: &|name| small_values(model, name),
        has: &|name| model.tensor(name).is_some(),
    };
    let reversed = source.reverse()?;
    let mut config = reversed.values;
    let files = tokenizer::files(metadata, &hparams, &mut config)?;
    let shards = Shards::plan(model, &specs, options)?;
    config.insert("dtype".into(), shards.main_dtype(&specs).into());
    let class = config
        .get("architectures")
        .and_then(|list| list.get(0)?.as_str());
    let class = class.unwrap_or_default().to_owned();
    let mut folder = Folder::create(model, options, &shards.names())?;
    shards.write(
        model,
        &mut folder,
        &Pool::new(gristmill_kernels::n_threads(options.n_threads)),
        progress,
    )?;
    for (name, bytes) in files {
        folder.write(&name, &bytes)?;
    }
    if hparams.causal {
        let generation = generation_config(metadata, &config);
        folder.write_json("generation_config.json", &generation)?;
    }
    write_pooling(&mut folder, &hparams)?;
    folder.write("README.md", card::card(metadata).as_bytes())?;
    folder.write_json("config.json", &config.into())?;
    let (n_tensors, bytes) = (shards.n_tensors(), shards.bytes());
    let files = folder.commit()?;
    let mut lost = lost(metadata, options)?;
    // Tensors that conversion computes are in no file of the folder.
    let of_tensors = reversed
        .lost
        .into_iter()
        .filter(|text| text.starts_with("tensor "));
    lost.extend(of_tensors);
    for text in &lost {
        progress(Event::Warning(text));
    }
    Ok(ExportReport {
        folder: options.folder.clone(),
        class,
        files,
        n_tensors,
        bytes,
        lost,
    })
}

/// The modules of a sentence transformer, where the model says how it pools.
fn write_pooling(folder: &mut Folder<'_>, hparams: &Hyperparameters) -> Result<(), ConvertError> {
    let way = match hparams.pooling {
        Some(Pooling::Mean) => "mean_tokens",
        Some(Pooling::Cls) => "cls_token",
        Some(Pooling::Last) => "lasttoken",
        Some(Pooling::None | Pooling::Rank) | None => return Ok(()),
    };
    let module = |index: u32, path: &str, kind: &str| {
        let kind = format!("sentence_transformers.models.{kind}");
        json!({ "idx": index, "name": index.to_string(), "path": path, "type": kind })
    };
    let modules = [
        module(0, "", "Transformer"),
        module(1, "1_Pooling", "Pooling"),
    ];
    let mut settings = json!({ "word_embedding_dimension": hparams.n_embd });
    for known in [
        "cls_token",
        "mean_tokens",
        "max_tokens",
        "mean_sqrt_len_tokens",
        "lasttoken",
    ] {
        settings[format!("pooling_mode_{known}")] = (known == way).into();
    }
    folder.write_json("modules.json", &json!(modules))?;
    folder.write_json("1_Pooling/config.json", &settings)
}

/// The values of a tensor that is no matrix.
fn small_values(model: &Model, name: &str) -> Option<Vec<f32>> {
    let tensor = model.tensor(name)?;
    let values = tensor.data.as_chunks::<4>().0.iter();
    let is_small = tensor.info.ty == F32 && tensor.info.dims.len() == 1;
    is_small.then(|| values.map(|bytes| f32::from_le_bytes(*bytes)).collect())
}

/// The entries of `generation_config.json`: tokens with a role, and how the model's maker would sample.
fn generation_config(metadata: &Metadata, config: &serde_json::Map<String, Value>) -> Value {
    let mut values = serde_json::Map::new();
    for role in ["bos_token_id", "eos_token_id", "pad_token_id"] {
        if let Some(id) = config.get(role).filter(|id| !id.is_null()) {
            values.insert(role.into(), id.clone());
        }
    }
    let eot = metadata.get("tokenizer.ggml.eot_token_id");
    let eot = eot.and_then(gristmill_gguf::Value::as_integer);
    let eos = values
        .get("eos_token_id")
        .and_then(Value::as_i64)
        .map(i128::from);
    if let (Some(eot), Some(eos)) = (eot, eos)
        && eot != eos
    {
        values.insert("eos_token_id".into(), json!([eos as i64, eot as i64]));
    }
    let is_sampled = crate::authorship::write_sampling(metadata, &mut values);
    if is_sampled {
        values.insert("do_sample".into(), true.into());
    }
    values.into()
}

/// What converting the folder would give otherwise, the weights apart.
fn lost(metadata: &Metadata, options: &ExportOptions) -> Result<Vec<String>, ConvertError> {
    let pre_tokenizer = metadata.str("tokenizer.ggml.pre").ok().flatten();
    let again = match folder_metadata(&options.folder, pre_tokenizer) {
        Ok(again) => again,
        Err(error) => {
            return Ok(vec![format!("the folder cannot be converted: {error}")]);
        }
    };
    // They say how the file is stored, not what the model is.
    let of_storage = |key: &str| {
        [
            "general.file_type",
            "general.quantization_version",
            "general.alignment",
        ]
        .contains(&key)
            || key.starts_with("split.")
            || key.starts_with("quantize.")
            || key == gristmill_gguf::edit::RESERVED_KEY
    };
    let mut lost = Vec::new();
    for (key, value) in metadata.iter().filter(|(key, _)| !of_storage(key)) {
        match again.get(key) {
            Some(found) if found == value => {}
            Some(_) => lost.push(format!("{key} comes back with another value")),
            None => lost.push(format!("{key} does not come back")),
        }
    }
    let added = again
        .iter()
        .filter(|(key, _)| !of_storage(key) && !metadata.contains(key));
    lost.extend(added.map(|(key, _)| format!("{key} comes back, which the file leaves out")));
    Ok(lost)
}

/// The folder while it is written.
pub(crate) struct Folder<'a> {
    path: &'a Path,
    options: WriteOptions,
    staged: Vec<(String, StagedFile)>,
}

impl<'a> Folder<'a> {
    /// Makes the folder. One that is there must be empty; with `force`, hold no weights but those that are replaced, for a
    /// loader would read them too.
    fn create(
        model: &Model,
        options: &'a ExportOptions,
        weights: &[String],
    ) -> Result<Self, ConvertError> {
        let path = &*options.folder;
        let io = |action, source| ConvertError::io(path, action, source);
        std::fs::create_dir_all(path).map_err(|source| io("make the folder", source))?;
        let entries = std::fs::read_dir(path).map_err(|source| io("list the folder", source))?;
        let is_in_the_way = |entry: std::fs::DirEntry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            !options.force || (name.contains(".safetensors") && !weights.contains(&name))
        };
        if entries.flatten().any(is_in_the_way) {
            return Err(ConvertError::FolderInUse {
                path: path.to_owned(),
            });
        }
        let inputs = model.shards().iter().map(|shard| shard.path().to_owned());
        Ok(Folder {
            path,
            options: WriteOptions {
                force: options.force,
                inputs: inputs.collect(),
                ..WriteOptions::default()
            },
            staged: Vec::new(),
        })
    }

    /// A file of so many bytes, to be filled and then given to [`Folder::stage`].
    pub fn open(&self, name: &str, bytes: u64) -> Result<OutputFile, ConvertError> {
        Ok(OutputFile::create(
            &self.path.join(name),
            bytes,
            &self.options,
        )?)
    }

    /// Takes a complete file.
    pub fn stage(&mut self, name: &str, file: OutputFile) -> Result<(), ConvertError> {
        self.staged.push((name.to_owned(), file.stage()?));
        Ok(())
    }

    /// Writes a small file.
    pub fn write(&mut self, name: &str, bytes: &[u8]) -> Result<(), ConvertError> {
        let path = self.path.join(name);
        if let Some(folder) = path.parent().filter(|_| name.contains('/')) {
            let made = std::fs::create_dir_all(folder);
            made.map_err(|source| ConvertError::io(folder, "make the folder", source))?;
        }
        let mut file = self.open(name, bytes.len() as u64)?;
        let written = file.write_all(bytes);
        written.map_err(|source| ConvertError::io(&path, "write", source))?;
        self.stage(name, file)
    }

    /// Writes a small file of JSON.
    pub fn write_json(&mut self, name: &str, value: &Value) -> Result<(), ConvertError> {
        self.write(name, format!("{value:#}\n").as_bytes())
    }

    /// Gives all files their names, in order.
    fn commit(self) -> Result<Vec<String>, ConvertError> {
        let mut names = Vec::with_capacity(self.staged.len());
        for (name, file) in self.staged {
            file.commit()?;
            names.push(name);
        }
        Ok(names)
    }
}
