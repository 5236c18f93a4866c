//! A checkpoint folder becomes a GGUF file.

use crate::ConvertError;
use crate::adapter::{Merge, MergeSource};
use crate::authorship::{Authorship, Given};
use crate::checkpoint::{Checkpoint, CheckpointTensor};
use crate::naming::{model_name, output_path};
use crate::output::{OutputType, Uniform};
use crate::plan::{Origin, Plan};
use crate::progress::{Event, Progress};
use crate::quantize::{QUANTIZATION_VERSION, quantized_metadata};
use crate::recipe::ModelFacts;
use crate::stream::Stream;
use crate::tokenizer::{TokenizerLog, TokenizerOptions, sample, tokenizer_metadata};
use gristmill_gguf::{Metadata, ShardLimits, ShardPlan, ShardWriter, WriteOptions, check_target};
use gristmill_kernels::Pool;
use gristmill_model::{Config, Hyperparameters};
use gristmill_quant::TensorType;
use gristmill_tokenizer::Tokenizer;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What to convert, and how.
#[derive(Clone, Debug)]
pub struct ConvertOptions {
    /// The checkpoint's folder.
    pub folder: PathBuf,
    /// Where to write: a file, whose name may hold `{ftype}`, or a folder; nothing means the checkpoint's folder.
    pub output: Option<PathBuf>,
    /// What to write.
    pub output_type: OutputType,
    /// Name of the pre-tokenizer, where it cannot be told from the tokenizer's files or should be another.
    pub pre_tokenizer: Option<String>,
    /// `general.name`, in place of what the folder says.
    pub name: Option<String>,
    /// A JSON file with `general.…` entries that go before the folder's.
    pub overrides: Option<PathBuf>,
    /// Keep weights that are FP8 in 8 bits, whatever the output type: as Q8_0.
    pub fp8_as_q8: bool,
    /// Adapters to merge into the weights.
    pub merge: Vec<MergeSource>,
    /// When the next file of a set begins; nothing means a single file.
    pub limits: ShardLimits,
    /// Replace an existing output.
    pub force: bool,
    /// Room for later edits of the metadata, in bytes.
    pub reserve: u64,
    /// Plan everything, write nothing.
    pub dry_run: bool,
    /// Write the vocabulary and the description, and no tensor. The folder needs no weights then.
    pub vocab_only: bool,
    /// Threads; 0 for as many as the machine has.
    pub n_threads: usize,
}

impl ConvertOptions {
    /// Converts a folder with nothing special asked for.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
            output: None,
            output_type: OutputType::Auto,
            pre_tokenizer: None,
            name: None,
            overrides: None,
            fp8_as_q8: false,
            merge: Vec::new(),
            limits: ShardLimits::default(),
            force: false,
            reserve: 0,
            dry_run: false,
            vocab_only: false,
            n_threads: 0,
        }
    }
}

/// What a conversion did, or would do.
#[derive(Clone, Debug)]
pub struct ConvertReport {
    /// The output; of a set, what its files are named after.
    pub path: PathBuf,
    /// The files of the output, with tensors and bytes of each.
    pub files: Vec<(PathBuf, usize, u64)>,
    /// Whether nothing was written.
    pub dry_run: bool,
    /// `general.architecture`.
    pub architecture: &'static str,
    /// The Hugging Face class.
    pub class: &'static str,
    /// Element types in the checkpoint, with the number of tensors of each.
    pub source_types: BTreeMap<String, usize>,
    /// Files that the checkpoint's weights are in.
    pub n_source_files: usize,
    /// Name of the output type.
    pub output_type: String,
    /// Types in the output, with the number of tensors of each.
    pub types: BTreeMap<TensorType, usize>,
    /// Tensors written.
    pub n_tensors: usize,
    /// Parameters written.
    pub n_params: u64,
    /// Size of the output, in bytes.
    pub bytes: u64,
    /// Tensors of the checkpoint that the architecture has no use for.
    pub unknown_tensors: Vec<String>,
    /// Tensors of the checkpoint that were left out for a known reason: other parts of the model, computed anyway, or
    /// there twice.
    pub left_out_tensors: Vec<String>,
    /// `tokenizer.ggml.model`.
    pub tokenizer: Option<String>,
    /// `tokenizer.ggml.pre`.
    pub pre_tokenizer: Option<String>,
    /// Tokens of the vocabulary.
    pub n_tokens: usize,
    /// Whether a chat template was written.
    pub has_chat_template: bool,
    /// What the user should look at.
    pub warnings: Vec<String>,
}

/// Converts a checkpoint folder. The output appears whole or not at all.
///
/// # Errors
/// Whatever is wrong with the checkpoint, before the output is opened where that can be known; see [`ConvertError`].
pub fn convert(
    options: &ConvertOptions,
    progress: Progress<'_>,
) -> Result<ConvertReport, ConvertError> {
    convert_folder(options, progress).map_err(|error| error.of(&options.folder))
}

fn convert_folder(
    options: &ConvertOptions,
    progress: Progress<'_>,
) -> Result<ConvertReport, ConvertError> {
    let checkpoint = match options.vocab_only {
        true => Checkpoint::open_without_weights(&options.folder)?,
        false => Checkpoint::open(&options.folder)?,
    };
    let mut warnings = checkpoint.config.warnings();
    let output = options.output_type.resolve(&checkpoint);
    if !options.vocab_only {
        check_rows(&checkpoint, output)?;
    }
    let (tokenizer, log) = import_tokenizer(options, &checkpoint)?;
    warnings.extend(log.warnings.iter().cloned());
    let mut plan = match options.vocab_only {
        true => Plan::default(),
        false => tensor_plan(&checkpoint, output, &tokenizer, &mut warnings)?,
    };
    if options.fp8_as_q8 && plan.keep_fp8(&checkpoint) == 0 {
        warnings.push("no weight is FP8, so none is kept in 8 bits".to_owned());
    }
    let merge = open_merge(options, &checkpoint, output, &tokenizer, &plan)?;
    warnings.extend(merge.warning(plan.names()));
    let given = Given {
        name: options.name.as_deref(),
        overrides: options.overrides.as_deref(),
        size: plan.size(),
    };
    let authorship = Authorship::load(&options.folder, &checkpoint.stated, &given, &mut warnings)?;
    let label = options.output_type.label(output);
    let given = options.output.as_deref().unwrap_or(&options.folder);
    let path = output_path(given, label, || {
        model_name(&authorship, label, options.vocab_only)
    });
    let mut metadata = metadata(&checkpoint, output, &authorship, &tokenizer)?;
    let vocabulary = check_vocabulary(&metadata, &options.folder.join(log.file))?;
    warnings.extend(sample::compare(&options.folder, &vocabulary)?);
    if let OutputType::Recipe(recipe) = options.output_type {
        plan.widen(&merge.names());
        warnings.extend(plan.apply(recipe, &ModelFacts::from_metadata(&metadata)?)?);
        metadata = quantized_metadata(&metadata, Some(recipe.id), &[]);
    }
    let files = ShardPlan::divided(&path, metadata.clone(), plan.layout(), &options.limits)?;
    if files.len() == 1 && options.limits != ShardLimits::default() {
        warnings.push("the model fits into one file, which is not split".to_owned());
    }
    for warning in &warnings {
        progress(Event::Warning(warning));
    }
    let mut report = report(&checkpoint, &plan, &metadata, label, path, warnings);
    let mut inputs = checkpoint.inputs();
    inputs.extend(options.overrides.clone());
    inputs.extend(merge.inputs());
    let write_options = WriteOptions {
        force: options.force,
        inputs,
        pad_head: files.len() > 1,
        reserve: options.reserve,
        ..WriteOptions::default()
    };
    check_files(&files, &write_options, &mut report)?;
    report.dry_run = options.dry_run;
    if !options.dry_run {
        let writer = ShardWriter::create(files, &write_options)?;
        write(options, &checkpoint, (&plan, &merge), writer, progress)?;
    }
    Ok(report)
}

/// Whether the files can be written, and their sizes. Where nothing is written, too: a plan that could not be carried out is
/// none.
fn check_files(
    files: &[ShardPlan],
    options: &WriteOptions,
    report: &mut ConvertReport,
) -> Result<(), ConvertError> {
    for (number, file) in files.iter().enumerate() {
        let file_options = options.of_file(number);
        check_target(&file.path, &file_options)?;
        let bytes = file.size(&file_options)?;
        report
            .files
            .push((file.path.clone(), file.tensors.len(), bytes));
        report.bytes = report.bytes.saturating_add(bytes);
    }
    Ok(())
}

/// The metadata that a folder would be converted to; `pre_tokenizer` is the name to give, as on the command line.
pub(crate) fn folder_metadata(
    folder: &Path,
    pre_tokenizer: Option<&str>,
) -> Result<Metadata, ConvertError> {
    let options = ConvertOptions {
        pre_tokenizer: pre_tokenizer.map(str::to_owned),
        ..ConvertOptions::new(folder)
    };
    let checkpoint = Checkpoint::open(folder)?;
    let output = options.output_type.resolve(&checkpoint);
    let (tokenizer, _) = import_tokenizer(&options, &checkpoint)?;
    let plan = tensor_plan(&checkpoint, output, &tokenizer, &mut Vec::new())?;
    let given = Given {
        name: None,
        overrides: None,
        size: plan.size(),
    };
    let authorship = Authorship::load(folder, &checkpoint.stated, &given, &mut Vec::new())?;
    metadata(&checkpoint, output, &authorship, &tokenizer)
}

/// The tensors to write.
fn tensor_plan(
    checkpoint: &Checkpoint,
    output: Uniform,
    tokenizer: &Metadata,
    warnings: &mut Vec<String>,
) -> Result<Plan, ConvertError> {
    let hparams = hyperparameters(&checkpoint.config, output, tokenizer)?;
    let mut plan = Plan::new(checkpoint, &hparams, output)?;
    drop_tied_output(checkpoint, &mut plan, warnings)?;
    if !plan.unknown.is_empty() {
        let names = plan.unknown.join(", ");
        warnings.push(format!(
            "{} tensors are unknown to {} and are left out: {names}",
            plan.unknown.len(),
            hparams.architecture.name
        ));
    }
    Ok(plan)
}

/// What of a tokenizer's entries the configuration tells by itself.
pub(crate) fn without_tokenizer(config: &Config) -> Result<Metadata, ConvertError> {
    let mut tokenizer = Metadata::new();
    if let Some(n_types) = config.integer("type_vocab_size")? {
        tokenizer.set("tokenizer.ggml.token_type_count", n_types);
    }
    Ok(tokenizer)
}

/// The adapters to merge, each tensor of which must be written.
fn open_merge(
    options: &ConvertOptions,
    checkpoint: &Checkpoint,
    output: Uniform,
    tokenizer: &Metadata,
    plan: &Plan,
) -> Result<Merge, ConvertError> {
    if options.merge.is_empty() {
        return Ok(Merge::default());
    }
    let hparams = hyperparameters(&checkpoint.config, output, tokenizer)?;
    let merge = Merge::open(&options.merge, &hparams)?;
    merge.check(plan.names())?;
    Ok(merge)
}

/// Refuses weights that do not fit the configuration before a vocabulary is filled up to the number of rows it states.
fn check_rows(checkpoint: &Checkpoint, output: Uniform) -> Result<(), ConvertError> {
    if checkpoint.config.integer("vocab_size")?.is_some() {
        let tokenizer = without_tokenizer(&checkpoint.config)?;
        let hparams = hyperparameters(&checkpoint.config, output, &tokenizer)?;
        Plan::new(checkpoint, &hparams, output)?;
    }
    Ok(())
}

/// The entries of the tokenizer, and what was found.
fn import_tokenizer(
    options: &ConvertOptions,
    checkpoint: &Checkpoint,
) -> Result<(Metadata, TokenizerLog), ConvertError> {
    let import = tokenizer_metadata(
        &options.folder,
        &TokenizerOptions {
            n_rows: checkpoint.config.integer("vocab_size")?.map(u64::from),
            pre_tokenizer: options.pre_tokenizer.as_deref(),
            config: Some(&checkpoint.stated),
            habit: checkpoint.config.architecture.tokenizer,
        },
    )?;
    let mut metadata = Metadata::new();
    for (key, value) in import.entries {
        metadata.set(key, value);
    }
    Ok((metadata, import.log))
}

/// Loads the vocabulary as it will be written, so that no file is made whose text nothing could tokenize.
/// Gives it.
fn check_vocabulary(metadata: &Metadata, path: &Path) -> Result<Tokenizer, ConvertError> {
    match Tokenizer::from_metadata(metadata) {
        Ok(tokenizer) => Ok(tokenizer),
        Err(source) => Err(ConvertError::Vocabulary {
            path: path.to_owned(),
            source: Box::new(source),
        }),
    }
}

/// Writes all tensors.
fn write(
    options: &ConvertOptions,
    checkpoint: &Checkpoint,
    (plan, merge): (&Plan, &Merge),
    mut writer: ShardWriter,
    progress: Progress<'_>,
) -> Result<(), ConvertError> {
    progress(Event::Start {
        n_tensors: plan.tensors.len(),
        bytes: plan_bytes(plan),
    });
    let pool = Pool::new(gristmill_kernels::n_threads(options.n_threads));
    let mut stream = Stream::new(checkpoint, merge, &pool);
    for (index, tensor) in plan.tensors.iter().enumerate() {
        let source = tensor.origin.first_tensor();
        let from = match source.and_then(|index| checkpoint.tensors.get(index)) {
            Some(tensor) => tensor.entry.dtype.to_string(),
            None => "computed".to_owned(),
        };
        progress(Event::Tensor {
            index,
            name: &tensor.spec.name,
            dims: &tensor.spec.dims,
            from: &from,
            to: tensor.ty,
        });
        stream
            .write(tensor, &mut writer, progress)
            .map_err(|error| error.of(checkpoint.file_of(source)))?;
    }
    Ok(writer.finish()?)
}

fn plan_bytes(plan: &Plan) -> u64 {
    let bytes = |tensor: &crate::plan::Planned| {
        gristmill_gguf::tensor_bytes(tensor.ty, &tensor.spec.dims).unwrap_or(0)
    };
    plan.tensors.iter().map(bytes).fold(0, u64::saturating_add)
}

/// The hyperparameters that a loader will read from the output.
pub(crate) fn hyperparameters(
    config: &Config,
    output: Uniform,
    tokenizer: &Metadata,
) -> Result<Hyperparameters, ConvertError> {
    let mut metadata = Metadata::new();
    metadata.set("general.architecture", config.architecture.name);
    config.write_metadata(output.file_type(), &mut metadata)?;
    extend(&mut metadata, tokenizer);
    if let Some(n_vocab) = config.integer("vocab_size")? {
        metadata.set(format!("{}.vocab_size", config.architecture.name), n_vocab);
    }
    Ok(Hyperparameters::from_metadata(&metadata).map_err(|error| config.blamed(error))?)
}

/// All metadata of the output, in the reference's order.
fn metadata(
    checkpoint: &Checkpoint,
    output: Uniform,
    authorship: &Authorship,
    tokenizer: &Metadata,
) -> Result<Metadata, ConvertError> {
    let mut metadata = Metadata::new();
    metadata.set("general.architecture", checkpoint.config.architecture.name);
    checkpoint.config.write_tensor_metadata(&mut metadata)?;
    metadata.set("general.type", "model");
    authorship.write(&mut metadata);
    checkpoint
        .config
        .write_metadata(output.file_type(), &mut metadata)?;
    metadata.set("general.quantization_version", QUANTIZATION_VERSION);
    extend(&mut metadata, tokenizer);
    Ok(metadata)
}

fn extend(metadata: &mut Metadata, more: &Metadata) {
    for (key, value) in more.iter() {
        metadata.set(key, value.clone());
    }
}

/// Leaves out an output projection that is the embedding matrix once more, in a model that says it is.
fn drop_tied_output(
    checkpoint: &Checkpoint,
    plan: &mut Plan,
    warnings: &mut Vec<String>,
) -> Result<(), ConvertError> {
    let Some(output) = plan.maybe_tied.take() else {
        return Ok(());
    };
    let source = |slot| {
        let tensor = plan
            .tensors
            .iter()
            .find(|tensor| tensor.spec.slot == slot)?;
        match tensor.origin {
            Origin::Checkpoint(index) => checkpoint.tensors.get(index),
            Origin::Experts(_) | Origin::Computed(_) => None,
        }
    };
    let pair = source(gristmill_model::Slot::Output).zip(source(gristmill_model::Slot::TokenEmbd));
    let Some((one, other)) = pair else {
        return Ok(());
    };
    let name = one.entry.name.clone();
    if same_bytes(checkpoint, one, other)? {
        plan.left_out.push(name);
        plan.tensors.remove(output);
    } else {
        warnings.push(format!(
            "config.json ties the embeddings, but `{name}` differs from them; both are written"
        ));
    }
    Ok(())
}

fn same_bytes(
    checkpoint: &Checkpoint,
    one: &CheckpointTensor,
    other: &CheckpointTensor,
) -> Result<bool, ConvertError> {
    let is_scaled = one.scale.is_some() || other.scale.is_some();
    if is_scaled || one.entry.dtype != other.entry.dtype || one.entry.shape != other.entry.shape {
        return Ok(false);
    }
    let (mut left, mut right) = (vec![0; 1 << 20], vec![0; 1 << 20]);
    let mut done = 0;
    while done < one.entry.bytes {
        let n = (one.entry.bytes - done).min(left.len() as u64) as usize;
        for (tensor, bytes) in [(one, &mut left), (other, &mut right)] {
            checkpoint.files[tensor.file].read_at(tensor.entry.offset + done, &mut bytes[..n])?;
        }
        if left[..n] != right[..n] {
            return Ok(false);
        }
        done += n as u64;
    }
    Ok(true)
}

fn report(
    checkpoint: &Checkpoint,
    plan: &Plan,
    metadata: &Metadata,
    output_type: &str,
    path: PathBuf,
    warnings: Vec<String>,
) -> ConvertReport {
    let mut source_types = BTreeMap::new();
    for tensor in &checkpoint.tensors {
        *source_types
            .entry(tensor.entry.dtype.to_string())
            .or_default() += 1;
    }
    let mut types = BTreeMap::new();
    for tensor in &plan.tensors {
        *types.entry(tensor.ty).or_default() += 1;
    }
    let text = |key| metadata.str(key).ok().flatten().map(str::to_owned);
    let tokens = metadata.array("tokenizer.ggml.tokens").ok().flatten();
    ConvertReport {
        path,
        files: Vec::new(),
        dry_run: false,
        architecture: checkpoint.config.architecture.name,
        class: checkpoint.config.class.name,
        source_types,
        n_source_files: checkpoint.files.len(),
        output_type: output_type.to_owned(),
        types,
        n_tensors: plan.tensors.len(),
        n_params: plan.n_params(),
        bytes: 0,
        unknown_tensors: plan.unknown.clone(),
        left_out_tensors: plan.left_out.clone(),
        tokenizer: text("tokenizer.ggml.model"),
        pre_tokenizer: text("tokenizer.ggml.pre"),
        n_tokens: tokens.map_or(0, |tokens| tokens.len()),
        has_chat_template: metadata.contains("tokenizer.chat_template"),
        warnings,
    }
}
