//! A set of shards becomes one file.

use std::path::{Path, PathBuf};

use crate::copy::{Event, Progress, data_bytes, read_tensors};
use crate::error::{Error, Result};
use crate::model::Model;
use crate::output::{WriteOptions, check_target};
use crate::shards;
use crate::source::{PIECE_BYTES, Source};
use crate::split::{tensor_plan, write_options};
use crate::value::Value;
use crate::writer::Writer;
use crate::{File, Metadata};

/// What to merge, and how.
#[derive(Clone, Debug)]
pub struct MergeOptions {
    /// Any shard of the set.
    pub input: PathBuf,
    /// The file to write.
    pub output: PathBuf,
    /// Check and plan everything, write nothing.
    pub dry_run: bool,
    /// Replace an existing output.
    pub force: bool,
    /// Remove the shards, once the output is on the disk and was compared with them; of links only the links.
    pub delete_shards: bool,
    /// Do as the reference where it differs: keep the entries of a shard, with `split.count` 0, and write no trailing
    /// dimensions of 1. Otherwise the output has no such entries, as before it was split.
    pub as_reference: bool,
}

/// What a merge did, or would do.
#[derive(Clone, Debug)]
pub struct MergeReport {
    /// The output.
    pub path: PathBuf,
    /// The shards, in order.
    pub shards: Vec<PathBuf>,
    /// Tensors in all.
    pub n_tensors: usize,
    /// Size of the output, in bytes.
    pub bytes: u64,
    /// Whether nothing was written.
    pub dry_run: bool,
    /// What deleted shards led to that were links: the files themselves, which are kept.
    pub kept: Vec<PathBuf>,
}

/// Merges a set of shards, opened from any of them. The output appears whole or not at all.
///
/// # Errors
/// [`Error::NotShard`], one for each way in which a set can be wrong, and those of [`Writer::create`].
pub fn merge(options: &MergeOptions, progress: Progress<'_>) -> Result<MergeReport> {
    let file = File::open_stored(&options.input)?;
    check_part(&file)?;
    drop(file);
    let model = Model::open_stored(&options.input)?;
    let metadata = metadata(&model, options.as_reference)?;
    let tensors = tensor_plan(&model, options.as_reference);
    let write_options = WriteOptions {
        pad_head: options.as_reference,
        ..write_options(&model, options.force)
    };
    let mut report = MergeReport {
        path: options.output.clone(),
        shards: write_options.inputs.clone(),
        n_tensors: tensors.len(),
        bytes: Writer::size_of(&options.output, &metadata, &tensors, &write_options)?,
        dry_run: options.dry_run,
        kept: Vec::new(),
    };
    check_target(&options.output, &write_options)?;
    if options.dry_run {
        return Ok(report);
    }
    let mut writer = Writer::create(&options.output, &metadata, &tensors, &write_options)?;
    progress(Event::Start {
        bytes: data_bytes(&model),
    });
    read_tensors(&model, progress, |piece| writer.write(piece))?;
    writer.finish()?;
    if options.delete_shards {
        same_data(&model, &options.output)?;
        report.kept = delete(&model)?;
    }
    Ok(report)
}

/// Whether a file says that it is part of a set.
fn check_part(file: &File) -> Result<()> {
    let count = file
        .metadata()
        .u64(shards::COUNT)
        .map_err(|error| error.in_file(file.path()))?;
    let reason = match count {
        None => "",
        Some(0) => ": its split.count is 0, so it was merged from one",
        Some(_) => return Ok(()),
    };
    Err(Error::NotShard {
        path: file.path().to_owned(),
        reason,
    })
}

/// The metadata of the output. The reference passes over that of all shards but the first.
fn metadata(model: &Model, as_reference: bool) -> Result<Metadata> {
    if as_reference {
        let mut metadata = model.metadata().clone();
        // The entry that is set again moves to the end.
        metadata.remove(shards::COUNT);
        metadata.set(shards::COUNT, Value::U16(0));
        return Ok(metadata);
    }
    let mut metadata = shards::whole_metadata(model.shards())?;
    metadata.retain(|key, _| !shards::is_shard_key(key));
    Ok(metadata)
}

/// Reads the output once more and compares it with the shards.
fn same_data(model: &Model, output: &Path) -> Result<()> {
    let merged = File::open_stored(output)?;
    let source = Source::of(&merged)?;
    let changed = || Error::Changed {
        path: output.to_owned(),
    };
    let mut place = merged.tensors().iter().flat_map(|tensor| {
        let start = merged.data_offset() + tensor.offset;
        // The shards are read in the same pieces.
        (0..tensor.bytes.div_ceil(PIECE_BYTES as u64))
            .map(move |piece| start + piece * PIECE_BYTES as u64)
    });
    let mut written = vec![0; PIECE_BYTES];
    read_tensors(model, &mut |_| {}, |piece| {
        let written = &mut written[..piece.len()];
        source.read_at(place.next().ok_or_else(changed)?, written)?;
        if written == piece {
            Ok(())
        } else {
            Err(changed())
        }
    })
}

/// Removes all it can; the first that stays is the error. A file that took a shard's name since stays. Of a link only the
/// link goes, as other names may lead to its file (those of a download cache do); what it led to is returned.
fn delete(model: &Model) -> Result<Vec<PathBuf>> {
    let delete = |shard: &File| {
        Source::of(shard)?;
        let path = shard.path();
        let target = match path.is_symlink() {
            true => path.canonicalize().ok(),
            false => None,
        };
        std::fs::remove_file(path).map_err(|source| Error::io(path, "delete the shard", source))?;
        Ok(target)
    };
    let results: Vec<Result<Option<PathBuf>>> = model.shards().iter().map(delete).collect();
    let targets: Vec<Option<PathBuf>> = results.into_iter().collect::<Result<_>>()?;
    Ok(targets.into_iter().flatten().collect())
}
