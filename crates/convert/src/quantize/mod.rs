//! A GGUF file becomes a smaller one.
//!
//! The source is mapped, a type is planned for every tensor, and rows stream through: decode a slab, encode it on
//! all threads, write it. Memory does not grow with the model, and the bytes depend neither on the number of
//! threads nor on the size of a slab.

mod description;
mod importance;
mod metadata;
mod report;
mod rows;

use std::path::PathBuf;

use gristmill_gguf::{
    Metadata, Model, ShardKeys, ShardPlan, ShardWriter, TensorPlan, TensorView, Value,
    WriteOptions, check_target, shard_file_name,
};
use gristmill_kernels::Pool;
use gristmill_quant::TensorType;

use crate::error::{ConvertError, Result};
use crate::progress::{Event, Progress};
use crate::recipe::{Plan, PlanOptions, PlannedTensor, Recipe, SourceTensor, plan, sort_tensors};

pub use importance::Importance;
pub(crate) use metadata::QUANTIZATION_VERSION;
pub use metadata::quantized_metadata;
pub use report::{QuantizeReport, QuantizedTensor};
pub(crate) use rows::{CHUNK_ELEMENTS, in_chunks, in_kernel, in_tensor, row_bytes, validate};
pub use rows::{RowEncoder, Rows};

/// Bytes of a slab of decoded rows.
const SLAB_BYTES: usize = 16 << 20;

/// What to quantize, and how.
#[derive(Clone, Debug)]
pub struct QuantizeOptions {
    /// The source: a file, or any shard of a set.
    pub input: PathBuf,
    /// The file to write.
    pub output: PathBuf,
    /// The recipe; `None` copies every tensor as it is.
    pub recipe: Option<&'static Recipe>,
    /// What bends the recipe. `copy` and `has_importance` are set by what this struct holds.
    pub plan: PlanOptions,
    /// How much columns matter.
    pub importance: Option<Importance>,
    /// Accept a source that is quantized already.
    pub allow_requantize: bool,
    /// Refuse a model with rows that do not fit the recipe.
    pub forbid_fallback: bool,
    /// Entries to set, after everything else.
    pub metadata: Vec<(String, Value)>,
    /// Plan everything, write nothing.
    pub dry_run: bool,
    /// Write a shard for each shard of the source; `output` is then the beginning of their names.
    pub keep_split: bool,
    /// Replace an existing output.
    pub force: bool,
    /// Room for later edits of the metadata, in bytes.
    pub reserve: u64,
    /// Threads; 0 for as many as the machine has.
    pub n_threads: usize,
    /// Bytes of a slab of decoded rows; 0 for the default.
    pub slab_bytes: usize,
}

impl QuantizeOptions {
    /// Quantizes a file with nothing special asked for.
    pub fn new(
        input: impl Into<PathBuf>,
        output: impl Into<PathBuf>,
        recipe: &'static Recipe,
    ) -> Self {
        QuantizeOptions {
            input: input.into(),
            output: output.into(),
            recipe: Some(recipe),
            plan: PlanOptions::default(),
            importance: None,
            allow_requantize: false,
            forbid_fallback: false,
            metadata: Vec::new(),
            dry_run: false,
            keep_split: false,
            force: false,
            reserve: 0,
            n_threads: 0,
            slab_bytes: 0,
        }
    }

    fn plan_options(&self) -> PlanOptions {
        PlanOptions {
            copy: self.plan.copy || self.recipe.is_none(),
            has_importance: self.importance.is_some(),
            ..self.plan.clone()
        }
    }
}

/// Quantizes a model. The output appears whole or not at all.
///
/// # Errors
/// What the source, the options or the recipe do not allow, before the output is opened; see [`ConvertError`].
pub fn quantize(options: &QuantizeOptions, progress: Progress<'_>) -> Result<QuantizeReport> {
    quantize_model(options, progress).map_err(|error| error.of(&options.input))
}

fn quantize_model(options: &QuantizeOptions, progress: Progress<'_>) -> Result<QuantizeReport> {
    let model = Model::open(&options.input)?;
    model.require_weights()?;
    let mut views: Vec<TensorView<'_>> = model.views().collect();
    if options.keep_split {
        // As the data lies in the files; the counters of recipes follow.
        views.sort_by_key(|view| (view.shard, view.offset));
    } else {
        sort_tensors(&mut views, |view| &view.info.name);
    }
    let sources: Vec<SourceTensor> = views.iter().map(source).collect();
    let file_type = options.recipe.map(|recipe| recipe.id);
    let metadata = quantized_metadata(model.metadata(), file_type, &options.metadata);
    // As the reference: what is set counts already for the mix.
    let facts = description::check(model.path(), &metadata)?;
    let plan = match options.recipe {
        Some(recipe) => plan(recipe, &facts, &sources, &options.plan_options())?,
        None => copy_plan(&sources),
    };
    let mut report = QuantizeReport::new(options, &sources, &plan)?;
    check(options, &sources, &plan, &mut report)?;
    for warning in &report.warnings {
        progress(Event::Warning(warning));
    }
    let layout: Vec<TensorPlan> = sources.iter().zip(&plan.tensors).map(layout).collect();
    let write_options = WriteOptions {
        force: options.force,
        inputs: model
            .shards()
            .iter()
            .map(|shard| shard.path().to_owned())
            .collect(),
        pad_head: options.keep_split && model.shards().len() > 1,
        reserve: options.reserve,
        ..WriteOptions::default()
    };
    let files = files(options, &model, &views, metadata, layout)?;
    for (number, file) in files.iter().enumerate() {
        let file_options = write_options.of_file(number);
        // Where nothing is written, too: a plan that could not be carried out is none.
        check_target(&file.path, &file_options)?;
        let bytes = file.size(&file_options)?;
        report.file_bytes = report.file_bytes.saturating_add(bytes);
        report
            .files
            .push((file.path.clone(), file.tensors.len(), bytes));
    }
    if options.dry_run {
        return Ok(report);
    }
    let mut writer = ShardWriter::create(files, &write_options)?;
    progress(Event::Start {
        n_tensors: views.len(),
        bytes: report.bytes(),
    });
    write(options, &views, &sources, &plan, &mut writer, progress)?;
    writer.finish()?;
    Ok(report)
}

/// The file to write, or one for each shard of the source.
fn files(
    options: &QuantizeOptions,
    model: &Model,
    views: &[TensorView<'_>],
    metadata: Metadata,
    layout: Vec<TensorPlan>,
) -> Result<Vec<ShardPlan>> {
    let prefix = &options.output;
    if !options.keep_split {
        return Ok(ShardPlan::single(prefix, metadata, layout));
    }
    let n_shards = model.shards().len();
    if n_shards == 1 {
        // As the reference: the name of a shard, and no entries that say so.
        let name = prefix.file_name().unwrap_or_default().to_string_lossy();
        let path = prefix.with_file_name(shard_file_name(&name, 1, 1));
        return Ok(ShardPlan::single(&path, metadata, layout));
    }
    let start = |shard| views.partition_point(|view| view.shard < shard);
    let shards: Vec<_> = (0..n_shards)
        .map(|shard| start(shard)..start(shard + 1))
        .collect();
    let keys = ShardKeys::CountBeforeTensors;
    Ok(ShardPlan::set(prefix, &metadata, &layout, &shards, keys)?)
}

fn source(view: &TensorView<'_>) -> SourceTensor {
    SourceTensor {
        name: view.info.name.clone(),
        dims: view.info.dims.clone(),
        ty: view.info.ty,
    }
}

fn layout((tensor, planned): (&SourceTensor, &PlannedTensor)) -> TensorPlan {
    TensorPlan {
        name: tensor.name.clone(),
        dims: tensor.written_dims().to_vec(),
        ty: planned.ty,
    }
}

fn copy_plan(sources: &[SourceTensor]) -> Plan {
    let kept = |tensor: &SourceTensor| PlannedTensor {
        ty: tensor.ty,
        fallback_from: None,
        needs_importance: false,
    };
    Plan {
        tensors: sources.iter().map(kept).collect(),
        unused_overrides: Vec::new(),
    }
}

/// Everything that can be refused before a byte is written, and what is only worth a warning.
fn check(
    options: &QuantizeOptions,
    sources: &[SourceTensor],
    plan: &Plan,
    report: &mut QuantizeReport,
) -> Result<()> {
    let changed = sources
        .iter()
        .zip(&plan.tensors)
        .filter(|(tensor, planned)| tensor.ty != planned.ty);
    let quantized = changed
        .map(|(tensor, _)| tensor)
        .find(|tensor| tensor.ty.is_quantized());
    if let Some(tensor) = quantized {
        if !options.allow_requantize {
            return Err(ConvertError::Requantize {
                tensor: tensor.name.clone(),
                ty: tensor.ty,
            });
        }
        report.warnings.push(format!(
            "the source is quantized already ({} has type {}): errors add up",
            tensor.name, tensor.ty
        ));
    }
    match check_types(sources, plan, options.importance.as_ref()) {
        Err(error @ ConvertError::ImportanceRequired { .. }) if options.dry_run => {
            report.warnings.push(error.to_string());
        }
        checked => checked?,
    }
    let stand_ins: Vec<String> = report
        .fallbacks()
        .map(|tensor| tensor.name.clone())
        .collect();
    if options.forbid_fallback && !stand_ins.is_empty() {
        return Err(ConvertError::FallbackForbidden { tensors: stand_ins });
    }
    Ok(())
}

/// Whether every planned type can be written, and has the importance data that it needs.
pub(crate) fn check_types(
    sources: &[SourceTensor],
    plan: &Plan,
    importance: Option<&Importance>,
) -> Result<()> {
    let changed = || {
        sources
            .iter()
            .zip(&plan.tensors)
            .filter(|(tensor, planned)| tensor.ty != planned.ty)
    };
    let mut coarse = Vec::new();
    for (tensor, planned) in changed() {
        let found = importance.map(|importance| importance.of(tensor));
        if found.transpose()?.flatten().is_none() && planned.needs_importance {
            coarse.push(tensor.name.clone());
        }
    }
    if !coarse.is_empty() {
        return Err(ConvertError::ImportanceRequired { tensors: coarse });
    }
    for (tensor, planned) in changed() {
        let (name, target) = (tensor.name.clone(), planned.ty);
        if !tensor.ty.can_decode() {
            return Err(ConvertError::NoDecoder {
                tensor: name,
                ty: tensor.ty,
                target,
            });
        }
        if !target.can_encode() {
            return Err(ConvertError::NoEncoder {
                tensor: name,
                ty: target,
            });
        }
    }
    Ok(())
}

/// One line for each tensor that gets another type because of its row length.
pub(crate) fn fallback_notes(sources: &[SourceTensor], plan: &Plan) -> Vec<String> {
    let notes = sources
        .iter()
        .zip(&plan.tensors)
        .filter_map(|(tensor, planned)| {
            let wanted = planned.fallback_from?;
            let row_len = tensor.dims.first()?;
            Some(format!(
                "{}: rows of {row_len} elements do not divide into {wanted} blocks; {} instead",
                tensor.name, planned.ty
            ))
        });
    notes.collect()
}

/// Writes the data of all tensors, in their order.
fn write(
    options: &QuantizeOptions,
    views: &[TensorView<'_>],
    sources: &[SourceTensor],
    plan: &Plan,
    writer: &mut ShardWriter,
    progress: Progress<'_>,
) -> Result<()> {
    let pool = Pool::new(gristmill_kernels::n_threads(options.n_threads));
    let slab_bytes = if options.slab_bytes == 0 {
        SLAB_BYTES
    } else {
        options.slab_bytes
    };
    let mut encoder = RowEncoder::new(&pool, slab_bytes);
    for (index, ((view, tensor), planned)) in
        views.iter().zip(sources).zip(&plan.tensors).enumerate()
    {
        progress(Event::Tensor {
            index,
            name: &tensor.name,
            dims: &tensor.dims,
            from: tensor.ty.name(),
            to: planned.ty,
        });
        let mut write = |bytes: &[u8]| {
            writer.write(bytes)?;
            progress(Event::Written {
                bytes: bytes.len() as u64,
            });
            Ok(())
        };
        if view.data.is_empty() {
            write(&[])?;
        } else if tensor.ty == planned.ty {
            encoder.copy(&tensor.name, tensor.ty, view.data, write)?;
        } else {
            let importance = options
                .importance
                .as_ref()
                .map(|importance| importance.of(tensor))
                .transpose()?;
            let rows = rows(tensor, planned.ty, importance.flatten())?;
            encoder.encode(&rows, view.data, write)?;
        }
    }
    Ok(())
}

fn rows<'a>(
    tensor: &'a SourceTensor,
    to: TensorType,
    importance: Option<&'a [f32]>,
) -> Result<Rows<'a>> {
    let dim = |index: usize| {
        let dim = tensor.dims.get(index).copied().unwrap_or(1);
        let overflow = gristmill_quant::QuantError::Overflow { ty: to, n: dim };
        usize::try_from(dim).map_err(|_| ConvertError::Quant {
            tensor: tensor.name.clone(),
            source: overflow,
        })
    };
    Ok(Rows {
        tensor: &tensor.name,
        from: tensor.ty,
        to,
        first_row: 0,
        row_len: dim(0)?,
        rows_per_matrix: dim(1)?,
        importance,
    })
}
