//! Writing a model as one file or as a set of shards, with the interface of a [`Writer`].

use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::directory::tensor_bytes;
use crate::error::{Error, Result};
use crate::limits;
use crate::metadata::Metadata;
use crate::output::{self, StagedFile, WriteOptions};
use crate::shards::{self, shard_file_name, shard_prefix};
use crate::value::Value;
use crate::writer::{TensorPlan, Writer};

/// When the next tensor begins a new shard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShardLimits {
    /// Most tensors of a shard.
    pub tensors: Option<u64>,
    /// Most bytes of tensor data of a shard. A tensor that is larger by itself gets a shard of its own; header and
    /// metadata do not count.
    pub bytes: Option<u64>,
    /// The first shard holds the metadata and no tensor.
    pub tensor_free_first: bool,
}

/// The order of the entries that tell shards apart. Both are the reference's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShardKeys {
    /// `split.no`, `split.count`, `split.tensors.count`: what conversion and quantization write.
    CountBeforeTensors,
    /// `split.no`, `split.tensors.count`, `split.count`: what splitting writes.
    TensorsBeforeCount,
}

impl ShardLimits {
    /// Which tensors go into which shard, from the bytes that each takes. The shards are in order and leave out no
    /// tensor; only the first one can be empty.
    pub fn divide(&self, tensor_bytes: impl IntoIterator<Item = u64>) -> Vec<Range<usize>> {
        let mut shards = Vec::new();
        let (mut start, mut end, mut sum) = (0, 0, 0u64);
        if self.tensor_free_first {
            shards.push(0..0);
        }
        for bytes in tensor_bytes {
            let next = sum.saturating_add(bytes);
            let full = self.tensors.is_some_and(|n| (end - start) as u64 >= n)
                || self.bytes.is_some_and(|limit| next > limit);
            if full && end > start {
                shards.push(start..end);
                start = end;
            }
            sum = if start == end { bytes } else { next };
            end += 1;
        }
        if end > start || shards.is_empty() {
            shards.push(start..end);
        }
        shards
    }

    /// Refuses a limit that no tensor keeps. `path` is for the message.
    ///
    /// # Errors
    /// [`Error::SplitLimitZero`].
    pub fn check(&self, path: &Path) -> Result<()> {
        for (limit, unit) in [(self.tensors, "tensors"), (self.bytes, "bytes")] {
            if limit == Some(0) {
                let path = path.to_owned();
                return Err(Error::SplitLimitZero { path, unit });
            }
        }
        Ok(())
    }
}

/// One file that is to be written.
#[derive(Clone, Debug)]
pub struct ShardPlan {
    /// Where.
    pub path: PathBuf,
    /// Its own metadata: the model's in the first shard, and what tells shards apart.
    pub metadata: Metadata,
    /// Its tensors, in order.
    pub tensors: Vec<TensorPlan>,
}

impl ShardPlan {
    /// A model in one file.
    pub fn single(path: &Path, metadata: Metadata, tensors: Vec<TensorPlan>) -> Vec<ShardPlan> {
        let path = path.to_owned();
        vec![ShardPlan {
            path,
            metadata,
            tensors,
        }]
    }

    /// A set of shards `PREFIX-00001-of-0000N.gguf`, one for each of the `shards`, which divide the tensors.
    ///
    /// # Errors
    /// [`Error::SplitTooFine`] for more shards than a set can count, [`Error::BadPrefix`] for a prefix that is no beginning
    /// of a file name.
    pub fn set(
        prefix: &Path,
        metadata: &Metadata,
        tensors: &[TensorPlan],
        shards: &[Range<usize>],
        keys: ShardKeys,
    ) -> Result<Vec<ShardPlan>> {
        let Ok(count) = u16::try_from(shards.len()) else {
            return Err(Error::SplitTooFine {
                path: prefix.to_owned(),
                count: shards.len() as u64,
                limit: limits::SHARDS,
            });
        };
        let name = prefix_name(prefix)?;
        // Files have at most a million tensors, sets 65535 files: the sum of a real model fits.
        let n_tensors = i32::try_from(tensors.len()).unwrap_or(i32::MAX);
        let plan = |(range, number): (&Range<usize>, u16)| {
            let mut own = if number == 0 {
                metadata.clone()
            } else {
                Metadata::new()
            };
            number_shard(&mut own, number, count, n_tensors, keys);
            let file = shard_file_name(name, u64::from(number) + 1, count.into());
            ShardPlan {
                path: prefix.with_file_name(file),
                metadata: own,
                tensors: tensors.get(range.clone()).unwrap_or_default().to_vec(),
            }
        };
        Ok(shards.iter().zip(0..).map(plan).collect())
    }

    /// A model as conversion divides it: the limits count bytes without padding. Where they ask for no division, or all
    /// fits into one file, that is a single one at `path`; else the files are named after it, without `.gguf`.
    ///
    /// # Errors
    /// [`Error::SplitLimitZero`], [`Error::SplitTooFine`].
    pub fn divided(
        path: &Path,
        metadata: Metadata,
        tensors: Vec<TensorPlan>,
        limits: &ShardLimits,
    ) -> Result<Vec<ShardPlan>> {
        limits.check(path)?;
        // What has no size is refused by the writer.
        let bytes = |tensor: &TensorPlan| tensor_bytes(tensor.ty, &tensor.dims).unwrap_or(0);
        let shards = limits.divide(tensors.iter().map(bytes));
        if shards.len() == 1 {
            return Ok(ShardPlan::single(path, metadata, tensors));
        }
        let prefix = shard_prefix(path);
        let keys = ShardKeys::CountBeforeTensors;
        ShardPlan::set(&prefix, &metadata, &tensors, &shards, keys)
    }

    /// The size of the file, in bytes.
    ///
    /// # Errors
    /// Those of [`Writer::size_of`].
    pub fn size(&self, options: &WriteOptions) -> Result<u64> {
        Writer::size_of(&self.path, &self.metadata, &self.tensors, options)
    }
}

/// What the names of a set begin with.
fn prefix_name(prefix: &Path) -> Result<&str> {
    let bad = |reason| Error::BadPrefix {
        path: prefix.to_owned(),
        reason,
    };
    if shards::is_folder_name(prefix) {
        return Err(bad("it names a folder"));
    }
    // A device is what somebody names who wants no output; files beside it are not.
    if std::fs::metadata(prefix).is_ok_and(|about| !about.is_file() && !about.is_dir()) {
        return Err(bad("it is a device or a pipe"));
    }
    let name = prefix.file_name().ok_or_else(|| bad("it names a folder"))?;
    name.to_str()
        .ok_or_else(|| bad("it is no UTF-8 text, by which the files of a set find each other"))
}

/// Puts the entries that tell shards apart at the end, in the types of the reference.
fn number_shard(metadata: &mut Metadata, number: u16, count: u16, n_tensors: i32, keys: ShardKeys) {
    let mut entries = [
        (shards::NUMBER, Value::U16(number)),
        (shards::COUNT, Value::U16(count)),
        (shards::TENSORS, Value::I32(n_tensors)),
    ];
    if keys == ShardKeys::TensorsBeforeCount {
        entries.swap(1, 2);
    }
    metadata.retain(|key, _| !shards::is_shard_key(key));
    for (key, value) in entries {
        metadata.set(key, value);
    }
}

/// Writes the files of a plan piece by piece: the data of each tensor in the order of the plan, over the borders of
/// files. All files appear under their names when [`ShardWriter::finish`] succeeds; until then, and for ever if the
/// writer is dropped, none is there. A kill between the renames leaves a set without its first file, which nothing
/// takes for whole.
#[derive(Debug)]
pub struct ShardWriter {
    /// What is still to be opened, the last file first.
    waiting: Vec<ShardPlan>,
    writer: Writer,
    done: Vec<StagedFile>,
    /// Where the files go.
    paths: Vec<PathBuf>,
    /// Of the files after the first.
    options: WriteOptions,
    size: u64,
}

impl ShardWriter {
    /// Checks all files, targets and the free space, and opens the first file.
    ///
    /// # Errors
    /// Those of [`Writer::create`], for any of the files; [`Error::PlanMismatch`] for none.
    pub fn create(plan: Vec<ShardPlan>, options: &WriteOptions) -> Result<ShardWriter> {
        let options = WriteOptions {
            pad_head: options.pad_head || plan.len() > 1,
            ..options.clone()
        };
        let later = options.of_file(1);
        let mut size = 0u64;
        for (number, shard) in plan.iter().enumerate() {
            output::check_target(&shard.path, &options)?;
            let options = if number == 0 { &options } else { &later };
            size = size.saturating_add(shard.size(options)?);
        }
        let paths = plan.iter().map(|shard| shard.path.clone()).collect();
        let mut waiting = plan;
        waiting.reverse();
        let Some(first) = waiting.pop() else {
            return Err(Error::PlanMismatch {
                path: PathBuf::new(),
                reason: "there is no file to write".to_owned(),
            });
        };
        output::check_space(&first.path, size)?;
        let writer = open(&first, &options)?;
        let mut writer = ShardWriter {
            waiting,
            writer,
            done: Vec::new(),
            paths,
            options: later,
            size,
        };
        writer.advance()?;
        Ok(writer)
    }

    /// The size of all files together, in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// See [`Writer::next_tensor`].
    pub fn next_tensor(&self) -> Option<(&str, u64)> {
        self.writer.next_tensor()
    }

    /// See [`Writer::write`].
    ///
    /// # Errors
    /// Those of [`Writer::write`], and of [`Writer::create`] for the next file.
    pub fn write(&mut self, data: &[u8]) -> Result<()> {
        self.writer.write(data)?;
        self.advance()
    }

    /// See [`Writer::write_tensor`].
    ///
    /// # Errors
    /// Those of [`Writer::write_tensor`], and of [`Writer::create`] for the next file.
    pub fn write_tensor(&mut self, name: &str, data: &[u8]) -> Result<()> {
        self.writer.write_tensor(name, data)?;
        self.advance()
    }

    /// Brings all files to the disk and gives them their names.
    ///
    /// # Errors
    /// Those of [`Writer::finish`], for any of the files; then none of the files is there, and those that they were to replace are.
    pub fn finish(mut self) -> Result<()> {
        self.done.push(self.writer.stage()?);
        commit_set(self.done, &self.paths, self.options.force)
    }

    /// Goes on to the next file that has tensors, once this one is complete.
    fn advance(&mut self) -> Result<()> {
        while self.writer.next_tensor().is_none()
            && let Some(next) = self.waiting.pop()
        {
            let next = open(&next, &self.options)?;
            let complete = std::mem::replace(&mut self.writer, next);
            self.done.push(complete.stage()?.closed());
        }
        Ok(())
    }
}

/// Gives the files of a set their names. Those that they replace have second names meanwhile, by which they come back if a
/// file gets no name; a kill leaves them there.
pub(crate) fn commit_set(files: Vec<StagedFile>, paths: &[PathBuf], force: bool) -> Result<()> {
    let mut replaced = Vec::new();
    // One file alone is replaced in a single step.
    if force && paths.len() > 1 {
        let second_names = paths.iter().map(|path| second_name(path));
        replaced.extend(paths.iter().zip(second_names));
    }
    let done = output::commit_all(files);
    for (path, second) in replaced {
        let Some(second) = second else { continue };
        // Where the file still has its own name, renaming does nothing. There is nobody to tell of another failure: the file
        // keeps its second name then.
        if done.is_ok() || fs::rename(&second, path).is_ok() {
            let _ = fs::remove_file(&second);
        }
    }
    done
}

/// Gives a file a second name beside its own; none where there is no file, or on a file system without second names.
fn second_name(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?;
    let free = (0..100).find_map(|number| {
        let second = path.with_file_name(format!("{name}.{}-{number}.old", std::process::id()));
        match fs::hard_link(path, &second) {
            // Left by a killed process with the same id.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => None,
            linked => Some(linked.ok().map(|()| second)),
        }
    });
    free.flatten()
}

fn open(shard: &ShardPlan, options: &WriteOptions) -> Result<Writer> {
    Writer::create(&shard.path, &shard.metadata, &shard.tensors, options)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn divide(limits: ShardLimits, bytes: &[u64]) -> Vec<(usize, usize)> {
        let shards = limits.divide(bytes.iter().copied());
        shards
            .iter()
            .map(|shard| (shard.start, shard.end))
            .collect()
    }

    #[test]
    fn tensors_are_divided_by_number_and_by_size() {
        let by = |tensors, bytes, tensor_free_first| ShardLimits {
            tensors,
            bytes,
            tensor_free_first,
        };
        let sizes = [10, 10, 30, 5, 5];
        assert_eq!(divide(by(None, None, false), &sizes), [(0, 5)]);
        assert_eq!(
            divide(by(Some(2), None, false), &sizes),
            [(0, 2), (2, 4), (4, 5)]
        );
        assert_eq!(
            divide(by(None, Some(20), false), &sizes),
            [(0, 2), (2, 3), (3, 5)]
        );
        assert_eq!(
            divide(by(Some(1), Some(20), true), &sizes[..2]),
            [(0, 0), (0, 1), (1, 2)]
        );
        // A tensor over the limit has a shard of its own.
        assert_eq!(
            divide(by(None, Some(1), false), &sizes[..2]),
            [(0, 1), (1, 2)]
        );
        assert_eq!(divide(by(Some(3), None, false), &[]), [(0, 0)]);
        assert_eq!(divide(by(None, None, true), &[]), [(0, 0)]);
        let huge = [u64::MAX, u64::MAX];
        assert_eq!(divide(by(None, Some(20), false), &huge), [(0, 1), (1, 2)]);
    }
}
