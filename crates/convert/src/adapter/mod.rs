//! A low-rank adapter of PEFT becomes a GGUF file.

mod base;
mod config;
mod error;
mod merge;
mod peft;

pub use error::AdapterError;
pub(crate) use merge::Merge;
pub use merge::{Change, MergeSource};

use crate::ConvertError;
use crate::authorship::{Authorship, Given, Size};
use crate::naming::{adapter_name, output_path};
use crate::output::{OutputType, Uniform, float};
use crate::progress::{Event, Progress};
use crate::quantize::QUANTIZATION_VERSION;
use crate::small_file::read_json;
use crate::stream::{EncodedRows, Overflow, encode};
use config::AdapterConfig;
use gristmill_gguf::{
    Array, Metadata, ShardPlan, ShardWriter, TensorPlan, Value, WriteOptions, check_target,
    tensor_bytes,
};
use gristmill_kernels::Pool;
use gristmill_model::Slot;
use gristmill_quant::{F16, TensorType};
use peft::{Pair, PeftAdapter};
use safetensors::Dtype;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Which adapter to convert, and how.
#[derive(Clone, Debug)]
pub struct ConvertLoraOptions {
    /// The adapter's folder.
    pub folder: PathBuf,
    /// The base model's folder or GGUF file; nothing means the one that the adapter names.
    pub base: Option<PathBuf>,
    /// The base model's name on the hub, in place of both.
    pub base_model_id: Option<String>,
    /// The folder in which the hub's own tools keep what they downloaded.
    pub hub_cache: Option<PathBuf>,
    /// Where to write: a file, whose name may hold `{ftype}`, or a folder; nothing means the adapter's folder.
    pub output: Option<PathBuf>,
    /// What to write.
    pub output_type: OutputType,
    /// Replace an existing output.
    pub force: bool,
    /// Plan everything, write nothing.
    pub dry_run: bool,
    /// Threads; 0 for as many as the machine has.
    pub n_threads: usize,
}

/// What a conversion of an adapter did, or would do.
#[derive(Clone, Debug)]
pub struct ConvertLoraReport {
    /// The output.
    pub path: PathBuf,
    /// Whether nothing was written.
    pub dry_run: bool,
    /// `general.architecture`.
    pub architecture: &'static str,
    /// Where the base model's description was found.
    pub base: PathBuf,
    /// Matrices that the adapter changes.
    pub n_pairs: usize,
    /// Their ranks, with the number of matrices of each.
    pub ranks: BTreeMap<usize, usize>,
    /// `adapter.lora.alpha`.
    pub alpha: f32,
    /// Types in the output, with the number of tensors of each.
    pub types: BTreeMap<TensorType, usize>,
    /// Size of the output, in bytes.
    pub bytes: u64,
    /// Tensors of the adapter that were left out for a known reason: other parts of the model, and the base's own weights.
    pub left_out: Vec<String>,
}

/// Converts an adapter's folder. The output appears whole or not at all.
///
/// # Errors
/// Whatever is wrong with the adapter or its base, before the output is opened; see [`AdapterError`].
pub fn convert_lora(
    options: &ConvertLoraOptions,
    progress: Progress<'_>,
) -> Result<ConvertLoraReport, ConvertError> {
    let config = AdapterConfig::read(&options.folder)?;
    let base = base::find(options, config.base.as_deref())?;
    let hparams = base::describe(&base)?;
    let adapter = PeftAdapter::open(&options.folder, &config, &hparams)?;
    let output = output_type(options.output_type, &adapter)?;
    let mut warnings = config.warnings.clone();
    let authorship = authorship(options, &adapter, &mut warnings)?;
    warnings
        .iter()
        .for_each(|warning| progress(Event::Warning(warning)));
    let alpha = common_alpha(&adapter.pairs);
    let mut metadata = Metadata::new();
    metadata.set("general.architecture", hparams.architecture.name);
    metadata.set("general.type", "adapter");
    metadata.set("adapter.type", "lora");
    authorship.write(&mut metadata);
    metadata.set("adapter.lora.alpha", alpha);
    if !config.invocation_tokens.is_empty() {
        let tokens = Array::U32(config.invocation_tokens.clone());
        metadata.set("adapter.alora.invocation_tokens", Value::Array(tokens));
    }
    metadata.set("general.quantization_version", QUANTIZATION_VERSION);
    let tensors: Vec<TensorPlan> = adapter
        .pairs
        .iter()
        .flat_map(|pair| plan(pair, output))
        .collect();
    let given = options.output.as_deref().unwrap_or(&options.folder);
    let label = output.name();
    let path = output_path(given, label, || adapter_name(&authorship, label));
    let mut report = ConvertLoraReport {
        path: path.clone(),
        dry_run: options.dry_run,
        architecture: hparams.architecture.name,
        base,
        n_pairs: adapter.pairs.len(),
        ranks: counted(adapter.pairs.iter().map(|pair| pair.rank)),
        alpha,
        types: counted(tensors.iter().map(|tensor| tensor.ty)),
        bytes: 0,
        left_out: adapter.left_out.clone(),
    };
    let files = ShardPlan::single(&path, metadata, tensors);
    let write_options = WriteOptions {
        force: options.force,
        inputs: vec![
            adapter.path().to_owned(),
            options.folder.join(config::FILE),
            report.base.clone(),
        ],
        ..WriteOptions::default()
    };
    for file in &files {
        check_target(&file.path, &write_options)?;
        report.bytes = report.bytes.saturating_add(file.size(&write_options)?);
    }
    if !options.dry_run {
        write(options, &adapter, files, &write_options, progress)?;
    }
    Ok(report)
}

fn counted<T: Ord>(items: impl Iterator<Item = T>) -> BTreeMap<T, usize> {
    let mut counts = BTreeMap::new();
    for item in items {
        *counts.entry(item).or_insert(0) += 1;
    }
    counts
}

fn output_type(asked: OutputType, adapter: &PeftAdapter) -> Result<Uniform, AdapterError> {
    match asked {
        OutputType::Uniform(uniform) => Ok(uniform),
        OutputType::Auto => Ok(float(adapter.half.unwrap_or(Dtype::F16))),
        OutputType::Recipe(recipe) => Err(AdapterError::OutputType {
            name: recipe.name.to_owned(),
        }),
    }
}

fn authorship(
    options: &ConvertLoraOptions,
    adapter: &PeftAdapter,
    warnings: &mut Vec<String>,
) -> Result<Authorship, ConvertError> {
    let n_params = adapter.pairs.iter().map(|pair| {
        let row_len = pair.spec.dims.first().copied().unwrap_or(1);
        match pair.spec.slot {
            // What the reference counts of embeddings.
            Slot::TokenEmbd => row_len.saturating_mul(pair.rank as u64),
            _ => pair
                .spec
                .dims
                .iter()
                .fold(1u64, |n, &extent| n.saturating_mul(extent)),
        }
    });
    let given = Given {
        name: options.base_model_id.as_deref(),
        overrides: None,
        size: Size {
            n_params: n_params.fold(0, u64::saturating_add),
            is_part: true,
            experts: None,
        },
    };
    let config = read_json(&options.folder.join("config.json"))?.unwrap_or_default();
    Authorship::load(&options.folder, &config, &given, warnings)
}

/// The alpha that most pairs have. Second matrices of the others are multiplied, so that all scales come out right.
fn common_alpha(pairs: &[Pair]) -> f32 {
    let counts = counted(pairs.iter().map(|pair| pair.alpha.to_bits()));
    let most = counts.into_iter().max_by_key(|(_, n)| *n);
    most.map_or(0.0, |(bits, _)| f64::from_bits(bits) as f32)
}

/// The two tensors of a pair.
fn plan(pair: &Pair, output: Uniform) -> [TensorPlan; 2] {
    let [a, b] = pair.dims();
    [("lora_a", a), ("lora_b", b)].map(|(ending, dims)| {
        let name = format!("{}.{ending}", pair.spec.name);
        TensorPlan {
            ty: output.type_of(&name, &dims),
            name,
            dims,
        }
    })
}

fn write(
    options: &ConvertLoraOptions,
    adapter: &PeftAdapter,
    files: Vec<ShardPlan>,
    write_options: &WriteOptions,
    progress: Progress<'_>,
) -> Result<(), ConvertError> {
    let tensors: Vec<TensorPlan> = files.iter().flat_map(|file| file.tensors.clone()).collect();
    let bytes = tensors
        .iter()
        .filter_map(|tensor| tensor_bytes(tensor.ty, &tensor.dims).ok());
    progress(Event::Start {
        n_tensors: tensors.len(),
        bytes: bytes.fold(0, u64::saturating_add),
    });
    let mut writer = ShardWriter::create(files, write_options)?;
    let pool = Pool::new(gristmill_kernels::n_threads(options.n_threads));
    let mut encoded = Vec::new();
    let alpha = f64::from(common_alpha(&adapter.pairs));
    for (number, (pair, planned)) in adapter.pairs.iter().zip(tensors.chunks(2)).enumerate() {
        let factor = match pair.alpha as f32 == alpha as f32 {
            true => 1.0,
            false => (pair.alpha / alpha) as f32,
        };
        let factors = adapter.read(pair, factor)?;
        let from = pair.dtype().to_string();
        for (half, (tensor, values)) in planned.iter().zip([factors.a, factors.b]).enumerate() {
            progress(Event::Tensor {
                index: 2 * number + half,
                name: &tensor.name,
                dims: &tensor.dims,
                from: &from,
                to: tensor.ty,
            });
            let mut overflow = Overflow::default();
            if tensor.ty == F16 {
                overflow.look(&values);
            }
            let rows = EncodedRows {
                tensor: &tensor.name,
                ty: tensor.ty,
                row_len: tensor.dims.first().map_or(1, |&extent| extent as usize),
                first_element: 0,
            };
            overflow
                .check(&tensor.name)
                .and_then(|()| encode(&pool, &rows, &values, &mut encoded))
                .map_err(|error| error.of(adapter.path()))?;
            writer.write(&encoded)?;
            progress(Event::Written {
                bytes: encoded.len() as u64,
            });
        }
    }
    Ok(writer.finish()?)
}
