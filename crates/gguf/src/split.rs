//! One file becomes a set of shards.

use std::path::PathBuf;

use crate::copy::{Event, Progress, data_bytes, read_tensors};
use crate::directory::align_up;
use crate::error::{Error, Result};
use crate::limits::DEFAULT_ALIGNMENT;
use crate::model::Model;
use crate::output::{WriteOptions, check_target};
use crate::shard_writer::{ShardKeys, ShardLimits, ShardPlan, ShardWriter};
use crate::shards;
use crate::writer::{TensorPlan, Writer};

/// What to split, and how.
#[derive(Clone, Debug)]
pub struct SplitOptions {
    /// A file, or any shard of a set, which is then divided anew.
    pub input: PathBuf,
    /// The files become `PREFIX-00001-of-0000N.gguf`.
    pub prefix: PathBuf,
    /// When the next file begins. Bytes count with the padding to [`DEFAULT_ALIGNMENT`], as in the reference.
    pub limits: ShardLimits,
    /// Plan everything, write nothing.
    pub dry_run: bool,
    /// Replace existing files.
    pub force: bool,
    /// Do as the reference where it differs: refuse a first tensor above the limit, and write no trailing dimensions
    /// of 1.
    pub as_reference: bool,
}

/// What a split did, or would do.
#[derive(Clone, Debug)]
pub struct SplitReport {
    /// The files, in order.
    pub files: Vec<SplitFile>,
    /// Tensors in all.
    pub n_tensors: usize,
    /// Whether nothing was written.
    pub dry_run: bool,
    /// Whether merging gives back the input byte for byte: its layout is the usual one.
    pub restores: bool,
}

/// One file of a split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SplitFile {
    /// Its path.
    pub path: PathBuf,
    /// Its tensors.
    pub n_tensors: usize,
    /// Its size in bytes.
    pub bytes: u64,
    /// Its size without the padding behind tensors, in bytes: the reference's measure.
    pub unpadded_bytes: u64,
}

/// Splits a model. All files appear or none; see [`ShardWriter`].
///
/// # Errors
/// What is wrong with the input, the limits or the targets, before a byte is written.
pub fn split(options: &SplitOptions, progress: Progress<'_>) -> Result<SplitReport> {
    options.limits.check(&options.input)?;
    let model = Model::open_stored(&options.input)?;
    let padded = |bytes| align_up(bytes, DEFAULT_ALIGNMENT).unwrap_or(u64::MAX);
    if options.as_reference {
        check_first(options, &model, padded)?;
    }
    let tensors = tensor_plan(&model, options.as_reference);
    let ranges = options
        .limits
        .divide(model.tensors().iter().map(|tensor| padded(tensor.bytes)));
    // The reference passes over the metadata of all shards but the first.
    let metadata = if options.as_reference {
        model.metadata().clone()
    } else {
        shards::whole_metadata(model.shards())?
    };
    let plan = ShardPlan::set(
        &options.prefix,
        &metadata,
        &tensors,
        &ranges,
        ShardKeys::TensorsBeforeCount,
    )
    .map_err(|error| about_input(error, options))?;
    let write_options = write_options(&model, options.force);
    // The reference pads the head of every shard, be it the only one.
    let shard_options = WriteOptions {
        pad_head: true,
        ..write_options.clone()
    };
    let files = plan.iter().map(|shard| describe(shard, &shard_options));
    let report = SplitReport {
        files: files.collect::<Result<_>>()?,
        n_tensors: tensors.len(),
        dry_run: options.dry_run,
        restores: restores(&model, &tensors, &write_options),
    };
    for shard in &plan {
        check_target(&shard.path, &write_options)?;
    }
    if options.dry_run {
        return Ok(report);
    }
    let mut writer = ShardWriter::create(plan, &shard_options)?;
    progress(Event::Start {
        bytes: data_bytes(&model),
    });
    read_tensors(&model, progress, |piece| writer.write(piece))?;
    writer.finish()?;
    Ok(report)
}

/// The tensors of a model, to be written as they are; `trim` leaves out trailing dimensions of 1.
pub(crate) fn tensor_plan(model: &Model, trim: bool) -> Vec<TensorPlan> {
    let plan = |tensor: &crate::TensorInfo| {
        let dims = &tensor.dims;
        let n_dims = dims
            .iter()
            .rposition(|&dim| dim != 1)
            .map_or(1, |last| last + 1);
        TensorPlan {
            name: tensor.name.clone(),
            dims: dims[..if trim { n_dims } else { dims.len() }].to_vec(),
            ty: tensor.ty,
        }
    };
    model.tensors().iter().map(plan).collect()
}

/// How a model's bytes are written again: nothing of it is refused or turned around.
pub(crate) fn write_options(model: &Model, force: bool) -> WriteOptions {
    let shards = model.shards();
    WriteOptions {
        force,
        through_links: false,
        inputs: shards.iter().map(|file| file.path().to_owned()).collect(),
        long_names: true,
        endian: shards[0].endian(),
        pad_head: shards.len() > 1,
        reserve: 0,
    }
}

fn describe(shard: &ShardPlan, options: &WriteOptions) -> Result<SplitFile> {
    let bytes = shard.size(options)?;
    let alignment = crate::directory::alignment(&shard.metadata, &shard.path)?;
    let padding = |tensor: &TensorPlan| {
        let bytes = crate::tensor_bytes(tensor.ty, &tensor.dims).unwrap_or(0);
        align_up(bytes, alignment).unwrap_or(bytes) - bytes
    };
    let padding: u64 = shard.tensors.iter().map(padding).sum();
    Ok(SplitFile {
        path: shard.path.clone(),
        n_tensors: shard.tensors.len(),
        bytes,
        unpadded_bytes: bytes - padding,
    })
}

/// Whether a writer gives this very file from its metadata and tensors.
fn restores(model: &Model, tensors: &[TensorPlan], options: &WriteOptions) -> bool {
    let [file] = model.shards() else {
        return false;
    };
    let metadata = model.metadata();
    let mut next = 0;
    let in_order = file.tensors().iter().all(|tensor| {
        let here = tensor.offset == next;
        next = align_up(tensor.offset + tensor.bytes, file.alignment()).unwrap_or(u64::MAX);
        here
    });
    in_order
        && file.version() == crate::writer::VERSION
        && !metadata.iter().any(|(key, _)| shards::is_shard_key(key))
        && Writer::size_of(file.path(), metadata, tensors, options).ok() == Some(file.size())
}

/// The reference finds that the first file has no tensors, and stops.
fn check_first(options: &SplitOptions, model: &Model, padded: impl Fn(u64) -> u64) -> Result<()> {
    let (Some(limit), Some(tensor)) = (options.limits.bytes, model.tensors().first()) else {
        return Ok(());
    };
    if padded(tensor.bytes) > limit {
        return Err(Error::FirstTensorTooLarge {
            path: options.input.clone(),
            tensor: tensor.name.clone(),
            bytes: tensor.bytes,
            limit,
        });
    }
    Ok(())
}

/// The input stands for a set that cannot be, since the user named it.
fn about_input(error: Error, options: &SplitOptions) -> Error {
    match error {
        Error::SplitTooFine { count, limit, .. } => Error::SplitTooFine {
            path: options.input.clone(),
            count,
            limit,
        },
        other => other,
    }
}
