//! A GGUF file becomes a smaller one.
//!
//! The source is mapped, a type is planned for every tensor, and rows stream through: decode a slab, encode it on
//! all threads, write it, give the source's pages back. Memory does not grow with the model, and the bytes depend neither
//! on the number of threads nor on the size of a slab.

mod description;
mod doubts;
mod importance;
mod job;
mod metadata;
mod outputs;
mod overridden;
mod pruning;
mod quality;
mod report;
mod rows;
mod sensitivity;
mod sink;
mod source_state;
mod summary;
mod target;

use std::path::PathBuf;

use gristmill_gguf::{
    Metadata, Model, ShardKeys, ShardPlan, TensorPlan, TensorView, Value, WriteOptions,
    shard_file_name,
};
use gristmill_kernels::Pool;

use crate::adapter::MergeSource;
use crate::error::{ConvertError, Result};
use crate::progress::{Event, Progress};
use crate::recipe::{Plan, PlanOptions, PlannedTensor, Recipe, SourceTensor};
use job::Job;
use sink::Sink;
use source_state::SourceState;

pub use importance::{Importance, ImportanceFilter};
pub(crate) use metadata::QUANTIZATION_VERSION;
pub use metadata::quantized_metadata;
pub use quality::Quality;
pub use report::{Fallbacks, QuantizeReport, QuantizedTensor};
pub(crate) use rows::{CHUNK_ELEMENTS, in_chunks, in_kernel, in_tensor, row_bytes, validate};
pub use rows::{RowEncoder, Rows};
pub use target::Target;

/// Bytes of a slab of decoded rows.
const SLAB_BYTES: usize = 16 << 20;

/// What to quantize, and how.
#[derive(Clone, Debug)]
pub struct QuantizeOptions {
    /// The source: a file, or any shard of a set.
    pub input: PathBuf,
    /// The file to write.
    pub output: PathBuf,
    /// The recipe; `None` copies every tensor as it is, unless there is a target.
    pub recipe: Option<&'static Recipe>,
    /// Choose types for a size, in place of a recipe.
    pub target: Option<Target>,
    /// What bends the recipe. `has_importance` is set by what this struct holds.
    pub plan: PlanOptions,
    /// How much columns matter.
    pub importance: Option<Importance>,
    /// Adapters to merge into the weights.
    pub merge: Vec<MergeSource>,
    /// Accept a source that is quantized already.
    pub allow_requantize: bool,
    /// Refuse a model with rows that do not fit the recipe.
    pub forbid_fallback: bool,
    /// Entries to set, after everything else.
    pub metadata: Vec<(String, Value)>,
    /// Blocks to leave out, by number.
    pub prune_blocks: Vec<u32>,
    /// Files that these options were read from, beside the importance matrix: no output replaces one.
    pub inputs: Vec<PathBuf>,
    /// Measure what every tensor loses.
    pub measure: bool,
    /// A file that is to be written beside the output: refused at the start where it could not be.
    pub report: Option<PathBuf>,
    /// Leave what is done when the run is cut short, and go on there when it is repeated.
    pub resume: bool,
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
            target: None,
            plan: PlanOptions::default(),
            importance: None,
            merge: Vec::new(),
            allow_requantize: false,
            forbid_fallback: false,
            metadata: Vec::new(),
            prune_blocks: Vec::new(),
            inputs: Vec::new(),
            measure: false,
            report: None,
            resume: false,
            dry_run: false,
            keep_split: false,
            force: false,
            reserve: 0,
            n_threads: 0,
            slab_bytes: 0,
        }
    }

    /// The pool that encodes and measures.
    fn pool(&self) -> Pool {
        Pool::new(gristmill_kernels::n_threads(self.n_threads))
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
    let source = SourceState::of(&model);
    let doubts = overridden::check(&model, options)?;
    let job = Job::of(options, &model, progress)?;
    let (sources, plan) = (&job.sources, &job.plan);
    let mut report = QuantizeReport::new(options, job.recipe_name(), sources, plan)?;
    report.warnings.extend(doubts);
    check(&job, &mut report)?;
    let write_options = job.write_options();
    let files = job.files(plan)?;
    outputs::check(&job, &files, &write_options, &mut report)?;
    for warning in report.warnings.iter().chain(&report.fallback_text()) {
        progress(Event::Warning(warning));
    }
    if options.dry_run {
        return Ok(report);
    }
    let mut sink = Sink::open(&job, &source, files, &write_options)?;
    progress(Event::Start {
        n_tensors: sources.len(),
        bytes: report.bytes(),
    });
    write(&job, &mut sink, &mut report, progress)?;
    source.check()?;
    sink.finish()?;
    Ok(report)
}

/// Everything that can be refused before a byte is written, and what is only worth a warning.
fn check(job: &Job<'_>, report: &mut QuantizeReport) -> Result<()> {
    let (options, sources, plan) = (job.options, &job.sources, &job.plan);
    let changed = sources
        .iter()
        .zip(&plan.tensors)
        .enumerate()
        .filter(|(index, (tensor, planned))| tensor.ty != planned.ty || job.merges(*index))
        .map(|(_, pair)| pair);
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
        // Decoded values are F32 numbers, which that type holds as they are.
        let is_exact = plan
            .tensors
            .iter()
            .all(|planned| planned.ty == gristmill_quant::F32);
        let what_of_it = match is_exact {
            true => "what that lost does not come back",
            false => "errors add up",
        };
        report.warnings.push(format!(
            "the source is quantized already ({} has type {}): {what_of_it}",
            tensor.name, tensor.ty
        ));
    }
    check_merge(job, report)?;
    report.warnings.extend(doubts::incomplete(job));
    report.warnings.extend(doubts::without_effect(job));
    report.warnings.extend(doubts::untrue_entries(job));
    if let Some(importance) = job.importance.as_deref() {
        report
            .warnings
            .extend(importance.check_names(sources, plan)?);
    }
    match check_types(sources, plan, job.importance.as_deref()) {
        Err(error @ ConvertError::ImportanceRequired { .. }) if options.dry_run => {
            report.warnings.push(error.to_string());
        }
        checked => checked?,
    }
    if let Some(recipe) = options.recipe {
        let wanted = |planned: &PlannedTensor| planned.fallback_from.unwrap_or(planned.ty);
        let has_default = |planned: &PlannedTensor| wanted(planned) == recipe.default;
        if !plan.tensors.iter().any(has_default) && plan.tensors.iter().any(|p| p.by_recipe) {
            report.warnings.push(format!(
                "no tensor of this model gets {}, the type that {} is named after",
                recipe.default, recipe.name
            ));
        }
    }
    let tensors: Vec<String> = report
        .fallbacks()
        .map(|tensor| tensor.name.clone())
        .collect();
    if options.forbid_fallback && !tensors.is_empty() {
        return Err(ConvertError::FallbackForbidden { tensors });
    }
    Ok(())
}

/// Whether the adapters' tensors are all there and can be written anew.
fn check_merge(job: &Job<'_>, report: &mut QuantizeReport) -> Result<()> {
    let names = || job.views.iter().map(|view| view.info.name.as_str());
    job.merge.check(names())?;
    report.warnings.extend(job.merge.warning(names()));
    let tensors = job.sources.iter().zip(&job.plan.tensors).enumerate();
    let mut kept = tensors
        .filter(|(index, (tensor, planned))| tensor.ty == planned.ty && job.merges(*index))
        .map(|(_, pair)| pair);
    let unwritable = kept.find(|(_, planned)| {
        !planned.ty.can_encode() || planned.ty.needs_importance() && job.importance.is_none()
    });
    match unwritable {
        Some((tensor, planned)) => Err(ConvertError::NoEncoder {
            tensor: tensor.name.clone(),
            ty: planned.ty,
        }),
        None => Ok(()),
    }
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
        let covered = importance.map(|importance| importance.covers(tensor));
        if !covered.transpose()?.unwrap_or(false) && planned.needs_importance {
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
        if target.is_for_activations() {
            return Err(ConvertError::ActivationType {
                tensor: name,
                ty: target,
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

/// One line for each reason for which tensors get another type than the recipe wants.
pub(crate) fn fallback_notes(sources: &[SourceTensor], plan: &Plan) -> Vec<String> {
    let fallbacks = sources
        .iter()
        .zip(&plan.tensors)
        .filter_map(|(tensor, planned)| {
            Some((
                &*tensor.name,
                &*tensor.dims,
                planned.fallback_from?,
                planned.ty,
            ))
        });
    report::fallback_kinds(fallbacks)
        .iter()
        .map(Fallbacks::note)
        .collect()
}

/// Writes the data of all tensors, in their order.
fn write(
    job: &Job<'_>,
    sink: &mut Sink,
    report: &mut QuantizeReport,
    progress: Progress<'_>,
) -> Result<()> {
    let options = job.options;
    let pool = options.pool();
    let slab_bytes = match options.slab_bytes {
        0 => SLAB_BYTES,
        bytes => bytes,
    };
    let mut encoder = RowEncoder::new(&pool, slab_bytes);
    if options.measure {
        encoder.measure();
    }
    let done = sink.done();
    report.n_resumed = done.len();
    if let Some(spoilt) = sink.spoilt() {
        let warning = spoilt.to_string();
        progress(Event::Warning(&warning));
        report.warnings.push(warning);
    }
    for (index, tensor) in job.sources.iter().enumerate() {
        let ty = job.plan.tensors[index].ty;
        progress(Event::Tensor {
            index,
            name: &tensor.name,
            dims: &tensor.dims,
            from: tensor.ty.name(),
            to: ty,
        });
        if let Some(quality) = done.get(index) {
            report.tensors[index].quality = *quality;
            let bytes = report.tensors[index].bytes;
            progress(Event::Written { bytes });
            continue;
        }
        if tensor.ty == ty && !job.merges(index) {
            job.copy(index, &mut encoder, sink, progress)?;
        } else {
            job.encode(index, &mut encoder, sink, progress)?;
        }
        let quality = encoder.take_quality();
        report.tensors[index].quality = quality;
        sink.finish_tensor(quality)?;
    }
    Ok(())
}
